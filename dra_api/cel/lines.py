"""CEL as a machine uses it: a decoded JSON document in, a document out (`drakit cel --jsonl`).

    {"expression": TEXT, "driver": TEXT, "attributes": {"NAME": DeviceAttribute}, "capacity": {"NAME": DeviceCapacity},
     "allowMultipleAllocations": BOOL, "featureGates": {"GATE": BOOL}, "environment": "new" or "stored"}

is answered with `{"match": BOOL}` or `{"matchError": TEXT}`, both with `estimatedCost` (2**64-1 without a bound) and
`actualCost` (absent when the device could not even be read), or with `{"compileError": TEXT}`. Only `expression` is
needed. A gate that is not named has its default of Kubernetes 1.37; gates matter for new expressions only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any, Final

from ..features import DEFAULTS_1_37
from ..quantity import QuantityError
from .device import DeviceInput
from .errors import CompileError
from .program import Kind, Program, compile_selector

_ENVIRONMENTS: Final[Mapping[Any, Kind]] = {"new": "new", "stored": "stored"}
_PARTS: Final = {
    "driver": (str, "a text"),
    "attributes": (dict, "an object"),
    "capacity": (dict, "an object"),
    "allowMultipleAllocations": (bool, "true or false"),
    "featureGates": (dict, "an object"),
}


class LineError(ValueError):
    """A document that cannot be read; the text says which part of it and what is wanted."""


def cel_answer(
    line: Mapping[str, Any],
    compile: Callable[[str, frozenset[str], Kind], Program] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> dict[str, Any]:
    """The answer to a document as above. `compile` may keep programs; by default the last hundred are kept.

    Raises LineError for a document that is none.
    """
    if not isinstance(line, Mapping):
        raise LineError("a line must be a JSON object")
    expression = line.get("expression")
    if not isinstance(expression, str):
        raise LineError("expression: must be a text")
    environment = _ENVIRONMENTS.get(line.get("environment") or "stored")
    if environment is None:
        raise LineError(f'environment: must be "new" or "stored", not {line["environment"]!r}')
    for name, (kind, wanted) in _PARTS.items():
        if line.get(name) is not None and not isinstance(line[name], kind):
            raise LineError(f"{name}: must be {wanted}")
    try:
        program = (compile or _compiled)(expression, _enabled(line.get("featureGates") or {}), environment)
    except CompileError as error:
        return {"compileError": str(error)}
    device = DeviceInput(
        driver=line.get("driver") or "",
        attributes=line.get("attributes") or {},
        capacity=line.get("capacity") or {},
        allow_multiple_allocations=line.get("allowMultipleAllocations"),
    )
    try:
        outcome = program.measure(device, cancelled)
    except QuantityError as error:
        raise LineError(f"capacity: {error}") from None
    except (AttributeError, TypeError) as error:
        raise LineError(f"attributes or capacity have a part of another type: {error!r}") from None
    answer: dict[str, Any] = (
        {"match": outcome.match} if outcome.error is None else {"matchError": outcome.error}
    )
    answer["estimatedCost"] = program.estimated_cost
    if outcome.cost is not None:
        answer["actualCost"] = outcome.cost
    return answer


def _enabled(gates: Mapping[str, Any]) -> frozenset[str]:
    for name, value in gates.items():
        if not isinstance(value, bool):
            raise LineError(f"featureGates.{name}: must be true or false, not {value!r}")
    return frozenset(name for name, on in {**DEFAULTS_1_37, **gates}.items() if on)


@lru_cache(maxsize=100)
def _compiled(expression: str, features: Collection[str], environment: Kind) -> Program:
    return compile_selector(expression, features=features, environment=environment)
