"""Selectors for devices that were never seen before, beside cel-expr-python: `python -m benchmarks.cel`.

Each evaluation begins with the device as the API has it, so that binding it is part of the time; expressions are
compiled. Ours holds the cost limit of Kubernetes, the peer has none. The peer gets quantities and versions as maps with
one key, because its values cannot be Python objects, and compares them by functions in Python that remember what they
have parsed. Times are microseconds of processor time, the least of rounds that take turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks import table
from dra_api.cel import DeviceInput, compile_selector
from dra_api.quantity import Quantity
from dra_api.semver import Semver

DRIVER = "gpu.example.com"
_ATTRIBUTES = f'device.attributes["{DRIVER}"]'
_MEMORY = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0'
EXPRESSIONS = {
    "driver": f'device.driver == "{DRIVER}"',
    "one attribute": f'{_ATTRIBUTES}.model == "LATEST-GPU-MODEL"',
    "version": f'{_ATTRIBUTES}.driverVersion.compareTo(semver("1.0.0")) >= 0',
    "quantity": _MEMORY,
    "typical": f'device.driver == "{DRIVER}" && {_ATTRIBUTES}.architecture == "Hopper" && {_ATTRIBUTES}.index < 8'
    f' && {_MEMORY} && {_ATTRIBUTES}.productName.matches("^NVIDIA H[0-9]+$")',
}
DEVICE: dict[str, Any] = {
    "attributes": {
        "model": {"string": "LATEST-GPU-MODEL"},
        "index": {"int": 3},
        "uuid": {"string": "gpu-18db0e85-99e9-c746-8531-ffeb86328b39"},
        "driverVersion": {"version": "1.2.0"},
        "cudaComputeCapability": {"version": "9.0.0"},
        "architecture": {"string": "Hopper"},
        "brand": {"string": "Nvidia"},
        "mig": {"bool": False},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:01"},
        "productName": {"string": "NVIDIA H200"},
    },
    "capacity": {"memory": {"value": "80Gi"}, "cores": {"value": "132"}},
    "allowMultipleAllocations": True,
}


def main() -> None:
    parser = table.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--count", type=int, default=300, help="evaluations a round")
    given = parser.parse_args()
    table.show(_rows(given.rounds, given.count), given.markdown)


def _rows(rounds: int, count: int) -> Iterator[dict[str, Any]]:
    for name, expression in EXPRESSIONS.items():
        one, other = _ours(expression), _peer(expression)
        assert one() is True and other() is True
        ours, theirs = [], []
        for _ in range(rounds):
            ours.append(_time(one, count))
            theirs.append(_time(other, count))
        yield {
            "expression": name,
            "cel-expr-python us": round(min(theirs), 2),
            "drakit us": round(min(ours), 2),
            "ratio": round(min(ours) / min(theirs), 2),
        }


def _time(run: Callable[[], object], count: int) -> float:
    began = time.process_time()
    for _ in range(count):
        run()
    return (time.process_time() - began) / count * 1e6


def _ours(expression: str) -> Callable[[], object]:
    program = compile_selector(expression)
    attributes, capacity = DEVICE["attributes"], DEVICE["capacity"]
    return lambda: program.matches(DeviceInput(DRIVER, attributes, capacity, True))


def _peer(expression: str) -> Callable[[], object]:
    from cel_expr_python import cel

    text, bool_, dynamic = cel.Type.STRING, cel.Type.BOOL, cel.Type.DYN
    domains = cel.Type.Map(text, cel.Type.Map(text, dynamic))
    environment = cel.NewEnv(
        variables={"device.driver": text, "device.attributes": domains, "device.capacity": domains},
        extensions=[
            cel.CelExtension(
                "dra",
                [
                    _function(
                        cel, "quantity", [text], dynamic, lambda value: {_QUANTITY: value}, member=False
                    ),
                    _function(cel, "semver", [text], dynamic, lambda value: {_VERSION: value}, member=False),
                    _function(cel, "compareTo", [dynamic, dynamic], cel.Type.INT, _compare, member=True),
                ],
            )
        ],
    )
    program = environment.compile(expression)
    assert program.return_type() in (bool_, dynamic)

    def run() -> object:
        attributes: dict[str, dict[str, Any]] = {}
        for name, attribute in DEVICE["attributes"].items():
            domain, _, id = name.rpartition("/")
            ((kind, value),) = attribute.items()
            attributes.setdefault(domain or DRIVER, {})[id] = (
                {_VERSION: value} if kind == "version" else value
            )
        capacity: dict[str, dict[str, Any]] = {}
        for name, entry in DEVICE["capacity"].items():
            domain, _, id = name.rpartition("/")
            capacity.setdefault(domain or DRIVER, {})[id] = {_QUANTITY: entry["value"]}
        variables = {"device.driver": DRIVER, "device.attributes": attributes, "device.capacity": capacity}
        result = program.eval(environment.Activation(variables))
        if result.type() == cel.Type.ERROR:
            raise RuntimeError(result.value())
        return result.value()

    return run


_QUANTITY, _VERSION = "__quantity__", "__version__"
_PARSED: dict[str, Any] = {}


def _function(
    cel: Any, name: str, types: list[Any], result: Any, run: Callable[..., Any], *, member: bool
) -> Any:
    overload = cel.Overload(f"dra_{name}", return_type=result, parameters=types, is_member=member, impl=run)
    return cel.FunctionDecl(name, [overload])


def _compare(one: dict[str, str], other: dict[str, str]) -> int:
    left, right = _parsed(one), _parsed(other)
    return int(left > right) - int(left < right)


def _parsed(tagged: dict[str, str]) -> Any:
    ((tag, text),) = tagged.items()
    found = _PARSED.get(text)
    if found is None:
        found = _PARSED[text] = Quantity.parse(text) if tag == _QUANTITY else Semver.parse(text)
    return found


if __name__ == "__main__":
    main()
