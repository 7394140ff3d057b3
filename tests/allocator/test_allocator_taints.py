"""Taints, tolerations and admin access."""

from __future__ import annotations

from typing import Any

import pytest
from allocator_objects import allocate, claim, device, every, exact, in_use, picked, resource_slice

from allocator.taints import tolerates

TAINT = {"key": "broken", "value": "fan", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("toleration", "covered"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "broken", "operator": "Exists"}, True),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "broken", "value": "fan"}, True),
        ({"key": "broken", "operator": "Equal", "value": "fan", "effect": "NoSchedule"}, True),
        ({"key": "broken", "operator": "Equal", "value": "chip"}, False),
        ({"key": "broken", "operator": "Equal"}, False),
        ({"operator": "Equal", "value": "fan"}, True),
        ({"key": "broken", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "broken", "operator": "Like", "value": "fan"}, False),
    ],
)
def test_tolerations(toleration: dict[str, Any], covered: bool) -> None:
    assert tolerates(toleration, TAINT) is covered


def test_every_blocking_taint_must_be_tolerated() -> None:
    second = {"key": "leaving", "effect": "NoExecute"}
    slices = [resource_slice("s", [device("a", taints=[TAINT, second])])]
    one, other = {"key": "broken", "operator": "Exists"}, {"key": "leaving", "operator": "Exists"}
    assert allocate(slices, claim(exact())) == []
    assert allocate(slices, claim(exact(tolerations=[one]))) == []
    assert len(allocate(slices, claim(exact(tolerations=[one, other])))) == 1
    assert len(allocate(slices, claim(exact()), gates={"DRADeviceTaints": False})) == 1


@pytest.mark.parametrize("effect", ["None", "Unheard"])
def test_other_effects_do_not_block(effect: str) -> None:
    slices = [resource_slice("s", [device("a", taints=[{"key": "k", "effect": effect}])])]
    assert len(allocate(slices, claim(exact()))) == 1


def test_all_fails_for_a_taint_instead_of_leaving_the_device_out() -> None:
    slices = [resource_slice("s", [device("a"), device("b", taints=[TAINT])])]
    assert allocate(slices, claim(every())) == []


def test_admin_access_gets_devices_in_use_but_not_twice_for_one_claim() -> None:
    slices = [resource_slice("s", [device("a")])]
    admin = exact("x", adminAccess=True)
    [result] = allocate(slices, claim(admin), state=in_use("a"))
    assert result["devices"]["results"][0]["adminAccess"] is True
    assert allocate(slices, claim(admin, exact("y", adminAccess=True))) == []
    assert len(allocate(slices, claim(admin), claim(admin, name="d"))) == 2


def test_admin_access_of_a_pod_keeps_its_other_requests_away() -> None:
    slices = [resource_slice("s", [device("a")])]
    admin, plain = exact("x", adminAccess=True), exact("y")
    assert allocate(slices, claim(admin), claim(plain, name="d")) == []
    assert len(allocate(slices, claim(plain), claim(admin, name="d"))) == 2


def test_admin_access_needs_tolerations() -> None:
    slices = [resource_slice("s", [device("a", taints=[TAINT])])]
    assert allocate(slices, claim(exact(adminAccess=True))) == []


def test_admin_access_to_all_devices() -> None:
    slices = [resource_slice("s", [device("a"), device("b")])]
    assert picked(allocate(slices, claim(every(adminAccess=True)), state=in_use("b"))) == [
        ["r: pool/a", "r: pool/b"]
    ]


def test_admin_access_denied_is_no_admin_access() -> None:
    slices = [resource_slice("s", [device("a")])]
    [result] = allocate(slices, claim(exact(adminAccess=False)))
    assert "adminAccess" not in result["devices"]["results"][0]
    assert allocate(slices, claim(exact(adminAccess=False)), state=in_use("a")) == []
