"""What random comparisons with upstream's allocator once found to be different (tests/oracle)."""

from __future__ import annotations

import pytest
from allocator_objects import NODE, allocate, claim, device, exact, picked, resource_slice

from allocator import AllocationError


def test_a_requirement_twice_in_one_selector_stands_once_in_the_result() -> None:
    twice = [{"key": "zone", "operator": "Exists"}, {"key": "zone", "operator": "Exists"}]
    selector = {"nodeSelectorTerms": [{"matchExpressions": twice}]}
    [result] = allocate([resource_slice("s", [device("d")], nodeSelector=selector)], claim(exact()))
    expected = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}
    assert result["nodeSelector"] == expected


def test_an_unknown_operator_is_answered_with_the_known_ones_in_upstreams_order() -> None:
    selector = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Near"}]}]}
    with pytest.raises(AllocationError) as caught:
        allocate([resource_slice("s", [device("d")], nodeSelector=selector)], claim(exact()), node=NODE)
    listed = 'supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"'
    assert str(caught.value).endswith(listed)


@pytest.mark.parametrize(
    ("default", "wanted", "served"),
    [
        ("0.5", "0.5", True),
        ("500m", "500m", True),
        ("0.5", "500m", False),
        ("500m", "0.5", False),
        ("5", "5.0", False),
        ("5", "5000m", False),
        ("5k", "5000", False),
    ],
)
def test_a_default_beyond_its_own_range_is_allowed_in_its_own_spelling_only(
    default: str, wanted: str, served: bool
) -> None:
    policy = {"default": default, "validRange": {"min": "0", "max": "0"}}
    capacity = {"m": {"value": "100k", "requestPolicy": policy}}
    slices = [resource_slice("s", [device("d", capacity=capacity)])]
    results = allocate(slices, claim(exact(capacity={"requests": {"m": wanted}})))
    assert picked(results) == ([["r: pool/d"]] if served else [])


def test_a_step_makes_a_new_quantity_that_is_never_the_default() -> None:
    policy = {"default": "5", "validRange": {"min": "0", "max": "0", "step": "1"}}
    capacity = {"m": {"value": "100", "requestPolicy": policy}}
    slices = [resource_slice("s", [device("d", capacity=capacity)])]
    assert allocate(slices, claim(exact(capacity={"requests": {"m": "5"}}))) == []
