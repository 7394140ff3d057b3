"""`drakit cel --jsonl`: one CEL expression for one device, as Kubernetes 1.37 compiles and evaluates it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final, cast

from dra_api import features
from dra_api.cel import CelRuntimeError, CompileError, DeviceInput, Program, compile_selector
from dra_api.cel.program import Kind
from dra_api.decode import DecodeError, decode_object
from dra_api.schema import GVK
from drakit.json_lines import LineError, check_keys, feature_gates, typed

ENVIRONMENTS: Final = ("new", "stored")
_KEYS: Final = (
    "expression",
    "driver",
    "attributes",
    "capacity",
    "allowMultipleAllocations",
    "featureGates",
    "environment",
)
_SLICE: Final = GVK.of("resource.k8s.io/v1", "ResourceSlice")
_KEPT: Final = 1000


class Evaluator:
    """Answers lines; keeps what it compiled for the next ones."""

    def __init__(self) -> None:
        self._programs: OrderedDict[tuple[str, Kind, frozenset[str]], Program | CompileError] = OrderedDict()

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to one line. Raises LineError."""
        check_keys(request, _KEYS, required=("expression",))
        expression = typed(request, "expression", str, "")
        environment = typed(request, "environment", str, "stored")
        if environment not in ENVIRONMENTS:
            raise LineError(f'environment: must be "new" or "stored", not "{environment}"')
        device = device_input(request)
        gates = enabled(feature_gates(request))
        program = self._program(expression, cast(Kind, environment), gates)
        if isinstance(program, CompileError):
            return {"compileError": str(program)}
        return evaluated(program, device)

    def _program(self, expression: str, environment: Kind, gates: frozenset[str]) -> Program | CompileError:
        key = (expression, environment, gates)
        known = self._programs.get(key)
        if known is not None:
            self._programs.move_to_end(key)
            return known
        try:
            known = compile_selector(expression, features=gates, environment=environment)
        except CompileError as error:
            known = error
        self._programs[key] = known
        if len(self._programs) > _KEPT:
            self._programs.popitem(last=False)
        return known


def evaluated(program: Program, device: DeviceInput) -> dict[str, Any]:
    """Match or error with both costs; the actual one is missing when the evaluation did not begin."""
    answer: dict[str, Any]
    try:
        result = program.evaluate(device)
        answer, cost = {"match": result.match}, result.cost
    except CelRuntimeError as error:
        answer = {"matchError": str(error)}
        if error.cost is None:
            return {**answer, "estimatedCost": program.estimated_cost}
        cost = error.cost
    return {**answer, "estimatedCost": program.estimated_cost, "actualCost": cost}


def enabled(chosen: Mapping[str, bool]) -> frozenset[str]:
    """The names of the gates that are on when the others have their default of 1.37."""
    return frozenset(name for name, on in {**features.DEFAULTS_1_37, **chosen}.items() if on)


def device_input(request: Mapping[str, Any]) -> DeviceInput:
    """The device of a line, read as strictly as the API reads one. Raises LineError."""
    driver = typed(request, "driver", str, "")
    device = {
        name: request[name]
        for name in ("attributes", "capacity", "allowMultipleAllocations")
        if request.get(name) is not None
    }
    body = {"metadata": {"name": "s"}, "spec": {"driver": driver, "devices": [{"name": "d", **device}]}}
    try:
        decoded = decode_object(body, _SLICE)
    except DecodeError as error:
        raise LineError(f"the device: {_without_place(error.message)}") from None
    if decoded.unknown:
        raise LineError(decoded.unknown[0].replace('"spec.devices[0].', '"'))
    found = decoded.object["spec"]["devices"][0]
    return DeviceInput(
        driver,
        found.get("attributes") or {},
        found.get("capacity") or {},
        found.get("allowMultipleAllocations"),
    )


def _without_place(message: str) -> str:
    return message.partition("cannot be handled as a ResourceSlice: ")[2] or message
