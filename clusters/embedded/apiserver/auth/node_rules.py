"""What every kubelet may do, before the narrower rules of node authorization (bootstrap role system:node)."""

from __future__ import annotations

from typing import Any, Final


def rule(verbs: str, resources: str, groups: str = "", names: tuple[str, ...] = ()) -> dict[str, Any]:
    """A PolicyRule from words separated by spaces; no group is the core group, in lists written as `-`."""
    result: dict[str, Any] = {
        "verbs": verbs.split(),
        "apiGroups": ["" if group == "-" else group for group in groups.split()] or [""],
        "resources": resources.split(),
    }
    if names:
        result["resourceNames"] = list(names)
    return result


READ: Final = "get list watch"
EVENTS_GROUP: Final = "events.k8s.io"

NODE_RULES: Final = (
    rule("create", "tokenreviews", "authentication.k8s.io"),
    rule("create", "subjectaccessreviews localsubjectaccessreviews", "authorization.k8s.io"),
    rule(READ, "services"),
    rule("create get list watch", "nodes"),
    rule("update patch", "nodes/status"),
    rule("update patch", "nodes"),
    rule("create update patch", "events", f"- {EVENTS_GROUP}"),
    rule(READ, "pods"),
    rule("create delete", "pods"),
    rule("update patch", "pods/status"),
    rule("create", "pods/eviction"),
    rule(READ, "secrets configmaps"),
    rule("get", "persistentvolumeclaims persistentvolumes"),
    rule("get", "endpoints"),
    rule("create get list watch", "certificatesigningrequests", "certificates.k8s.io"),
    rule("get create update patch delete", "leases", "coordination.k8s.io"),
    rule("get", "volumeattachments", "storage.k8s.io"),
    rule("create", "serviceaccounts/token"),
    rule("get update patch", "persistentvolumeclaims/status"),
    rule(READ, "csidrivers", "storage.k8s.io"),
    rule("get create update patch delete", "csinodes", "storage.k8s.io"),
    rule(READ, "runtimeclasses", "node.k8s.io"),
    rule("get", "resourceclaims", "resource.k8s.io"),
    rule("deletecollection", "resourceslices", "resource.k8s.io"),
    rule("get", "serviceaccounts"),
)
