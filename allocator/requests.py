"""Requests of claims, read and checked before any device is picked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dra_api.quantity import Quantity

from .errors import AllocationError
from .features import Features
from .model import Device

MAX_RESULTS: Final = 32
"""Devices that one claim can be allocated."""
_MAX_INT64: Final = 2**63 - 1

Claim = Mapping[str, Any]
ClassLookup = Callable[[str], Mapping[str, Any] | None]
"""The DeviceClass of that name, None if there is none."""


@dataclass(eq=False, slots=True)
class Request:
    """One request, or one alternative of a prioritised list.

    `count` and, for allocation mode All, `devices` depend on the node and are filled in when its pools are known.
    """

    claim: str
    """`namespace/name` for error texts."""
    name: str
    parent: str
    """Name of the request with the list; empty when this is no alternative of one."""
    class_: Mapping[str, Any]
    class_selectors: tuple[str, ...]
    selectors: tuple[str, ...]
    takes_all: bool
    count: int
    admin_access: bool
    tolerations: Sequence[Mapping[str, Any]]
    capacity: Mapping[str, Quantity] | None
    derived_attributes: Mapping[str, str]
    devices: list[Device] = field(default_factory=list)

    @property
    def full_name(self) -> str:
        """The name in results: `request` or `request/subrequest`."""
        return f"{self.parent}/{self.name}" if self.parent else self.name

    @property
    def needs_free_devices(self) -> bool:
        """Whether it needs devices, and none that is in use will do."""
        return self.count > 0 and not self.takes_all and not self.admin_access

    def named_in(self, names: frozenset[str]) -> bool:
        """Whether a list of request names covers this one; an empty list covers all."""
        if not names or self.full_name in names:
            return True
        return bool(self.parent) and self.parent in names


@dataclass(frozen=True, slots=True, eq=False)
class RequestPlan:
    """A request of a claim with its alternatives (exactly one unless `prioritized`), best first."""

    name: str
    prioritized: bool
    choices: tuple[Request, ...]


def claim_name(claim: Claim) -> str:
    """The claim in error texts."""
    metadata = claim["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def read_requests(
    claim: Claim, features: Features, classes: ClassLookup, collect: Callable[[Request], list[Device]]
) -> list[RequestPlan]:
    """Read the requests of a claim in order.

    `collect` finds the devices of a request for all devices. Raises AllocationError for what cannot be served on
    any node.
    """
    plans = []
    least_total = 0
    for request in _devices(claim).get("requests") or ():
        name = request["name"]
        alternatives = request.get("firstAvailable") or ()
        _check_gates(claim, request, alternatives, features)
        choices = []
        for entry in alternatives or (request.get("exactly") or {},):
            parent = name if alternatives else ""
            choices.append(_read(claim, {"name": name, **entry}, parent, features, classes, collect))
        least = min(choice.count for choice in choices)
        if least > MAX_RESULTS - least_total:
            raise AllocationError(
                f"claim {claim_name(claim)}, request {name}: adding {least} devices exceeds the claim limit of"
                f" {MAX_RESULTS}, with {least_total} already accounted for"
            )
        least_total += least
        plans.append(RequestPlan(name, bool(alternatives), tuple(choices)))
    return plans


def _check_gates(
    claim: Claim, request: Mapping[str, Any], alternatives: Sequence[Mapping[str, Any]], features: Features
) -> None:
    where = f"claim {claim_name(claim)}"
    if alternatives and not features.prioritized_list:
        text = "has subrequests, but the DRAPrioritizedList feature is disabled"
        raise AllocationError(f"{where}, request {request['name']}: {text}")
    if features.consumable_capacity or features.stable:  # the stable implementation does not look
        return
    text = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
    if (request.get("exactly") or {}).get("capacity") is not None:
        raise AllocationError(f"{where}, request {request['name']}: {text}")
    for entry in alternatives:
        if entry.get("capacity") is not None:
            raise AllocationError(f"{where}, subrequest {entry['name']}: {text}")


def _read(
    claim: Claim,
    entry: Mapping[str, Any],
    parent: str,
    features: Features,
    classes: ClassLookup,
    collect: Callable[[Request], list[Device]],
) -> Request:
    name = entry["name"]
    where = f"claim {claim_name(claim)}, request {name}"
    derived = entry.get("derivedAttributes") or ()
    if derived and not features.derived_attributes:
        text = "cannot handle request with derived attributes, the feature is disabled"
        raise AllocationError(f"{where}: {text}")
    selectors = []
    for index, selector in enumerate(entry.get("selectors") or ()):
        if selector.get("cel") is None:
            text = f"selector #{index}: CEL expression empty (unsupported selector type?)"
            raise AllocationError(f"{where}, {text}")
        selectors.append(selector["cel"].get("expression") or "")
    if not features.admin_access and entry.get("adminAccess") is not None:
        raise AllocationError(f"{where}: admin access is requested, but the feature is disabled")
    class_ = _class(entry.get("deviceClassName") or "", where, classes)
    capacity = (entry.get("capacity") or {}).get("requests")
    request = Request(
        claim=claim_name(claim),
        name=name,
        parent=parent,
        class_=class_,
        class_selectors=tuple(
            (selector.get("cel") or {}).get("expression") or ""
            for selector in class_["spec"].get("selectors") or ()
        ),
        selectors=tuple(selectors),
        takes_all=False,
        count=0,
        admin_access=bool(entry.get("adminAccess")) and not parent,
        tolerations=entry.get("tolerations") or (),
        capacity=None
        if capacity is None
        else {key: Quantity.parse(str(amount)) for key, amount in capacity.items()},
        derived_attributes={item["name"]: item["expression"] for item in derived},
    )
    _count(request, entry, where, collect)
    return request


def _class(name: str, where: str, classes: ClassLookup) -> Mapping[str, Any]:
    if not name:
        raise AllocationError(f"{where}: missing device class name (unsupported request type?)")
    found = classes(name)
    if found is None:
        text = f'deviceclass.resource.k8s.io "{name}" not found'
        raise AllocationError(f"{where}: could not retrieve device class {name}: {text}")
    return found


def _count(
    request: Request, entry: Mapping[str, Any], where: str, collect: Callable[[Request], list[Device]]
) -> None:
    mode = entry.get("allocationMode") or ""
    if mode == "ExactCount":
        request.count = entry.get("count") or 0
        if request.count > _MAX_INT64:
            raise AllocationError(f"{where}: exact count {request.count} is too large")
    elif mode == "All":
        request.takes_all = True
        request.devices = collect(request)
        request.count = len(request.devices)
    else:
        raise AllocationError(f"{where}: unsupported count mode {mode}")


def _devices(claim: Claim) -> Mapping[str, Any]:
    devices: Mapping[str, Any] = claim["spec"].get("devices") or {}
    return devices
