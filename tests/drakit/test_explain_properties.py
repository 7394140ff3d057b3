"""drakit explain never says anything else than the allocator does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import worlds

from allocator import AllocationError, Allocator, CelCache
from allocator.explain import Explainer, holders_of
from drakit.explain import text
from drakit.offline.explaining import explain_claim
from drakit.offline.outlook import Outlook
from drakit.offline.settings import chosen_gates
from drakit.offline.world import World

SETTINGS = {
    "incubating": chosen_gates(""),
    "experimental": chosen_gates("all"),
    "stable": chosen_gates("DRAConsumableCapacity=false,DRADeviceBindingConditions=false"),
}
"""Gates by the implementation of upstream's that they stand for."""
every_allocator = pytest.mark.parametrize("gates", SETTINGS.values(), ids=list(SETTINGS))
Gates = Mapping[str, bool]


def allocated(outlook: Outlook, claims: list[Any], node: Any, slices: list[Any] | None = None) -> bool:
    allocator = Allocator(
        outlook.gates,
        claims,
        outlook.state,
        lambda name: outlook.classes.get("", name),
        outlook.slices if slices is None else slices,
        CelCache(),
    )
    try:
        return len(allocator.allocate(node)) == len(claims)
    except AllocationError:
        return False


def explainer(outlook: Outlook, claims: list[Any]) -> Explainer:
    return Explainer(
        outlook.gates,
        claims,
        outlook.state,
        lambda name: outlook.classes.get("", name),
        outlook.slices,
        holders=holders_of(outlook.all_claims.values()),
    )


@every_allocator
@settings(max_examples=80, deadline=None)
@given(world=worlds())
def test_possible_is_what_the_allocator_allocates(gates: Gates, world: World) -> None:
    outlook = Outlook(world, gates)
    claim = outlook.all_claims["default", "c"]
    for node in outlook.nodes:
        explained = explainer(outlook, [claim]).explain(node)
        assert explained.possible is allocated(outlook, [claim], node)
        assert explained.possible is (len(explained.results) == 1)
        if not explained.possible:
            assert explained.blocking is not None and explained.blocking.text
            assert explained.blocking.reason != "timeout"


@every_allocator
@settings(max_examples=80, deadline=None)
@given(world=worlds())
def test_explain_finds_possible_what_drakit_allocate_allocates(gates: Gates, world: World) -> None:
    claim = Outlook(world, gates).all_claims["default", "c"]
    document = explain_claim(Outlook(world, gates), claim)
    [attempt] = Outlook(world, gates).run()
    assert (document["state"] == "possible") is bool(attempt.node)
    assert any(node["possible"] for node in document["nodes"]) is bool(attempt.node)
    assert document["node"] == (attempt.node or None)
    assert text(document).startswith("claim default/c: ")


@every_allocator
@settings(max_examples=80, deadline=None)
@given(world=worlds(), data=st.data())
def test_a_free_device_can_be_had_alone_and_no_other_can(
    gates: Gates, world: World, data: st.DataObject
) -> None:
    """For requests for one device: constraints make no difference to a device that has the attribute."""
    outlook = Outlook(world, gates)
    claim = outlook.all_claims["default", "c"]
    request = data.draw(st.sampled_from(claim["spec"]["devices"]["requests"]))
    if "exactly" not in request:
        return
    one = {**request, "exactly": {**request["exactly"], "allocationMode": "ExactCount", "count": 1}}
    alone = {**claim, "spec": {"devices": {"requests": [one]}}}
    for node in outlook.nodes:
        [outcome, *_] = explainer(outlook, [alone]).explain(node).requests or [None]
        for device in outcome.devices if outcome is not None else ():
            # The others are still listed, as their counters count, but do not match.
            name = f'device.attributes["x"].?name.orValue("") == "{device.device.device}"'
            chosen = {"selectors": [{"cel": {"expression": name}}, *(one["exactly"].get("selectors") or ())]}
            only = {**one, "exactly": {**one["exactly"], **chosen}}
            asked = {**claim, "spec": {"devices": {"requests": [only]}}}
            can = allocated(outlook, [asked], node, [_named(entry) for entry in outlook.slices])
            assert can is (device.reason == "free"), (device, node["metadata"]["name"])


def _named(entry: dict[str, Any]) -> dict[str, Any]:
    devices = [
        {**device, "attributes": {**(device.get("attributes") or {}), "x/name": {"string": device["name"]}}}
        for device in entry["spec"].get("devices") or ()
    ]
    return {**entry, "spec": {**entry["spec"], **({"devices": devices} if devices else {})}}
