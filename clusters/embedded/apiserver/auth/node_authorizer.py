"""Node authorization: a kubelet sees only what the pods of its node need (api-machinery section 14)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from clusters.embedded.apiserver.auth import pod_references
from clusters.embedded.apiserver.auth.attributes import Attributes, Decision
from clusters.embedded.apiserver.auth.node_rules import NODE_RULES
from clusters.embedded.apiserver.auth.rbac import rule_allows
from clusters.embedded.apiserver.auth.reader import Reader, metadata
from clusters.embedded.apiserver.auth.text import quoted

LEASE_NAMESPACE: Final = "kube-node-lease"

_ALLOW: Final = Decision(True)
_NO_OPINION: Final = Decision(False)


class NodeAuthorizer:
    """Decides for users system:node:NAME of the group system:nodes and has no opinion about others.

    The relation of a node to an object is read from the stored pods and slices at each decision.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._by_resource: dict[tuple[str, str], Callable[[str, Attributes], Decision]] = {
            ("", "secrets"): self._read_named(pod_references.secrets),
            ("", "configmaps"): self._read_named(pod_references.config_maps),
            ("", "serviceaccounts"): self._service_account,
            ("", "nodes"): self._node,
            ("", "pods"): self._pod,
            ("coordination.k8s.io", "leases"): self._lease,
            ("resource.k8s.io", "resourceclaims"): self._resource_claim,
            ("resource.k8s.io", "resourceslices"): self._resource_slice,
        }

    def authorize(self, attributes: Attributes) -> Decision:
        """Decide about one access."""
        node = attributes.user.node
        if node is None:
            return _NO_OPINION
        if not node:
            return Decision(False, f"unknown node for user {quoted(attributes.user.name)}")
        if attributes.is_resource:
            decide = self._by_resource.get((attributes.group, attributes.resource))
            if decide is not None:
                return decide(node, attributes)
        allowed = any(rule_allows(rule, attributes) for rule in NODE_RULES)
        return _ALLOW if allowed else _NO_OPINION

    def _related(self, node: str, attributes: Attributes, related: bool) -> Decision:
        if not attributes.name:
            return Decision(False, "No Object name found")
        return (
            _ALLOW
            if related
            else Decision(False, f"no relationship found between node '{node}' and this object")
        )

    def _pods_on(self, node: str, namespace: str) -> list[dict[str, Any]]:
        if not namespace:
            return []
        pods = self._reader.select("", "pods", "spec.nodeName", node)
        return [pod for pod in pods if metadata(pod).get("namespace", "") == namespace]

    def _referenced(
        self,
        node: str,
        attributes: Attributes,
        references: Callable[[dict[str, Any]], set[str]],
    ) -> Decision:
        related = bool(attributes.name) and any(
            attributes.name in references(pod)
            for pod in self._pods_on(node, attributes.namespace)
            if not pod_references.is_mirror(pod)
        )
        return self._related(node, attributes, related)

    def _read_named(
        self, references: Callable[[dict[str, Any]], set[str]]
    ) -> Callable[[str, Attributes], Decision]:
        def decide(node: str, attributes: Attributes) -> Decision:
            if attributes.verb not in ("get", "list", "watch"):
                return Decision(False, "can only read resources of this type")
            if attributes.subresource:
                return Decision(False, "cannot read subresource")
            if not attributes.namespace:
                return Decision(False, "can only read namespaced object of this type")
            return self._referenced(node, attributes, references)

        return decide

    def _get_only(self, attributes: Attributes) -> Decision | None:
        if attributes.verb != "get":
            return Decision(False, "can only get individual resources of this type")
        if attributes.subresource:
            return Decision(False, "cannot get subresource")
        return None

    def _resource_claim(self, node: str, attributes: Attributes) -> Decision:
        refused = self._get_only(attributes)
        return refused or self._referenced(node, attributes, pod_references.resource_claims)

    def _service_account(self, node: str, attributes: Attributes) -> Decision:
        if attributes.verb == "get" and not attributes.subresource:
            return self._read_named(pod_references.service_accounts)(node, attributes)
        if attributes.verb != "create" or not attributes.name:
            return Decision(False, "can only create tokens for individual service accounts")
        if attributes.subresource != "token":
            return Decision(False, "can only create token subresource of serviceaccount")
        return self._referenced(node, attributes, pod_references.service_accounts)

    def _lease(self, node: str, attributes: Attributes) -> Decision:
        if attributes.verb not in ("get", "create", "update", "patch", "delete"):
            return Decision(False, "can only get, create, update, patch, or delete a node lease")
        if attributes.namespace != LEASE_NAMESPACE:
            return Decision(
                False, f"can only access leases in the {quoted(LEASE_NAMESPACE)} system namespace"
            )
        # The name of a new lease is in its body: NodeRestriction compares it.
        if attributes.verb != "create" and attributes.name != node:
            return Decision(False, "can only access node lease with the same name as the requesting node")
        return _ALLOW

    def _resource_slice(self, node: str, attributes: Attributes) -> Decision:
        if attributes.subresource:
            return Decision(False, "cannot authorize ResourceSlice subresources")
        verb = attributes.verb
        if verb == "create":
            return _ALLOW  # NodeRestriction checks the content.
        if verb in ("get", "update", "patch", "delete"):
            found = self._reader.get("resource.k8s.io", "resourceslices", "", attributes.name) or {}
            related = (found.get("spec") or {}).get("nodeName") == node
            return self._related(node, attributes, related)
        if verb in ("watch", "list", "deletecollection"):
            if _selects(attributes, "spec.nodeName", node):
                return _ALLOW
            return Decision(
                False, "can only list/watch/deletecollection resourceslices with nodeName field selector"
            )
        return Decision(
            False,
            "only the following verbs are allowed for a ResourceSlice: "
            "get, watch, list, create, update, patch, delete, deletecollection",
        )

    def _node(self, node: str, attributes: Attributes) -> Decision:
        verb, subresource = attributes.verb, attributes.subresource
        if not subresource and verb in ("create", "update", "patch"):
            return _ALLOW  # NodeRestriction limits it to the node's own object.
        if not subresource and verb in ("get", "list", "watch"):
            if attributes.name == node:
                return _ALLOW
            what = f"'{attributes.name}'" if attributes.name else "all nodes"
            return Decision(False, f"node '{node}' cannot read {what}, only its own Node object")
        if subresource == "status" and verb in ("update", "patch"):
            return _ALLOW
        return _NO_OPINION

    def _pod(self, node: str, attributes: Attributes) -> Decision:
        verb, subresource = attributes.verb, attributes.subresource
        if not subresource:
            if verb == "get":
                return self._own_pod(node, attributes)
            if verb in ("list", "watch"):
                if _selects(attributes, "spec.nodeName", node):
                    return _ALLOW
                if attributes.name:
                    return self._own_pod(node, attributes)
                return Decision(False, "can only list/watch pods with spec.nodeName field selector")
            if verb in ("create", "delete"):
                return _ALLOW  # NodeRestriction limits it to mirror pods and own pods.
        elif (subresource == "status" and verb in ("update", "patch")) or (
            subresource == "eviction" and verb == "create"
        ):
            return _ALLOW
        return _NO_OPINION

    def _own_pod(self, node: str, attributes: Attributes) -> Decision:
        pod = self._reader.get("", "pods", attributes.namespace, attributes.name) or {}
        return self._related(node, attributes, (pod.get("spec") or {}).get("nodeName") == node)


def _selects(attributes: Attributes, field: str, value: str) -> bool:
    return any(
        requirement.field == field and requirement.operator == "=" and requirement.value == value
        for requirement in attributes.field_requirements
    )
