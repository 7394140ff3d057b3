"""Mutants of the allocator: which devices are found for a claim."""

from __future__ import annotations

import dataclasses
from typing import Any

from allocator import allocator, model, pools, requests, results, search
from allocator.allocator import _Attempt
from allocator.constraints import MatchAttribute
from allocator.errors import AllocationError
from allocator.search import Search
from allocator.selectors import CelCache
from dra_api.cel import steps, values
from dra_api.cel.errors import EvalError
from tests.mutants.registry import component_mutant

SELECT = _Attempt._select
ALL = CelCache.all_match


@component_mutant("class-is-driver")
def class_is_driver() -> None:
    """A class that is called like a driver has the devices of that driver."""

    def select(self: _Attempt, request: Any, device: Any) -> bool:
        name = request.class_["metadata"]["name"]
        if any(name == other.id.driver for pool in self._pools for other in pool.devices):
            return bool(device.id.driver == name)
        return SELECT(self, request, device)

    _Attempt._select = select  # type: ignore[method-assign]


@component_mutant("empty-class-is-empty")
def empty_class_is_empty() -> None:
    """A class without selectors has no devices."""

    def select(self: _Attempt, request: Any, device: Any) -> bool:
        return bool(request.class_selectors) and SELECT(self, request, device)

    _Attempt._select = select  # type: ignore[method-assign]


@component_mutant("first-selector-only")
def first_selector_only() -> None:
    """Of several selectors only the first is evaluated."""

    def match(self: CelCache, expressions: Any, *rest: Any) -> bool:
        return ALL(self, expressions[:1], *rest)

    CelCache.all_match = match  # type: ignore[method-assign]


@component_mutant("class-selectors-only")
def class_selectors_only() -> None:
    """The selectors of requests are not evaluated."""

    def match(self: CelCache, expressions: Any, device: Any, owner: str, *rest: Any) -> bool:
        return not owner.startswith("class ") or ALL(self, expressions, device, owner, *rest)

    CelCache.all_match = match  # type: ignore[method-assign]


@component_mutant("reverses-pools")
def reverses_pools() -> None:
    """The last pool comes first."""
    real = pools.gather
    allocator.gather = lambda *arguments: real(*arguments)[::-1]  # type: ignore[attr-defined]


@component_mutant("reverses-slices")
def reverses_slices() -> None:
    """The last slice of a pool comes first."""
    real = pools._build

    def build(*arguments: Any) -> Any:
        pool = real(*arguments)
        return dataclasses.replace(pool, slices=pool.slices[::-1])

    pools._build = build


@component_mutant("reverses-devices")
def reverses_devices() -> None:
    """The last device of a slice comes first."""
    real = pools._build

    def build(*arguments: Any) -> Any:
        pool = real(*arguments)
        slices = tuple(dataclasses.replace(entry, devices=entry.devices[::-1]) for entry in pool.slices)
        return dataclasses.replace(pool, slices=slices)

    pools._build = build


def _change_requests(change: Any) -> None:
    real = requests._count

    def count(request: Any, *arguments: Any) -> None:
        real(request, *arguments)
        change(request)

    requests._count = count


@component_mutant("counts-to-one")
def counts_to_one() -> None:
    """Every request gets one device."""

    def one(request: Any) -> None:
        request.count = min(request.count, 1)

    _change_requests(one)


@component_mutant("takes-what-there-is")
def takes_what_there_is() -> None:
    """A request for more devices than there are gets those that there are."""
    real = Search._devices

    def devices(self: Search, claim: int, number: int, request: Any, index: int, *rest: Any) -> Any:
        outcome = yield from real(self, claim, number, request, index, *rest)
        if outcome is not search._Outcome.FOUND and index > 0:
            return (yield self._request(claim, number + 1))
        return outcome

    Search._devices = devices  # type: ignore[method-assign]


@component_mutant("judges-filtered-pools")
def judges_filtered_pools() -> None:
    """A pool counts as incomplete when some of its slices are of other nodes."""
    real = pools._complete

    def complete(pool_id: Any, slices: Any, index: Any, features: Any) -> Any:
        if len(slices) != slices[0].header.slice_count:
            return pools.Pool(pool_id, incomplete=True)
        return real(pool_id, slices, index, features)

    pools._complete = complete


@component_mutant("all-may-be-none")
def all_may_be_none() -> None:
    """All devices of a node without devices are none, which is fine."""
    real = Search._devices

    def devices(self: Search, claim: int, number: int, request: Any, *rest: Any) -> Any:
        if request.takes_all and not request.devices:
            return (yield self._request(claim, number + 1))
        return (yield from real(self, claim, number, request, *rest))

    Search._devices = devices  # type: ignore[method-assign]


@component_mutant("all-of-the-rest")
def all_of_the_rest() -> None:
    """All devices are those that nobody uses."""
    real = _Attempt._collect

    def collect(self: _Attempt, request: Any) -> list[Any]:
        return [device for device in real(self, request) if device.id not in self._cluster.state.devices]

    _Attempt._collect = collect  # type: ignore[method-assign]


@component_mutant("all-of-a-part")
def all_of_a_part() -> None:
    """Pools that lack slices are passed over; what they have is all."""
    real = pools._complete

    def complete(pool_id: Any, slices: Any, index: Any, features: Any) -> Any:
        pool = real(pool_id, slices, index, features)
        if pool is not None and pool.incomplete:
            return pools._build(pool_id, slices, (), features)
        return pool

    pools._complete = complete


@component_mutant("ignores-match")
def ignores_match() -> None:
    """Devices need not match in any attribute."""
    MatchAttribute.add = lambda self, request, device: True  # type: ignore[method-assign]
    MatchAttribute.remove = lambda self, request: None  # type: ignore[method-assign]


@component_mutant("names-first-request")
def names_first_request() -> None:
    """All results are said to be for the first request."""
    real = results.allocation_result

    def result(claim: Any, *arguments: Any) -> Any:
        found = real(claim, *arguments)
        for entry in found["devices"].get("results") or ():
            entry["request"] = claim["spec"]["devices"]["requests"][0]["name"]
        return found

    allocator.allocation_result = result  # type: ignore[attr-defined]


def _change_configs(change: Any) -> None:
    real = results._configs
    results._configs = lambda claim, chosen: change(real(claim, chosen))


@component_mutant("forgets-class-config")
def forgets_class_config() -> None:
    """Configurations of classes are not copied."""
    _change_configs(lambda configs: [entry for entry in configs if entry["source"] != "FromClass"])


@component_mutant("claim-config-first")
def claim_config_first() -> None:
    """Configurations of the claim come before those of its classes, which so override them."""
    _change_configs(lambda configs: configs[::-1])


@component_mutant("config-for-everybody")
def config_for_everybody() -> None:
    """Configurations of classes do not say which requests they are for."""

    def widened(configs: Any) -> Any:
        for entry in configs:
            if entry["source"] == "FromClass":
                entry.pop("requests", None)
        return configs

    _change_configs(widened)


@component_mutant("swallows-cel-errors")
def swallows_cel_errors() -> None:
    """A device for which a selector fails does not match."""

    def match(self: CelCache, *arguments: Any) -> bool:
        try:
            return ALL(self, *arguments)
        except AllocationError:
            return False

    CelCache.all_match = match  # type: ignore[method-assign]


@component_mutant("misses-are-errors")
def misses_are_errors() -> None:
    """Asking whether an attribute is there is an error when it is not."""
    real = values.CelMap.find

    def find(self: Any, key: Any) -> Any:
        found = real(self, key)
        if found is values.MISSING:
            raise EvalError(f"no such key: {key}")
        return found

    values.CelMap.find = find  # type: ignore[method-assign]


@component_mutant("unknown-domain-is-an-error")
def unknown_domain_is_an_error() -> None:
    """Looking at a domain in which a device has no attributes is an error."""
    real = values.CelMap.find

    def find(self: Any, key: Any) -> Any:
        found = real(self, key)
        if found is values.MISSING:
            raise EvalError(f"no such key: {key}")
        return found

    values.DomainMap.find = find  # type: ignore[method-assign]


@component_mutant("bare-names-in-no-domain")
def bare_names_in_no_domain() -> None:
    """Attributes with a bare name are in no domain that a selector could name."""
    real = model.DeviceInput

    def given(attributes: Any, **parts: Any) -> Any:
        qualified = {name: value for name, value in attributes.items() if "/" in name}
        return real(attributes=qualified, **parts)

    model.DeviceInput = given  # type: ignore[misc,assignment]


@component_mutant("loose-equality")
def loose_equality() -> None:
    """Values are equal when their texts are."""
    steps.equal = lambda left, right: str(left) == str(right)  # type: ignore[attr-defined]


@component_mutant("forgets-where")
def forgets_where() -> None:
    """Allocations do not say on which nodes they can be used."""
    results._node_selector = lambda *arguments: None


@component_mutant("pins-network-devices")
def pins_network_devices() -> None:
    """Every allocation is tied to the node for which it was found."""

    def selector(claim: Any, picks: Any, node_name: str, features: Any) -> Any:
        field = {"key": "metadata.name", "operator": "In", "values": [node_name]}
        return {"nodeSelectorTerms": [{"matchFields": [field]}]}

    results._node_selector = selector


@component_mutant("admin-waits-too")
def admin_waits_too() -> None:
    """A request with admin access gets free devices only."""
    real = Search._free

    def free(self: Search, claim: int, request: Any, device: Any) -> bool:
        return device not in self._around.state.devices and real(self, claim, request, device)

    Search._free = free  # type: ignore[method-assign]
