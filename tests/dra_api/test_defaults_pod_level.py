"""Requests and limits of a Pod as a whole, and its QoS class."""

from __future__ import annotations

from typing import Any

import pytest

from dra_api.defaults_pod_level import fill_in, qos_class


def spec(whole: dict[str, Any] | None = None, *containers: dict[str, Any], init: Any = ()) -> dict[str, Any]:
    made: dict[str, Any] = {"containers": [{"resources": resources} for resources in containers]}
    if init:
        made["initContainers"] = [
            {"resources": resources, **({"restartPolicy": "Always"} if sidecar else {})}
            for resources, sidecar in init
        ]
    if whole is not None:
        made["resources"] = whole
    return made


def filled(*arguments: Any, **options: Any) -> Any:
    made = spec(*arguments, **options)
    fill_in(made)
    return made.get("resources")


def test_a_pod_without_resources_of_its_own_gets_none() -> None:
    assert filled(None, {"limits": {"cpu": "1"}}) is None
    assert filled({}, {"limits": {"cpu": "1"}}) == {}


def test_a_limit_alone_is_the_request_too() -> None:
    assert filled({"limits": {"cpu": "1", "memory": "100Mi"}, "requests": {"cpu": "500m"}}, {}) == {
        "limits": {"cpu": "1", "memory": "100Mi"},
        "requests": {"cpu": "500m", "memory": "100Mi"},
    }


def test_what_containers_ask_for_comes_before_the_limit() -> None:
    whole = {"limits": {"cpu": "2"}}
    containers = ({"requests": {"cpu": "250m", "memory": "1Gi"}}, {"requests": {"cpu": "250m", "x/y": "1"}})
    assert filled(whole, *containers) == {
        "limits": {"cpu": "2"},
        "requests": {"cpu": "500m", "memory": "1Gi"},
    }


def test_initialization_counts_where_it_needs_more() -> None:
    init = [
        ({"requests": {"cpu": "100m"}}, True),
        ({"requests": {"cpu": "1"}}, False),
    ]
    assert filled({"limits": {"cpu": "2"}}, {"requests": {"cpu": "500m"}}, init=init) == {
        "limits": {"cpu": "2"},
        "requests": {"cpu": "1100m"},
    }


def test_requests_alone_stay_as_they_are() -> None:
    whole = {"requests": {"cpu": "2"}}
    assert filled(whole, {"requests": {"cpu": "1", "memory": "1Gi"}}) == {"requests": {"cpu": "2"}}


def test_hugepages_of_containers_are_a_limit_of_the_pod_unless_it_asks_for_them() -> None:
    container = {"limits": {"hugepages-2Mi": "4Mi"}, "requests": {"hugepages-2Mi": "4Mi"}}
    assert filled({"requests": {"cpu": "1"}}, container, container) == {
        "limits": {"hugepages-2Mi": "8Mi"},
        "requests": {"cpu": "1", "hugepages-2Mi": "8Mi"},
    }
    whole = {"requests": {"hugepages-2Mi": "8Mi"}}
    assert filled(whole, container) == {"requests": {"hugepages-2Mi": "8Mi"}}


@pytest.mark.parametrize(
    ("whole", "containers", "wanted"),
    [
        (None, [{}], "BestEffort"),
        (None, [{"requests": {"cpu": "1"}}], "Burstable"),
        ({"requests": {"cpu": "1"}}, [{}], "Burstable"),
        ({"requests": {"cpu": "0"}}, [{"requests": {"cpu": "1"}}], "BestEffort"),
        (
            {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
            [{"requests": {"cpu": "1"}}],
            "Guaranteed",
        ),
        ({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}, [{}], "Burstable"),
        ({}, [{"requests": {"cpu": "1"}}], "Burstable"),
        ({"requests": {"x/y": "1"}}, [{}], "BestEffort"),
    ],
)
def test_the_class_is_by_the_pod_if_it_has_resources(
    whole: dict[str, Any] | None, containers: list[dict[str, Any]], wanted: str
) -> None:
    assert qos_class(spec(whole, *containers)) == wanted
