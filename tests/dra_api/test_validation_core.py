from __future__ import annotations

from typing import Any

import pytest

from dra_api.validation.core import (
    validate_create,
    validate_finalize,
    validate_status_update,
    validate_update,
)


def texts(errors: Any) -> list[str]:
    return [str(error) for error in errors]


def pod(claims: list[dict[str, Any]], uses: list[dict[str, Any]], **status: Any) -> dict[str, Any]:
    container = {
        "name": "c",
        "image": "i",
        "resources": {
            "claims": uses,
            "requests": {"example.com/gpu": "1"},
            "limits": {"example.com/gpu": "1"},
        },
    }
    spec = {"restartPolicy": "Always", "containers": [container], "resourceClaims": claims}
    return {"kind": "Pod", "metadata": {"name": "p"}, "spec": spec, "status": status}


ONE = [{"name": "a", "resourceClaimName": "x"}]


def test_a_pod_with_a_claim_and_its_uses() -> None:
    assert validate_create(pod(ONE, [{"name": "a", "request": "r"}, {"name": "a", "request": "s"}])) == []


@pytest.mark.parametrize(
    ("claims", "errors"),
    [
        ([{"name": "", "resourceClaimName": "x"}], ["spec.resourceClaims[0].name: Required value"]),
        (ONE + ONE, ['spec.resourceClaims[1].name: Duplicate value: "a"']),
        (
            [{"name": "a"}],
            [
                (
                    'spec.resourceClaims[0]: Invalid value: {"Name":"a","ResourceClaimName":null,'
                    '"ResourceClaimTemplateName":null}: must specify one of: `resourceClaimName`, '
                    "`resourceClaimTemplateName`"
                )
            ],
        ),
        (
            [{"name": "a", "resourceClaimName": "x", "resourceClaimTemplateName": "y"}],
            [
                (
                    'spec.resourceClaims[0]: Invalid value: {"Name":"a","ResourceClaimName":"x",'
                    '"ResourceClaimTemplateName":"y"}: at most one of `resourceClaimName` or '
                    "`resourceClaimTemplateName` may be specified"
                )
            ],
        ),
    ],
)
def test_claims_of_a_pod(claims: list[dict[str, Any]], errors: list[str]) -> None:
    assert texts(validate_create(pod(claims, []))) == errors


@pytest.mark.parametrize(
    ("uses", "where", "text"),
    [
        ([{"name": "b"}], "[0]", 'Not found: "b": must be one of the names in pod.spec.resourceClaims: a'),
        ([{"name": "a"}, {"name": "a"}], "[1]", 'Duplicate value: "a"'),
        ([{"name": "a"}, {"name": "a", "request": "r"}], "[1]", 'Duplicate value: "a"'),
        ([{"name": "a", "request": "r"}, {"name": "a"}], "[1]", 'Duplicate value: "a"'),
        ([{"name": "a", "request": "r"}] * 2, "[1]", 'Duplicate value: "a/r"'),
        ([{}], "[0]", "Required value"),
    ],
)
def test_uses_of_claims(uses: list[dict[str, Any]], where: str, text: str) -> None:
    path = f"spec.containers[0].resources.claims{where}"
    assert texts(validate_create(pod(ONE, uses))) == [f"{path}: {text}"]


def test_a_use_without_any_claim_says_so() -> None:
    (error,) = validate_create(pod([], [{"name": "a"}]))
    assert (
        error.message == 'Not found: "a": must be one of the names in pod.spec.resourceClaims which is empty'
    )


def test_sub_requests_cannot_be_used() -> None:
    (error,) = validate_create(pod(ONE, [{"name": "a", "request": "r/s"}]))
    assert error.field == "spec.containers[0].resources.claims[0].request"


def test_static_pods_have_no_claims() -> None:
    static = pod(ONE, [])
    static["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    assert texts(validate_create(static)) == ["[]: Forbidden: static pods do not support resource claims"]


def test_claim_statuses_of_a_pod() -> None:
    status = pod(
        ONE, [], resourceClaimStatuses=[{"name": "b"}, {"name": "a"}, {"name": "a", "resourceClaimName": "A"}]
    )
    errors = validate_status_update(status, status)
    assert [(error.type, error.field) for error in errors] == [
        ("Invalid", "status.resourceClaimStatuses[0].name"),
        ("Duplicate", "status.resourceClaimStatuses[2].name"),
        ("Invalid", "status.resourceClaimStatuses[2].resourceClaimName"),
    ]


def test_extended_resource_claim_status() -> None:
    mapping = {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r"}
    good = pod([], [], extendedResourceClaimStatus={"requestMappings": [mapping], "resourceClaimName": "x"})
    assert validate_status_update(good, good) == []
    bad = pod(
        [], [], extendedResourceClaimStatus={"requestMappings": [mapping, {**mapping, "resourceName": "n"}]}
    )
    assert [(error.type, error.field.rpartition(".")[2]) for error in validate_status_update(bad, bad)] == [
        ("Invalid", "resourceName"),
        ("Required", "resourceClaimName"),
    ]
    empty = pod([], [], extendedResourceClaimStatus={"resourceClaimName": "x"})
    (error,) = validate_status_update(empty, empty)
    assert error.message == "Required value: at least one request mapping is required"


def test_node_allocatable_status_names_claims_of_the_pod() -> None:
    entry = {
        "resourceClaimName": "x",
        "mapping": [{"name": "cpu", "quantity": "1"}],
        "overhead": [{"name": "memory"}],
    }
    status = pod(ONE, [], nodeAllocatableResourceClaimStatuses=[entry, {"resourceClaimName": "y"}])
    assert [error.detail for error in validate_status_update(status, status)] == [
        "at least one of perPod or perContainer must be set",
        "no mapping found in pod reference",
    ]


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        ("claim:a/r", True),
        ("claim:a", False),
        ("example.com/gpu", True),
        ("other", False),
        ("claim:x/e", True),
    ],
)
def test_names_of_allocated_resources(name: str, valid: bool) -> None:
    mapping = {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "e"}
    status = pod(
        ONE,
        [{"name": "a", "request": "r"}],
        extendedResourceClaimStatus={"requestMappings": [mapping], "resourceClaimName": "x"},
        containerStatuses=[{"name": "c", "allocatedResourcesStatus": [{"name": name}]}],
    )
    assert (validate_status_update(status, status) == []) is valid


def test_health_of_allocated_resources() -> None:
    resources = [
        {"resourceID": "1", "health": "Healthy"},
        {"resourceID": "1", "health": "Sick", "message": ""},
        {"resourceID": "2", "health": "Unknown", "message": "x" * 1025},
    ]
    entry = {"name": "example.com/gpu", "resources": resources}
    status = pod([], [], containerStatuses=[{"name": "c", "allocatedResourcesStatus": [entry]}])
    path = "status.containerStatuses[0].allocatedResourcesStatus[0].resources"
    assert [(error.type, error.field) for error in validate_status_update(status, status)] == [
        ("NotSupported", f"{path}[1].health"),
        ("Required", f"{path}[1].message"),
        ("Duplicate", f"{path}[1].resourceID"),
        ("TooLong", f"{path}[2].message"),
    ]


def event(**fields: Any) -> dict[str, Any]:
    return {"kind": "Event", "metadata": {"name": "e", "namespace": "ns"}, **fields}


NEW_STYLE = {
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "involvedObject": {"namespace": "ns"},
    "reportingComponent": "example.com/c",
    "reportingInstance": "i",
    "action": "a",
    "reason": "r",
    "type": "Normal",
}


def test_old_style_events_are_hardly_judged_but_stay_in_their_namespace() -> None:
    assert validate_create(event(involvedObject={"namespace": "ns"}), "v1") == []
    assert texts(validate_create(event(involvedObject={"namespace": "other"}), "v1")) == [
        'involvedObject.namespace: Invalid value: "other": does not match event.namespace'
    ]
    assert validate_create(event(**NEW_STYLE | {"involvedObject": {"namespace": "other"}}), "v1") == []


def test_events_of_the_events_group_are_complete() -> None:
    assert validate_create(event(**NEW_STYLE), "events.k8s.io/v1") == []
    errors = validate_create(event(involvedObject={"namespace": "ns"}, count=1), "events.k8s.io/v1")
    assert texts(errors) == [
        "eventTime: Required value",
        'type: Invalid value: "": has invalid value: ',
        'count: Invalid value: "": needs to be unset',
    ]


def test_only_the_series_of_an_event_changes() -> None:
    old, group = event(**NEW_STYLE), "events.k8s.io/v1"
    series = {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}
    assert validate_update({**old, "series": series}, old, group) == []
    assert texts(validate_update({**old, "message": "m"}, old, group)) == [
        'message: Invalid value: "m": field is immutable'
    ]
    assert validate_update({**old, "message": "m"}, old, "v1") == []


def test_leases_last_for_a_while() -> None:
    lease = {"kind": "Lease", "spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}}
    assert texts(validate_create(lease)) == [
        "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
        "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
    ]


def test_role_references() -> None:
    group = "rbac.authorization.k8s.io"
    binding = {"kind": "RoleBinding", "roleRef": {"apiGroup": group, "kind": "Role", "name": "r"}}
    assert validate_create(binding) == []
    wrong = {**binding, "kind": "ClusterRoleBinding"}
    assert texts(validate_create(wrong)) == [
        'roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"'
    ]
    changed = {**binding, "roleRef": {**binding["roleRef"], "name": "s"}}  # type: ignore[dict-item]
    (error,) = validate_update(changed, binding)
    assert (error.field, error.detail) == ("roleRef", "field is immutable")


def test_rules_need_verbs_and_targets() -> None:
    role = {"kind": "Role", "rules": [{}, {"verbs": ["get"], "nonResourceURLs": ["/x"]}]}
    assert [error.field for error in validate_create(role)] == [
        "rules[0].verbs",
        "rules[0].apiGroups",
        "rules[0].resources",
        "rules[1].nonResourceURLs",
    ]


def test_keys_of_config_maps_and_secrets() -> None:
    config = {"kind": "ConfigMap", "data": {"a b": "", "c": ""}, "binaryData": {"c": ""}}
    assert [error.field for error in validate_create(config)] == ["data[a b]", "data[c]"]
    assert [error.field for error in validate_create({"kind": "Secret", "data": {"..": ""}})] == ["data[..]"]


def test_immutable_data_stay() -> None:
    old = {"kind": "ConfigMap", "immutable": True, "data": {"a": "1"}}
    assert [error.field for error in validate_update({**old, "data": {}}, old)] == ["data"]


def test_node_taints_are_unique_and_declared_features_sorted() -> None:
    taints = [{"key": "k", "effect": "NoSchedule"}] * 2
    node = {"kind": "Node", "spec": {"taints": taints}, "status": {"declaredFeatures": ["B", "A"]}}
    assert [(error.type, error.field) for error in validate_create(node)] == [
        ("Duplicate", "metadata.taints[1]"),
        ("Invalid", "status.declaredFeatures[1]"),
    ]


def test_nodes_keep_their_provider_and_their_networks() -> None:
    old = {"kind": "Node", "spec": {"providerID": "p", "podCIDRs": ["10.0.0.0/24"]}}
    changed = {"kind": "Node", "spec": {"podCIDRs": []}}
    assert texts(validate_update(changed, old)) == [
        'spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid',
        "spec.providerID: Invalid value: null: field cannot be cleared once set",
    ]
    assert texts(validate_status_update(changed, old)) == texts(validate_update(changed, old))


def test_the_phase_of_a_namespace_follows_its_deletion() -> None:
    live: dict[str, Any] = {"kind": "Namespace", "metadata": {}, "status": {"phase": "Active"}}
    going = {**live, "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert validate_status_update(live, live) == []
    assert texts(validate_status_update(going, going)) == [
        "status.Phase: Invalid value: \"Active\": may only be 'Terminating' if `deletionTimestamp` is not empty"
    ]
    early = {**live, "status": {"phase": "Terminating"}}
    assert texts(validate_status_update(early, live)) == [
        "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"
    ]


def test_finalizers_of_a_namespace_are_standard_or_qualified() -> None:
    space = {"kind": "Namespace", "spec": {"finalizers": ["kubernetes", "a.b/c", "own"]}}
    text = "name is neither a standard finalizer name nor is it fully qualified"
    assert texts(validate_create(space)) == [f'spec.finalizers: Invalid value: "own": {text}']
    assert texts(validate_finalize(space)) == [f'spec.finalizers[2]: Invalid value: "own": {text}']


def test_the_quality_of_service_of_a_pod_stays() -> None:
    old, new = pod([], [], qosClass="Burstable"), pod([], [], qosClass="Guaranteed")
    assert texts(validate_status_update(new, old)) == [
        'status.qosClass: Invalid value: "Guaranteed": field is immutable'
    ]
