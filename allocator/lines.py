"""The allocator as a machine uses it: a decoded JSON document in, a document out (`drakit allocate --jsonl`).

    {"node": Node, "claims": [ResourceClaim], "deviceClasses": [DeviceClass], "resourceSlices": [ResourceSlice],
     "allocated": {"devices": ["DRIVER/POOL/DEVICE"], "shared": ["DRIVER/POOL/DEVICE/SHAREID"],
                   "capacity": {"DRIVER/POOL/DEVICE": {"NAME": "QUANTITY"}}},
     "featureGates": {"GATE": true}}

is answered with `{"results": [AllocationResult]}`, one for each claim and none at all when the claims are not possible
on the node, or with `{"error": TEXT, "scope": "node" or "pod"}`. Objects are those of resource.k8s.io/v1 as an API
server has stored them: defaults are not filled in. Only `node` and `claims` are needed. A gate that is not named has
its default of Kubernetes 1.37, gates that do not concern the allocator do not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dra_api.quantity import Quantity, QuantityError

from .allocator import Allocator
from .errors import AllocationError
from .features import Implementation
from .model import DeviceID
from .selectors import CelCache
from .state import AllocatedState, SharedDeviceID


class LineError(ValueError):
    """A document that cannot be read; the text says which part of it and what is wanted."""


def allocation_answer(
    line: Mapping[str, Any],
    cel: CelCache | None = None,
    *,
    implementation: Implementation | None = "experimental",
    cancelled: Callable[[], bool] | None = None,
) -> dict[str, Any]:
    """The answer to a document as above. `cel` keeps compiled expressions for the next one.

    `implementation`: which of upstream's allocators to follow; None leaves the choice to the gates, as in a scheduler.
    Raises LineError for a document that is none.
    """
    node = _part(line, "node", dict)
    if not isinstance(node.get("metadata"), dict) or not node["metadata"].get("name"):
        raise LineError("node: metadata.name is needed")
    gates = _part(line, "featureGates", dict, {})
    for name, value in gates.items():
        if not isinstance(value, bool):
            raise LineError(f"featureGates.{name}: must be true or false, not {value!r}")
    classes = {
        entry["metadata"]["name"]: entry for entry in reversed(_objects(line, "deviceClasses", needed=False))
    }
    claims = _objects(line, "claims")
    slices = _objects(line, "resourceSlices", needed=False)
    try:
        allocator = Allocator(
            gates,
            claims,
            _state(_part(line, "allocated", dict, {})),
            classes.get,
            slices,
            cel or CelCache(),
            implementation=implementation,
        )
        return {"results": allocator.allocate(node, cancelled)}
    except AllocationError as error:
        return {"error": str(error), "scope": error.scope}
    except QuantityError as error:
        raise LineError(f"a quantity in the objects cannot be read: {error}") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise LineError(f"an object lacks a part or has one of another type: {error!r}") from None


def _part(line: Mapping[str, Any], name: str, kind: type, default: Any = None) -> Any:
    if not isinstance(line, Mapping):
        raise LineError("a line must be a JSON object")
    value = line.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, kind):
        wanted = "an object" if kind is dict else "a list"
        raise LineError(f"{name}: must be {wanted}" + ("" if name in line else ", and is missing"))
    return value


def _objects(line: Mapping[str, Any], name: str, needed: bool = True) -> list[Mapping[str, Any]]:
    # Go writes an empty list as null.
    objects: list[Mapping[str, Any]] = _part(line, name, list, None if needed and name not in line else [])
    for index, entry in enumerate(objects):
        if not isinstance(entry, dict):
            raise LineError(f"{name}[{index}]: must be an object")
        for part in ("metadata", "spec"):
            if not isinstance(entry.get(part), dict):
                raise LineError(f"{name}[{index}].{part}: must be an object")
        if not isinstance(entry["metadata"].get("name"), str):
            raise LineError(f"{name}[{index}].metadata.name: must be a text")
    return objects


def _state(allocated: Mapping[str, Any]) -> AllocatedState:
    devices = frozenset(_device(text, "devices") for text in _part(allocated, "devices", list, []))
    shares = []
    for text in _part(allocated, "shared", list, []):
        device, slash, share = str(text).rpartition("/")
        if not slash:
            raise LineError(f'allocated.shared: "{text}" is not DRIVER/POOL/DEVICE/SHAREID')
        shares.append(SharedDeviceID(_device(device, "shared"), share))
    capacity = {
        _device(text, "capacity"): _amounts(amounts, text)
        for text, amounts in _part(allocated, "capacity", dict, {}).items()
    }
    return AllocatedState(devices, frozenset(shares), capacity)


def _device(text: Any, where: str) -> DeviceID:
    """Names of pools may have slashes, those of drivers and devices have none."""
    driver, first, rest = str(text).partition("/")
    pool, last, device = rest.rpartition("/")
    if not (first and last):
        raise LineError(f'allocated.{where}: "{text}" is not DRIVER/POOL/DEVICE')
    return DeviceID(driver, pool, device)


def _amounts(amounts: Any, device: str) -> dict[str, Quantity]:
    where = f'allocated.capacity["{device}"]'
    if not isinstance(amounts, dict):
        raise LineError(f"{where}: must be an object")
    try:
        return {name: Quantity.parse(str(amount)) for name, amount in amounts.items()}
    except QuantityError as error:
        raise LineError(f"{where}: {error}") from None
