"""NodeRestriction: texts of verified 3.1 and api-machinery section 14."""

from __future__ import annotations

from typing import Any

import pytest
from memory_reader import MemoryReader

from clusters.api_status import ApiError
from clusters.embedded.apiserver.admission.chain import Chain
from clusters.embedded.apiserver.admission.plugin import Context
from clusters.embedded.apiserver.admission.request import CREATE, DELETE, UPDATE, Request
from clusters.embedded.apiserver.auth.authorizer import standard
from clusters.embedded.apiserver.auth.users import User, node_user

N2 = node_user("n2")


@pytest.fixture
def reader() -> MemoryReader:
    reader = MemoryReader()
    reader.add("nodes", "n2")
    reader.add("pods", "mine", namespace="a", spec={"nodeName": "n2"})
    reader.add("pods", "theirs", namespace="a", spec={"nodeName": "n1"})
    return reader


def refusal(reader: MemoryReader, request: Request) -> str | None:
    """The reason of the refusal without the object's name, None if it was admitted."""
    plugin = Chain(Context(reader, standard(reader)), enable=["NodeRestriction"])
    try:
        plugin.mutate(request)
    except ApiError as error:
        assert error.code in (403, 404)
        return error.message.split(" is forbidden: ")[-1]
    return None


def slice_request(operation: str, node: str | None, user: User = N2) -> Request:
    obj: dict[str, Any] = {
        "metadata": {"name": "s"},
        "spec": {"nodeName": node} if node else {"allNodes": True},
    }
    new, old = (None, obj) if operation == DELETE else (obj, None)
    return Request(
        user, operation, "resource.k8s.io", "v1", "resourceslices", "ResourceSlice", "", "s", object=new, old_object=old
    )  # fmt: skip


@pytest.mark.parametrize(("operation", "word"), [(CREATE, "create"), (DELETE, "delete")])
def test_slices_of_the_own_node_only(reader: MemoryReader, operation: str, word: str) -> None:
    text = f"can only {word} ResourceSlice with the same NodeName as the requesting node"
    assert refusal(reader, slice_request(operation, "n2")) is None
    assert refusal(reader, slice_request(operation, "n1")) == text
    assert refusal(reader, slice_request(operation, None)) == text
    assert refusal(reader, slice_request(operation, "n1", User("driver"))) is None
    assert refusal(reader, slice_request(UPDATE, "n1")) is None


def node_request(
    operation: str, name: str, new: dict[str, Any], old: dict[str, Any] | None = None
) -> Request:
    new = {**new, "metadata": {"name": name, **new.get("metadata", {})}}
    return Request(N2, operation, "", "v1", "nodes", "Node", "", name, object=new, old_object=old)


def labels(*keys: str) -> dict[str, Any]:
    return {"metadata": {"labels": dict.fromkeys(keys, "x")}}


def test_own_node_only(reader: MemoryReader) -> None:
    assert (
        refusal(reader, node_request(UPDATE, "n1", {}, {})) == 'node "n2" is not allowed to modify node "n1"'
    )
    assert refusal(reader, node_request(UPDATE, "n2", {}, {})) is None
    taint = {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}
    assert refusal(reader, node_request(CREATE, "n2", taint)) is None
    assert (
        refusal(reader, node_request(UPDATE, "n2", {}, taint)) == 'node "n2" is not allowed to modify taints'
    )
    owner = {"metadata": {"ownerReferences": [{"uid": "u"}]}}
    assert refusal(reader, node_request(UPDATE, "n2", owner, {})) == (
        'node "n2" is not allowed to modify ownerReferences'
    )


@pytest.mark.parametrize(
    ("key", "allowed"),
    [
        ("kubernetes.io/hostname", True),
        ("topology.kubernetes.io/zone", True),
        ("node.kubernetes.io/anything", True),
        ("sub.kubelet.kubernetes.io/x", True),
        ("example.com/x", True),
        ("plain", True),
        ("node-restriction.kubernetes.io/x", False),
        ("sub.node-restriction.kubernetes.io/x", False),
        ("example.k8s.io/x", False),
        ("kubernetes.io/other", False),
    ],
)
def test_labels_of_the_node(reader: MemoryReader, key: str, allowed: bool) -> None:
    created = refusal(reader, node_request(CREATE, "n2", labels(key)))
    updated = refusal(reader, node_request(UPDATE, "n2", {}, labels(key)))
    if allowed:
        assert (created, updated) == (None, None)
    else:
        assert created == f'node "n2" is not allowed to set the following labels: {key}'
        assert updated == f"is not allowed to modify labels: {key}"
        assert refusal(reader, node_request(UPDATE, "n2", labels(key), labels(key))) is None


def status_request(new: dict[str, Any], node: str = "n2", old: dict[str, Any] | None = None) -> Request:
    before = {"metadata": {"name": "p"}, "spec": {"nodeName": node}, "status": old or {}}
    after = {**before, "status": new}
    return Request(
        N2, UPDATE, "", "v1", "pods", "Pod", "a", "p", "status", object=after, old_object=before
    )  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("resourceClaimStatuses", [{"name": "c"}], "resource claim statues"),
        ("extendedResourceClaimStatus", {"resourceClaimName": "c"}, "extended resource claim status"),
        (
            "nodeAllocatableResourceClaimStatuses", [{"resourceClaimName": "c"}],
            "node allocatable resource claim statuses",
        ),
    ],
)  # fmt: skip
def test_claim_fields_of_pod_status_belong_to_others(
    reader: MemoryReader, field: str, value: Any, text: str
) -> None:
    assert refusal(reader, status_request({field: value})) == f'node "n2" cannot update {text}'
    assert refusal(reader, status_request({field: value}, old={field: value})) is None
    assert refusal(reader, status_request({"phase": "Running", field: None})) is None


def test_status_of_own_pods_without_label_changes(reader: MemoryReader) -> None:
    assert refusal(reader, status_request({}, node="n1")) == (
        'node "n2" can only update pod status for pods with spec.nodeName set to itself'
    )
    request = status_request({})
    request.new["metadata"] = {"labels": {"a": "b"}}
    assert refusal(reader, request) == 'node "n2" cannot update labels through pod status'


def mirror(**changes: Any) -> Request:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n2", "uid": "uid-n2", "controller": True}
    obj: dict[str, Any] = {
        "metadata": {
            "name": "m", "annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": [owner],
            **changes.get("metadata", {}),
        },
        "spec": {"nodeName": "n2", **changes.get("spec", {})},
    }  # fmt: skip
    return Request(N2, CREATE, "", "v1", "pods", "Pod", "a", "m", object=obj)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, None),
        (
            {"metadata": {"annotations": {}}},
            'pod does not have "kubernetes.io/config.mirror" annotation, node "n2" can only create mirror pods',
        ),
        ({"spec": {"nodeName": "n1"}}, 'node "n2" can only create pods with spec.nodeName set to itself'),
        ({"metadata": {"ownerReferences": []}}, 'node "n2" can only create pods with an owner reference set to itself'),
        ({"spec": {"resourceClaims": [{"name": "c"}]}}, 'node "n2" can not create pods that reference resourceclaims'),
        ({"spec": {"serviceAccountName": "sa"}}, 'node "n2" can not create pods that reference serviceaccounts'),
    ],
)  # fmt: skip
def test_mirror_pods(reader: MemoryReader, changes: dict[str, Any], text: str | None) -> None:
    assert refusal(reader, mirror(**changes)) == text


def pod_request(operation: str, name: str, subresource: str = "") -> Request:
    return Request(N2, operation, "", "v1", "pods", "Pod", "a", name, subresource, object={}, old_object={})


def test_deletion_and_eviction_of_own_pods(reader: MemoryReader) -> None:
    assert refusal(reader, pod_request(DELETE, "mine")) is None
    assert refusal(reader, pod_request(DELETE, "theirs")) == (
        'node "n2" can only delete pods with spec.nodeName set to itself'
    )
    assert refusal(reader, pod_request(DELETE, "gone")) == 'pod "gone" not found'
    assert refusal(reader, pod_request(CREATE, "mine", "eviction")) is None
    assert refusal(reader, pod_request(CREATE, "theirs", "eviction")) == (
        "node n2 can only evict pods with spec.nodeName set to itself"
    )
    assert refusal(reader, pod_request(CREATE, "mine", "exec")) == (
        "unexpected pod subresource \"exec\", only 'status' and 'eviction' are allowed"
    )
    assert refusal(reader, pod_request(UPDATE, "mine")) == (
        'unexpected operation "UPDATE", node "n2" can only create and delete mirror pods'
    )


def token_request(reference: dict[str, str] | None, audiences: list[str] | None = None) -> Request:
    spec = {"boundObjectRef": reference, "audiences": audiences or []}
    return Request(
        N2, CREATE, "authentication.k8s.io", "v1", "serviceaccounts", "TokenRequest", "a", "sa", "token",
        object={"spec": spec},
    )  # fmt: skip


def test_tokens_bound_to_own_pods(reader: MemoryReader) -> None:
    pod = {"kind": "Pod", "apiVersion": "v1", "name": "mine", "uid": "uid-mine"}
    foreign = {**pod, "name": "theirs", "uid": "uid-theirs"}

    def told(reference: dict[str, str] | None, audiences: list[str] | None = None) -> str | None:
        request = token_request(reference, audiences)
        request.group = ""
        return refusal(reader, request)

    assert told(pod) is None
    assert told(None) == "node requested token not bound to a pod"
    assert told({**pod, "kind": "Node"}) == "node requested token not bound to a pod"
    assert told({**pod, "uid": ""}) == "node requested token with a pod binding without a uid"
    assert told(foreign) == "node requested token bound to a pod scheduled on a different node"
    assert (told({**pod, "uid": "x"}) or "").startswith(
        "the UID in the bound object reference (x) does not match"
    )
    assert told(pod, ["vault"]) == 'system:node:n2 is not authorized to request tokens for audience "vault"'
    source = {"serviceAccountToken": {"audience": "vault"}}
    reader.add(
        "pods",
        "mine",
        namespace="a",
        spec={"nodeName": "n2", "volumes": [{"projected": {"sources": [source]}}]},
    )
    assert told(pod, ["vault"]) is None


def test_own_lease_only(reader: MemoryReader) -> None:
    def told(operation: str, namespace: str, name: str) -> str | None:
        obj = {"metadata": {"name": name}}
        return refusal(
            reader,
            Request(
                N2, operation, "coordination.k8s.io", "v1", "leases", "Lease", namespace, name, object=obj
            ),
        )

    assert told(CREATE, "kube-node-lease", "n2") is None
    assert told(UPDATE, "kube-node-lease", "n2") is None
    other = "can only access node lease with the same name as the requesting node"
    assert told(CREATE, "kube-node-lease", "n1") == other
    assert told(UPDATE, "kube-node-lease", "n1") == other
    assert told(CREATE, "a", "n2") == 'can only access leases in the "kube-node-lease" system namespace'


def test_node_without_a_name_may_do_nothing(reader: MemoryReader) -> None:
    request = slice_request(CREATE, "n2", node_user(""))
    assert refusal(reader, request) == 'could not determine node from user "system:node:"'
