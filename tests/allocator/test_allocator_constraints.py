"""matchAttribute and distinctAttribute, for scalars and lists."""

from __future__ import annotations

from typing import Any

import pytest
from allocator_objects import allocate, claim, device, every, exact, first_of, picked, resource_slice, wanted

from allocator import AllocationError

LISTS = {"DRAListTypeAttributes": True}


def match(name: str, *requests: str) -> dict[str, Any]:
    return {"matchAttribute": f"gpu.example.com/{name}", **({"requests": list(requests)} if requests else {})}


def distinct(name: str, *requests: str) -> dict[str, Any]:
    return {
        "distinctAttribute": f"gpu.example.com/{name}",
        **({"requests": list(requests)} if requests else {}),
    }


def pool(*devices: dict[str, Any]) -> list[dict[str, Any]]:
    return [resource_slice("s", devices)]


def test_devices_must_agree_on_the_attribute() -> None:
    slices = pool(device("a", numa=0), device("b", numa=1), device("c"), device("d", numa=1))
    assert picked(allocate(slices, claim(exact(count=2), constraints=[match("numa")]))) == [
        ["r: pool/b", "r: pool/d"]
    ]
    assert allocate(slices, claim(exact(count=3), constraints=[match("numa")])) == []


def test_the_attribute_may_be_qualified_and_other_domains_are_not_the_drivers() -> None:
    qualified = {"gpu.example.com/numa": {"int": 1}, "other.example.com/numa": {"int": 5}}
    slices = pool(device("a", numa=1), device("b", attributes=qualified), device("c", numa=5))
    two = claim(exact(count=2), constraints=[match("numa")])
    assert picked(allocate(slices, two)) == [["r: pool/a", "r: pool/b"]]
    foreign = claim(exact(count=1), constraints=[{"matchAttribute": "other.example.com/numa"}])
    assert picked(allocate(slices, foreign)) == [["r: pool/b"]]


@pytest.mark.parametrize("constraint", [match, distinct])
def test_values_of_different_types_never_agree(constraint: Any) -> None:
    slices = pool(device("a", x=1), device("b", x=True), device("c", x="1"), device("d", x=1))
    expected = ["r: pool/a", "r: pool/d"] if constraint is match else ["r: pool/a", "r: pool/b"]
    assert picked(allocate(slices, claim(exact(count=2), constraints=[constraint("x")]))) == [expected]


def test_versions_agree_as_strings() -> None:
    versions = [{"driverVersion": {"version": text}} for text in ("1.0.0", "1.0.0+a", "1.0.0")]
    slices = pool(*(device(name, attributes=entry) for name, entry in zip("abc", versions, strict=True)))
    two = claim(exact(count=2), constraints=[match("driverVersion")])
    assert picked(allocate(slices, two)) == [["r: pool/a", "r: pool/c"]]


def test_a_constraint_covers_the_requests_that_it_names() -> None:
    slices = pool(device("a", numa=0), device("b", numa=1), device("c", numa=1))
    requests = (exact("x"), exact("y"), exact("z"))
    assert allocate(slices, claim(*requests, constraints=[match("numa")])) == []
    assert picked(allocate(slices, claim(*requests, constraints=[match("numa", "y", "z")]))) == [
        ["x: pool/a", "y: pool/b", "z: pool/c"]
    ]


def test_a_constraint_can_name_one_alternative_or_the_whole_list() -> None:
    slices = pool(device("a", numa=0), device("b", numa=1))
    requests = (exact("x"), first_of("y", wanted(), wanted()))
    assert allocate(slices, claim(*requests, constraints=[match("numa", "x", "y")])) == []
    assert picked(allocate(slices, claim(*requests, constraints=[match("numa", "x", "y/s0")]))) == [
        ["x: pool/a", "y/s1: pool/b"]
    ]


def test_distinct_devices_differ_in_the_attribute() -> None:
    slices = pool(device("a", card=1), device("b", card=1), device("c"), device("d", card=2))
    two = claim(exact("x"), exact("y"), constraints=[distinct("card")])
    assert picked(allocate(slices, two)) == [["x: pool/a", "y: pool/d"]]
    assert allocate(slices, claim(exact(count=3), constraints=[distinct("card")])) == []


def test_constraints_of_a_claim_do_not_concern_other_claims() -> None:
    slices = pool(device("a", numa=0), device("b", numa=1))
    one, other = (
        claim(exact(), constraints=[match("numa")]),
        claim(exact(), name="d", constraints=[match("numa")]),
    )
    assert picked(allocate(slices, one, other)) == [["r: pool/a"], ["r: pool/b"]]


def test_several_constraints_hold_together() -> None:
    slices = pool(
        device("a", numa=0, card=1),
        device("b", numa=0, card=1),
        device("c", numa=1, card=1),
        device("d", numa=1, card=2),
    )
    both = claim(exact(count=2), constraints=[match("numa"), distinct("card")])
    assert picked(allocate(slices, both)) == [["r: pool/c", "r: pool/d"]]


def test_all_devices_that_break_a_constraint_are_an_error() -> None:
    slices = pool(device("a", numa=0), device("b", numa=1))
    with pytest.raises(AllocationError) as caught:
        allocate(slices, claim(every(), constraints=[match("numa")]))
    assert caught.value.scope == "pod"
    assert str(caught.value) == (
        "claim ns/c, request r: cannot add device gpu.example.com/pool/b because a claim constraint would not be"
        " satisfied"
    )


def test_a_constraint_without_content_is_an_error() -> None:
    with pytest.raises(AllocationError) as caught:
        allocate([], claim(exact(), constraints=[match("x"), {}]))
    assert str(caught.value) == "claim ns/c, constraint #1: empty constraint (unsupported constraint type?)"


def test_lists_without_their_gate_suit_a_single_device_only() -> None:
    slices = pool(device("a", peers=[1, 2]), device("b", peers=[1, 2]))
    for constraint in (match("peers"), distinct("peers")):
        assert len(allocate(slices, claim(exact(), constraints=[constraint]))) == 1
        assert allocate(slices, claim(exact(count=2), constraints=[constraint])) == []


def test_lists_agree_by_a_common_element() -> None:
    slices = pool(
        device("a", root=[1, 2]), device("b", root=[2, 3]), device("c", root=[3, 1]), device("d", root=2)
    )
    constraint = [match("root")]
    # a and b leave {2}; c has no 2, d has.
    assert picked(allocate(slices, claim(exact(count=3), constraints=constraint), gates=LISTS)) == [
        ["r: pool/a", "r: pool/b", "r: pool/d"]
    ]
    assert allocate(slices, claim(exact(count=4), constraints=constraint), gates=LISTS) == []


def test_what_devices_have_in_common_is_restored_when_one_is_given_up() -> None:
    slices = pool(
        device("a", root=[1, 2]), device("b", root=[1]), device("c", root=[2]), device("d", root=[2, 9])
    )
    # a with b leaves {1}, a dead end; a with c and d leaves {2}.
    results = allocate(slices, claim(exact(count=3), constraints=[match("root")]), gates=LISTS)
    assert picked(results) == [["r: pool/a", "r: pool/c", "r: pool/d"]]


@pytest.mark.parametrize(
    ("constraint", "roots"),
    [(match, ([1], [2], [1, 2], [2])), (distinct, ([1, 2], [2], [3], [1]))],
)
def test_what_one_pair_of_devices_rules_out_another_may_allow(constraint: Any, roots: Any) -> None:
    slices = pool(*(device(name, root=root) for name, root in zip("abcd", roots, strict=True)))
    # a and b do not go together, nor do a, c and d.
    results = allocate(slices, claim(exact(count=3), constraints=[constraint("root")]), gates=LISTS)
    assert picked(results) == [["r: pool/b", "r: pool/c", "r: pool/d"]]


def test_lists_are_distinct_when_no_two_share_an_element() -> None:
    slices = pool(
        device("a", root=["x", "x"]),
        device("b", root=["y", "x"]),
        device("c", root=["y"]),
        device("d", root=[1]),
    )
    results = allocate(slices, claim(exact(count=3), constraints=[distinct("root")]), gates=LISTS)
    assert picked(results) == [["r: pool/a", "r: pool/c", "r: pool/d"]]


def test_an_attribute_without_a_value_satisfies_nothing_with_lists() -> None:
    slices = pool(device("a", attributes={"root": {"strings": []}}), device("b", root=["x"]))
    for constraint in (match("root"), distinct("root")):
        results = allocate(slices, claim(exact(), constraints=[constraint]), gates=LISTS)
        assert picked(results) == [["r: pool/b"]]


DERIVED = {"DRADerivedAttributes": True}
SCALARS = "must evaluate to a primitive scalar (string, integer, boolean, semver)"


def deriving(expression: str, count: int = 2, name: str = "gpu.example.com/half") -> dict[str, Any]:
    return exact(count=count, derivedAttributes=[{"name": name, "expression": expression}])


def test_derived_attributes_are_values_for_constraints() -> None:
    slices = pool(device("a", slot=1), device("b", slot=4), device("c", slot=5))
    halves = deriving('device.attributes["gpu.example.com"].slot / 4')
    assert picked(allocate(slices, claim(halves, constraints=[match("half")]), gates=DERIVED)) == [
        ["r: pool/b", "r: pool/c"]
    ]


def test_a_derived_attribute_hides_that_of_the_device() -> None:
    slices = pool(device("a", half=1), device("b", half=2), device("c", half=1))
    constraint = [match("half")]
    same = deriving('"x"')
    assert picked(allocate(slices, claim(same, constraints=constraint), gates=DERIVED)) == [
        ["r: pool/a", "r: pool/b"]
    ]
    plain = claim(exact(count=2), constraints=constraint)
    assert picked(allocate(slices, plain, gates=DERIVED)) == [["r: pool/a", "r: pool/c"]]


def test_derived_lists_need_a_common_element() -> None:
    slices = pool(device("a", slot=1), device("b", slot=3), device("c", slot=2))
    slot = 'int(device.attributes["gpu.example.com"].slot)'
    near = deriving(f"[{slot}, {slot} + 1]")
    gates = {**DERIVED, **LISTS}
    assert picked(allocate(slices, claim(near, constraints=[match("half")]), gates=gates)) == [
        ["r: pool/a", "r: pool/c"]
    ]
    empty = claim(deriving("[]", count=1), constraints=[match("half")])
    assert allocate(slices, empty, gates=gates) == []


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (
            'device.attributes["gpu.example.com"].slot',
            "evaluate derived attribute {name} on device gpu.example.com/pool/a failed: no such key: slot",
        ),
        (
            "1.5",
            f"compile derived attribute {{name}} failed: {SCALARS} or a list of these scalars, not double",
        ),
    ],
)
def test_derived_attributes_that_fail_end_the_attempt(expression: str, text: str) -> None:
    with pytest.raises(AllocationError) as caught:
        allocate(
            pool(device("a")), claim(deriving(expression, 1), constraints=[match("half")]), gates=DERIVED
        )
    assert (caught.value.scope, str(caught.value)) == ("pod", text.format(name="gpu.example.com/half"))


def test_derived_attributes_are_computed_only_when_a_constraint_wants_them() -> None:
    slices = pool(device("a"))
    assert picked(allocate(slices, claim(deriving("1/0", 1)), gates=DERIVED)) == [["r: pool/a"]]
