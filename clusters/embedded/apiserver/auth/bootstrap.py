"""The roles and bindings that a cluster starts with, as objects (api-validation section 11)."""

from __future__ import annotations

from collections.abc import Container
from typing import Any, Final

from clusters.embedded.apiserver.auth.bootstrap_rules import cluster_roles
from clusters.embedded.apiserver.auth.controller_rules import controller_roles
from clusters.embedded.apiserver.auth.node_rules import rule
from clusters.embedded.apiserver.auth.rbac import GROUP
from clusters.embedded.apiserver.auth.users import (
    ALL_AUTHENTICATED,
    ALL_UNAUTHENTICATED,
    MASTERS,
    SERVICE_ACCOUNTS,
)

SYSTEM_NAMESPACE: Final = "kube-system"
CONTROLLER_ROLE_PREFIX: Final = "system:controller:"

_API_VERSION: Final = f"{GROUP}/v1"
_GROUPS_OF_ROLE: Final[dict[str, tuple[str, ...]]] = {
    "cluster-admin": (MASTERS,),
    "system:monitoring": ("system:monitoring",),
    "system:discovery": (ALL_AUTHENTICATED,),
    "system:basic-user": (ALL_AUTHENTICATED,),
    "system:public-info-viewer": (ALL_AUTHENTICATED, ALL_UNAUTHENTICATED),
    "system:service-account-issuer-discovery": (SERVICE_ACCOUNTS,),
    # Nodes get their rights from node authorization; the binding exists without subjects.
    "system:node": (),
}
_USERS_OF_ROLE: Final = {
    "system:kube-scheduler": "system:kube-scheduler",
    "system:kube-controller-manager": "system:kube-controller-manager",
}


def objects(gates: Container[str]) -> list[dict[str, Any]]:
    """ClusterRoles, ClusterRoleBindings, Roles and RoleBindings; `gates` are the enabled feature gates.

    The namespaced ones live in kube-system. metadata holds only what the bootstrap policy sets.
    """
    result = [_object("ClusterRole", name, {"rules": rules}) for name, rules in cluster_roles(gates).items()]
    for name, groups in _GROUPS_OF_ROLE.items():
        subjects = [{"kind": "Group", "apiGroup": GROUP, "name": group} for group in groups]
        result.append(_binding("ClusterRoleBinding", name, "ClusterRole", name, subjects))
    for name, user in _USERS_OF_ROLE.items():
        result.append(_binding("ClusterRoleBinding", name, "ClusterRole", name, [_user(user)]))
    for controller, rules in controller_roles(gates).items():
        name = CONTROLLER_ROLE_PREFIX + controller
        result.append(_object("ClusterRole", name, {"rules": rules}))
        account = {"kind": "ServiceAccount", "name": controller, "namespace": SYSTEM_NAMESPACE}
        result.append(_binding("ClusterRoleBinding", name, "ClusterRole", name, [account]))
    for component in ("kube-controller-manager", "kube-scheduler"):
        name = f"system::leader-locking-{component}"
        locking = rule("get watch list create update", "leases", "coordination.k8s.io")
        candidates = rule("get watch list create update", "leasecandidates", "coordination.k8s.io")
        result.append(_object("Role", name, {"rules": [locking, candidates]}, SYSTEM_NAMESPACE))
        account = {"kind": "ServiceAccount", "name": component, "namespace": SYSTEM_NAMESPACE}
        subjects = [_user(f"system:{component}"), account]
        result.append(_binding("RoleBinding", name, "Role", name, subjects, SYSTEM_NAMESPACE))
    return result


def controller_names(gates: Container[str]) -> list[str]:
    """The controllers with a role; each acts as the service account of its name in kube-system."""
    return list(controller_roles(gates))


def _user(name: str) -> dict[str, Any]:
    return {"kind": "User", "apiGroup": GROUP, "name": name}


def _object(kind: str, name: str, content: dict[str, Any], namespace: str = "") -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    metadata["labels"] = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    metadata["annotations"] = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
    return {"apiVersion": _API_VERSION, "kind": kind, "metadata": metadata, **content}


def _binding(
    kind: str,
    name: str,
    role_kind: str,
    role: str,
    subjects: list[dict[str, Any]],
    namespace: str = "",
) -> dict[str, Any]:
    content: dict[str, Any] = {"subjects": subjects} if subjects else {}
    content["roleRef"] = {"apiGroup": GROUP, "kind": role_kind, "name": role}
    return _object(kind, name, content, namespace)
