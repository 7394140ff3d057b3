"""Node authorization (api-machinery section 14, api-validation 10.1)."""

from __future__ import annotations

import pytest
from memory_reader import MemoryReader

from clusters.embedded.apiserver.auth.attributes import Attributes
from clusters.embedded.apiserver.auth.authorizer import standard
from clusters.embedded.apiserver.auth.node_authorizer import NodeAuthorizer
from clusters.embedded.apiserver.auth.users import User, node_user
from clusters.request_info import parse

N1 = node_user("n1")
DRA = "/apis/resource.k8s.io/v1"
LEASES = "/apis/coordination.k8s.io/v1/namespaces"
ONLY_OWN_PODS = "can only list/watch pods with spec.nodeName field selector"
ONLY_OWN_SLICES = "can only list/watch/deletecollection resourceslices with nodeName field selector"
ONLY_OWN_LEASE = "can only access node lease with the same name as the requesting node"
ONLY_LEASE_NAMESPACE = 'can only access leases in the "kube-node-lease" system namespace'
NO_RELATION = "no relationship found between node 'n1' and this object"


@pytest.fixture
def node() -> NodeAuthorizer:
    reader = MemoryReader()
    spec = {
        "nodeName": "n1",
        "serviceAccountName": "sa",
        "imagePullSecrets": [{"name": "pull"}],
        "containers": [{"env": [{"valueFrom": {"configMapKeyRef": {"name": "conf"}}}]}],
        "volumes": [{"projected": {"sources": [{"secret": {"name": "vol"}}]}}],
        "resourceClaims": [
            {"name": "direct", "resourceClaimName": "claim"},
            {"name": "generated", "resourceClaimTemplateName": "t"},
        ],
    }
    status = {
        "resourceClaimStatuses": [{"name": "generated", "resourceClaimName": "claim-x"}],
        "extendedResourceClaimStatus": {"resourceClaimName": "claim-ext"},
    }
    reader.add("pods", "p1", namespace="a", spec=spec, status=status)
    reader.add("pods", "p2", namespace="a", spec={"nodeName": "n2", "serviceAccountName": "other"})
    mirror = {"annotations": {"kubernetes.io/config.mirror": "x"}}
    reader.add(
        "pods",
        "m",
        namespace="a",
        metadata=mirror,
        spec={"nodeName": "n1", "imagePullSecrets": [{"name": "mirrored"}]},
    )
    reader.add("resourceslices", "s1", group="resource.k8s.io", spec={"nodeName": "n1"})
    reader.add("resourceslices", "s2", group="resource.k8s.io", spec={"nodeName": "n2"})
    return NodeAuthorizer(reader)


@pytest.mark.parametrize(
    ("method", "path", "query", "reason"),
    [
        ("GET", "/api/v1/namespaces/a/secrets/pull", {}, None),
        ("GET", "/api/v1/namespaces/a/secrets/vol", {}, None),
        ("GET", "/api/v1/namespaces/a/secrets", {"watch": "1", "fieldSelector": "metadata.name=vol"}, None),
        ("GET", "/api/v1/namespaces/a/secrets/mirrored", {}, NO_RELATION),
        ("GET", "/api/v1/namespaces/b/secrets/pull", {}, NO_RELATION),
        ("GET", "/api/v1/namespaces/a/secrets", {}, "No Object name found"),
        ("GET", "/api/v1/secrets", {}, "can only read namespaced object of this type"),
        ("PUT", "/api/v1/namespaces/a/secrets/pull", {}, "can only read resources of this type"),
        ("GET", "/api/v1/namespaces/a/configmaps/conf", {}, None),
        ("GET", f"{DRA}/namespaces/a/resourceclaims/claim", {}, None),
        ("GET", f"{DRA}/namespaces/a/resourceclaims/claim-x", {}, None),
        ("GET", f"{DRA}/namespaces/a/resourceclaims/claim-ext", {}, None),
        ("GET", f"{DRA}/namespaces/a/resourceclaims/other", {}, NO_RELATION),
        ("GET", f"{DRA}/resourceclaims", {}, "can only get individual resources of this type"),
        ("GET", f"{DRA}/namespaces/a/resourceclaims/claim/status", {}, "cannot get subresource"),
        ("POST", "/api/v1/namespaces/a/serviceaccounts/sa/token", {}, None),
        ("POST", "/api/v1/namespaces/a/serviceaccounts/other/token", {}, NO_RELATION),
        ("GET", "/api/v1/namespaces/a/pods/p1", {}, None),
        ("GET", "/api/v1/namespaces/a/pods/p2", {}, NO_RELATION),
        ("GET", "/api/v1/pods", {"fieldSelector": "spec.nodeName=n1"}, None),
        ("GET", "/api/v1/pods", {"fieldSelector": "spec.nodeName=n2"}, ONLY_OWN_PODS),
        ("PATCH", "/api/v1/namespaces/a/pods/p1/status", {}, None),
        ("PATCH", "/api/v1/namespaces/a/pods/p1", {}, ""),
        ("GET", "/api/v1/nodes/n1", {}, None),
        ("GET", "/api/v1/nodes", {"fieldSelector": "metadata.name=n1"}, None),
        ("GET", "/api/v1/nodes", {}, "node 'n1' cannot read all nodes, only its own Node object"),
        ("GET", "/api/v1/nodes/n2", {}, "node 'n1' cannot read 'n2', only its own Node object"),
        ("PUT", f"{LEASES}/kube-node-lease/leases/n1", {}, None),
        ("PUT", f"{LEASES}/kube-node-lease/leases/n2", {}, ONLY_OWN_LEASE),
        ("PUT", f"{LEASES}/a/leases/n1", {}, ONLY_LEASE_NAMESPACE),
        ("POST", f"{DRA}/resourceslices", {}, None),
        ("PUT", f"{DRA}/resourceslices/s1", {}, None),
        ("DELETE", f"{DRA}/resourceslices/s2", {}, NO_RELATION),
        ("DELETE", f"{DRA}/resourceslices", {"fieldSelector": "spec.nodeName=n1"}, None),
        ("GET", f"{DRA}/resourceslices", {"watch": "1"}, ONLY_OWN_SLICES),
        ("GET", f"{DRA}/deviceclasses/c", {}, ""),
        ("POST", "/api/v1/namespaces/a/events", {}, None),
    ],
)  # fmt: skip
def test_a_node_sees_only_its_own(
    node: NodeAuthorizer, method: str, path: str, query: dict[str, str], reason: str | None
) -> None:
    decision = node.authorize(Attributes.of_request(N1, parse(method, path, query)))
    assert (decision.allowed, decision.reason) == (reason is None, reason or "")


def test_others_get_no_opinion(node: NodeAuthorizer) -> None:
    for user in (User("system:node:n1"), User("n1", groups=("system:nodes",))):
        decision = node.authorize(Attributes(user, "get", resource="nodes", name="n1"))
        assert (decision.allowed, decision.reason) == (False, "")


def test_reason_carries_the_authorizer() -> None:
    decision = standard(MemoryReader()).authorize(Attributes(N1, "list", resource="nodes"))
    assert decision.reason == "node: node 'n1' cannot read all nodes, only its own Node object"
