from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_api.conversion import VERSIONS, ConversionError, convert, wrong_nesting

FIXTURES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data" / "conversion.json").read_text(encoding="utf-8")
)
NAMES = [fixture["name"] for fixture in FIXTURES]


def versioned(fixture: dict[str, Any], shape: str, version: str) -> dict[str, Any]:
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": fixture["kind"],
        **copy.deepcopy(fixture[shape]),
    }


@pytest.mark.parametrize("fixture", FIXTURES, ids=NAMES)
def test_v1beta1_becomes_v1_and_back(fixture: dict[str, Any]) -> None:
    old, new = versioned(fixture, "v1beta1", "v1beta1"), versioned(fixture, "v1", "v1")
    assert convert(old, "resource.k8s.io/v1") == new
    assert convert(new, "resource.k8s.io/v1beta1") == old


@pytest.mark.parametrize("fixture", FIXTURES, ids=NAMES)
def test_v1beta2_has_the_shape_of_v1(fixture: dict[str, Any]) -> None:
    middle = versioned(fixture, "v1", "v1beta2")
    assert convert(middle, "resource.k8s.io/v1") == versioned(fixture, "v1", "v1")
    assert convert(middle, "resource.k8s.io/v1beta1") == versioned(fixture, "v1beta1", "v1beta1")


def test_lists_are_converted_item_by_item() -> None:
    items = [dict(fixture["v1beta1"]) for fixture in FIXTURES if fixture["kind"] == "ResourceSlice"]
    whole = {
        "apiVersion": "resource.k8s.io/v1beta1",
        "kind": "ResourceSliceList",
        "metadata": {},
        "items": items,
    }
    result = convert(whole, "resource.k8s.io/v1")
    assert result["apiVersion"] == "resource.k8s.io/v1"
    assert result["items"] == [fixture["v1"] for fixture in FIXTURES if fixture["kind"] == "ResourceSlice"]


def test_the_argument_stays_as_it_was() -> None:
    old = versioned(FIXTURES[2], "v1beta1", "v1beta1")
    before = copy.deepcopy(old)
    convert(old, "resource.k8s.io/v1")
    assert old == before


def test_unset_node_fields_of_v1beta1_vanish_in_v1() -> None:
    old = {
        "apiVersion": "resource.k8s.io/v1beta1",
        "kind": "ResourceSlice",
        "spec": {"driver": "d", "nodeName": "", "allNodes": False},
    }
    assert convert(old, "resource.k8s.io/v1")["spec"] == {"driver": "d"}


@pytest.mark.parametrize("target", ["v1", "v1beta2", "v1alpha3"])
def test_taint_rules_only_change_their_version(target: str) -> None:
    rule = {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "spec": {"deviceSelector": {}, "taint": {"key": "k", "effect": "None"}},
    }
    assert convert(rule, f"resource.k8s.io/{target}") == rule | {"apiVersion": f"resource.k8s.io/{target}"}


@pytest.mark.parametrize(
    ("kind", "source", "target", "advice"),
    [
        (
            "ResourceClaim",
            "resource.k8s.io/v1",
            "resource.k8s.io/v1alpha3",
            "it exists in resource.k8s.io/v1, ",
        ),
        ("DeviceTaintRule", "resource.k8s.io/v1beta1", "resource.k8s.io/v1", "resource.k8s.io/v1alpha3"),
        ("Pod", "v1", "resource.k8s.io/v1", "known kinds are DeviceClass"),
    ],
)
def test_unknown_versions_are_refused_with_advice(kind: str, source: str, target: str, advice: str) -> None:
    with pytest.raises(ConversionError, match=advice):
        convert({"apiVersion": source, "kind": kind}, target)


@pytest.mark.parametrize(
    ("version", "kind", "path", "text"),
    [
        (
            "v1",
            "ResourceClaim",
            "spec.devices.requests[0].deviceClassName",
            "unknown field deviceClassName; in v1 it is exactly.deviceClassName",
        ),
        (
            "v1beta2",
            "ResourceClaimTemplate",
            "spec.spec.devices.requests[3].count",
            "unknown field count; in v1beta2 it is exactly.count",
        ),
        (
            "v1beta1",
            "ResourceClaim",
            "spec.devices.requests[0].exactly",
            "unknown field exactly; in v1beta1 its fields stand in the request itself",
        ),
        (
            "v1",
            "ResourceSlice",
            "spec.devices[0].basic",
            "unknown field basic; in v1 its fields stand in the device itself",
        ),
        (
            "v1beta1",
            "ResourceSlice",
            "spec.devices[0].attributes",
            "unknown field attributes; in v1beta1 it is basic.attributes",
        ),
    ],
)
def test_wrong_nesting_is_explained(version: str, kind: str, path: str, text: str) -> None:
    assert wrong_nesting(f"resource.k8s.io/{version}", kind, path) == text


@pytest.mark.parametrize(
    ("api_version", "kind", "path"),
    [
        ("resource.k8s.io/v1", "ResourceClaim", "spec.devices.requests[0].devicClassName"),
        ("resource.k8s.io/v1", "ResourceClaim", "spec.deviceClassName"),
        ("v1", "Pod", "spec.devices.requests[0].deviceClassName"),
    ],
)
def test_other_unknown_fields_get_no_such_advice(api_version: str, kind: str, path: str) -> None:
    assert wrong_nesting(api_version, kind, path) is None


# Generated v1 objects, as the decoder leaves them: no null, no empty list, `deviceClassName` always present.
TEXT = st.text("abc-1", min_size=1, max_size=5)
SELECTORS = st.lists(
    st.fixed_dictionaries({"cel": st.fixed_dictionaries({"expression": TEXT})}), min_size=1, max_size=2
)
EXACTLY = st.fixed_dictionaries(
    {"deviceClassName": TEXT},
    optional={
        "selectors": SELECTORS,
        "allocationMode": st.sampled_from(["All", "ExactCount"]),
        "count": st.integers(1, 9),
        "adminAccess": st.booleans(),
        "tolerations": st.lists(st.fixed_dictionaries({"operator": TEXT}), min_size=1, max_size=2),
        "capacity": st.fixed_dictionaries({"requests": st.dictionaries(TEXT, TEXT, max_size=2)}),
        "derivedAttributes": st.lists(
            st.fixed_dictionaries({"name": TEXT, "expression": TEXT}), min_size=1, max_size=2
        ),
    },
)
SUB_REQUESTS = st.lists(
    st.fixed_dictionaries({"name": TEXT, "deviceClassName": TEXT}, optional={"selectors": SELECTORS}),
    min_size=1,
    max_size=3,
)
REQUESTS = st.fixed_dictionaries(
    {"name": TEXT}, optional={"exactly": EXACTLY, "firstAvailable": SUB_REQUESTS}
)
DEVICES = st.fixed_dictionaries(
    {"name": TEXT},
    optional={
        "attributes": st.dictionaries(
            TEXT, st.fixed_dictionaries({"int": st.integers()}), min_size=1, max_size=2
        ),
        "capacity": st.dictionaries(TEXT, st.fixed_dictionaries({"value": TEXT}), min_size=1, max_size=2),
        "nodeName": TEXT,
        "allNodes": st.booleans(),
        "taints": st.lists(st.fixed_dictionaries({"key": TEXT}), min_size=1, max_size=2),
        "bindsToNode": st.booleans(),
        "bindingConditions": st.lists(TEXT, min_size=1, max_size=2),
        "allowMultipleAllocations": st.booleans(),
    },
)
CLAIM_SPECS = st.fixed_dictionaries(
    {"devices": st.fixed_dictionaries({}, optional={"requests": st.lists(REQUESTS, min_size=1, max_size=3)})}
)
BODIES = st.one_of(
    st.tuples(st.just("ResourceClaim"), st.fixed_dictionaries({"spec": CLAIM_SPECS})),
    st.tuples(
        st.just("ResourceClaimTemplate"),
        st.fixed_dictionaries({"spec": st.fixed_dictionaries({"spec": CLAIM_SPECS})}),
    ),
    st.tuples(
        st.just("ResourceSlice"),
        st.fixed_dictionaries(
            {
                "spec": st.fixed_dictionaries(
                    {"driver": TEXT},
                    optional={
                        "nodeName": TEXT,
                        "allNodes": st.just(True),
                        "devices": st.lists(DEVICES, min_size=1, max_size=3),
                    },
                )
            }
        ),
    ),
)


@given(BODIES, st.permutations(["v1", "v1beta2", "v1beta1"]))
def test_any_round_through_the_versions_loses_nothing(
    body: tuple[str, dict[str, Any]], path: list[str]
) -> None:
    kind, content = body
    start = {"apiVersion": "resource.k8s.io/v1", "kind": kind, **content}
    current = start
    for version in [*path, "v1"]:
        assert version in VERSIONS[kind]
        current = convert(current, f"resource.k8s.io/{version}")
        assert current["apiVersion"] == f"resource.k8s.io/{version}"
    assert current == start
