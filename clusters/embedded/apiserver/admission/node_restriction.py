"""What kubelets may write: own node, pods, slices (api-machinery section 14, api-validation 10.1)."""

from __future__ import annotations

from typing import Any, ClassVar

from clusters.api_status import not_found
from clusters.embedded.apiserver.admission import node_labels
from clusters.embedded.apiserver.admission.plugin import Plugin
from clusters.embedded.apiserver.admission.request import CREATE, DELETE, UPDATE, Request
from clusters.embedded.apiserver.auth import pod_references
from clusters.embedded.apiserver.auth.attributes import Attributes
from clusters.embedded.apiserver.auth.node_authorizer import LEASE_NAMESPACE
from clusters.embedded.apiserver.auth.reader import metadata
from clusters.embedded.apiserver.auth.text import quoted

_STATUS_LISTS = (
    ("resourceClaimStatuses", "cannot update resource claim statues"),
    ("extendedResourceClaimStatus", "cannot update extended resource claim status"),
    ("nodeAllocatableResourceClaimStatuses", "cannot update node allocatable resource claim statuses"),
)


class NodeRestriction(Plugin):
    """Limits users system:node:NAME; it has no say about others. A real server must enable it explicitly."""

    name: ClassVar[str] = "NodeRestriction"

    def mutate(self, request: Request) -> None:
        """Refuse what belongs to somebody else; nothing is changed."""
        node = request.user.node
        if node is None:
            return
        if not node:
            raise request.refuse(f"could not determine node from user {quoted(request.user.name)}")
        by_resource = {
            ("", "pods"): self._pods,
            ("", "nodes"): self._nodes,
            ("", "serviceaccounts"): self._service_accounts,
            ("coordination.k8s.io", "leases"): self._leases,
            ("resource.k8s.io", "resourceslices"): self._resource_slices,
        }
        decide = by_resource.get((request.group, request.resource))
        if decide is not None:
            decide(node, request)

    def _pods(self, node: str, request: Request) -> None:
        if request.subresource == "status":
            self._pod_status(node, request)
        elif request.subresource == "eviction":
            self._eviction(node, request)
        elif request.subresource:
            raise request.refuse(
                f"unexpected pod subresource {quoted(request.subresource)}, "
                "only 'status' and 'eviction' are allowed"
            )
        elif request.operation == CREATE:
            self._mirror_pod(node, request)
        elif request.operation == DELETE:
            pod = self._stored_pod(request, request.name)
            if (pod.get("spec") or {}).get("nodeName") != node:
                raise request.refuse(
                    f"node {quoted(node)} can only delete pods with spec.nodeName set to itself"
                )
        else:
            raise request.refuse(
                f"unexpected operation {quoted(request.operation)}, "
                f"node {quoted(node)} can only create and delete mirror pods"
            )

    def _mirror_pod(self, node: str, request: Request) -> None:
        pod, who = request.new, f"node {quoted(node)}"
        if not pod_references.is_mirror(pod):
            annotation = quoted(pod_references.MIRROR_ANNOTATION)
            raise request.refuse(
                f"pod does not have {annotation} annotation, {who} can only create mirror pods"
            )
        if (pod.get("spec") or {}).get("nodeName") != node:
            raise request.refuse(f"{who} can only create pods with spec.nodeName set to itself")
        owners = metadata(pod).get("ownerReferences") or []
        if len(owners) > 1:
            raise request.refuse(f"{who} can only create pods with a single owner reference set to itself")
        owner = owners[0] if owners else {}
        if [owner.get(key) for key in ("apiVersion", "kind", "name")] != ["v1", "Node", node]:
            raise request.refuse(f"{who} can only create pods with an owner reference set to itself")
        if not owner.get("controller"):
            raise request.refuse(
                f"{who} can only create pods with a controller owner reference set to itself"
            )
        if owner.get("blockOwnerDeletion"):
            raise request.refuse(f"{who} must not set blockOwnerDeletion on an owner reference")
        stored = self.context.reader.get("", "nodes", "", node)
        if stored is None:
            raise not_found("node", "", node)
        uid = metadata(stored).get("uid", "")
        if owner.get("uid", "") != uid:
            raise request.refuse(f"node {node} UID mismatch: expected {owner.get('uid', '')} got {uid}")
        referenced = pod_references.api_object(pod)
        if referenced:
            raise request.refuse(f"{who} can not create pods that reference {referenced}")

    def _pod_status(self, node: str, request: Request) -> None:
        who = f"node {quoted(node)}"
        if request.operation != UPDATE:
            raise request.refuse(f"unexpected operation {quoted(request.operation)}")
        if (request.old.get("spec") or {}).get("nodeName") != node:
            why = "can only update pod status for pods with spec.nodeName set to itself"
            raise request.refuse(f"{who} {why}")
        if (metadata(request.old).get("labels") or {}) != (metadata(request.new).get("labels") or {}):
            raise request.refuse(f"{who} cannot update labels through pod status")
        before, after = request.old.get("status") or {}, request.new.get("status") or {}
        for key, text in _STATUS_LISTS:
            if (before.get(key) or None) != (after.get(key) or None):
                raise request.refuse(f"{who} {text}")

    def _eviction(self, node: str, request: Request) -> None:
        if request.operation != CREATE:
            raise request.refuse(f"unexpected operation {request.operation}")
        name = request.name or metadata(request.new).get("name", "")
        if not name:
            raise request.refuse("could not determine pod from request data")
        if (self._stored_pod(request, name).get("spec") or {}).get("nodeName") != node:
            raise request.refuse(f"node {node} can only evict pods with spec.nodeName set to itself")

    def _nodes(self, node: str, request: Request) -> None:
        who = f"node {quoted(node)}"
        # A new node has its name in the body only.
        name = request.name or metadata(request.new).get("name", "")
        if name != node:
            raise request.refuse(f"{who} is not allowed to modify node {quoted(name)}")
        new, old = request.new, request.old
        if request.operation == CREATE:
            labels = node_labels.forbidden(metadata(new).get("labels") or {}, {})
            if labels:
                raise request.refuse(f"{who} is not allowed to set the following labels: {', '.join(labels)}")
        elif request.operation == UPDATE:
            taints = [(item.get("spec") or {}).get("taints") or [] for item in (new, old)]
            if taints[0] != taints[1]:
                raise request.refuse(f"{who} is not allowed to modify taints")
            owners = [metadata(item).get("ownerReferences") or [] for item in (new, old)]
            if owners[0] != owners[1]:
                raise request.refuse(f"{who} is not allowed to modify ownerReferences")
            labels = node_labels.forbidden(
                metadata(new).get("labels") or {}, metadata(old).get("labels") or {}
            )
            if labels:
                raise request.refuse(f"is not allowed to modify labels: {', '.join(labels)}")

    def _service_accounts(self, node: str, request: Request) -> None:
        if request.operation != CREATE or request.subresource != "token":
            return
        spec = request.new.get("spec") or {}
        reference = spec.get("boundObjectRef") or {}
        bound = (reference.get("apiVersion"), reference.get("kind")) == ("v1", "Pod")
        if not bound or not reference.get("name"):
            raise request.refuse("node requested token not bound to a pod")
        uid = reference.get("uid")
        if not uid:
            raise request.refuse("node requested token with a pod binding without a uid")
        pod = self._stored_pod(request, reference["name"])
        if metadata(pod).get("uid") != uid:
            raise request.refuse(
                f"the UID in the bound object reference ({uid}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
        if (pod.get("spec") or {}).get("nodeName") != node:
            raise request.refuse("node requested token bound to a pod scheduled on a different node")
        audiences = spec.get("audiences") or []
        if len(audiences) > 1:
            raise request.refuse("node may only request 0 or 1 audiences")
        # Tokens for the API server itself stay allowed: pods carry no token volume here that would show it.
        if audiences and audiences[0] not in _mounted_audiences(pod):
            wanted = Attributes(
                request.user,
                "request-serviceaccounts-token-audience",
                request.group,
                request.version,
                audiences[0],
                namespace=request.namespace,
                name=request.name,
            )
            if not self.context.authorizer.authorize(wanted).allowed:
                raise request.refuse(
                    f"{request.user.name} is not authorized to request tokens "
                    f"for audience {quoted(audiences[0])}"
                )

    def _leases(self, node: str, request: Request) -> None:
        if request.namespace != LEASE_NAMESPACE:
            raise request.refuse(f"can only access leases in the {quoted(LEASE_NAMESPACE)} system namespace")
        name = metadata(request.new).get("name") if request.operation == CREATE else request.name
        if name != node:
            raise request.refuse("can only access node lease with the same name as the requesting node")

    def _resource_slices(self, node: str, request: Request) -> None:
        checked = {CREATE: (request.new, "create"), DELETE: (request.old, "delete")}.get(request.operation)
        if checked is None:
            return  # Node authorization has compared the stored slice.
        content, verb = checked
        if (content.get("spec") or {}).get("nodeName") != node:
            raise request.refuse(
                f"can only {verb} ResourceSlice with the same NodeName as the requesting node"
            )

    def _stored_pod(self, request: Request, name: str) -> dict[str, Any]:
        pod = self.context.reader.get("", "pods", request.namespace, name)
        if pod is None:
            raise not_found("pod", "", name)
        return pod


def _mounted_audiences(pod: dict[str, Any]) -> set[str]:
    """The audiences of the service account tokens that the pod's volumes ask for."""
    return {
        (source.get("serviceAccountToken") or {}).get("audience", "")
        for volume in (pod.get("spec") or {}).get("volumes") or []
        for source in (volume.get("projected") or {}).get("sources") or []
    }
