"""What counts as in use."""

from __future__ import annotations

from typing import Any

from allocator import AllocatedDevices, AllocatedState, DeviceID, SharedDeviceID, allocated
from dra_api.quantity import Quantity

A = DeviceID("d.example.com", "pool", "a")


def holder(*results: dict[str, Any]) -> dict[str, Any]:
    named = [{"request": "r", "driver": "d.example.com", "pool": "pool", **entry} for entry in results]
    return {"metadata": {"name": "c"}, "spec": {}, "status": {"allocation": {"devices": {"results": named}}}}


def share(name: str, **amounts: str) -> dict[str, Any]:
    return {"device": "a", "shareID": name, "consumedCapacity": amounts}


def test_devices_count_unless_they_were_given_for_admin_access() -> None:
    claims = [holder({"device": "a"}, {"device": "b", "adminAccess": True}), {"metadata": {}, "spec": {}}]
    assert allocated(claims).devices == {A}


def test_shares_add_up() -> None:
    state = allocated([holder(share("1", memory="1Gi", cores="500m")), holder(share("2", memory="1Gi"))])
    assert state.devices == frozenset()
    assert state.shares == {SharedDeviceID(A, "1"), SharedDeviceID(A, "2")}
    assert state.capacity == {A: {"memory": Quantity.parse("2Gi"), "cores": Quantity.parse("0.5")}}
    assert state.shared_devices == {A}


def test_a_share_without_capacity_still_marks_the_device() -> None:
    state = allocated([holder({"device": "a", "shareID": "1"})])
    assert (state.capacity, state.shared_devices) == ({}, {A})


def test_shares_are_whole_devices_without_the_gate() -> None:
    assert allocated([holder(share("1", memory="1"))], consumable_capacity=False) == AllocatedState(
        frozenset({A})
    )


def test_changes_of_claims_are_followed() -> None:
    devices = AllocatedDevices()
    plain: dict[str, Any] = {"metadata": {"name": "c"}, "spec": {}}
    first, second = holder({"device": "a"}), holder(share("1", memory="2"), {"device": "b"})
    devices.update(None, plain)
    devices.update(plain, first)
    devices.update(None, second)
    devices.update(first, {**first, "metadata": {"name": "c", "labels": {}}})
    assert devices.state().devices == {A, A._replace(device="b")}
    devices.update(first, plain)
    devices.update(second, None)
    assert devices.state() == AllocatedState()


def test_an_allocation_that_took_the_place_of_another_unseen_is_followed() -> None:
    devices = AllocatedDevices()
    before, after = holder({"device": "b"}), holder(share("1", memory="2"))
    devices.update(None, before)
    devices.update(before, after)
    assert devices.state() == allocated([after])


def test_allocations_in_flight_count_in_the_snapshot_only() -> None:
    devices = AllocatedDevices()
    devices.update(None, holder(share("1", memory="2")))
    with_flight = devices.state([holder(share("2", memory="3"), {"device": "b"})])
    assert with_flight.capacity == {A: {"memory": Quantity(5)}}
    assert with_flight.devices == {A._replace(device="b")}
    assert devices.state().capacity == {A: {"memory": Quantity(2)}}


def test_a_snapshot_does_not_follow_later_changes() -> None:
    devices = AllocatedDevices()
    before = devices.state()
    devices.update(None, holder({"device": "a"}))
    assert before.devices == frozenset()
