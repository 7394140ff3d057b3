"""The strategy of each resource."""

from __future__ import annotations

from typing import Final

from clusters.embedded.apiserver.resources import Resource
from clusters.embedded.apiserver.strategies import core, objects, resource
from clusters.embedded.apiserver.strategies.base import Strategy
from clusters.embedded.apiserver.strategies.pod import PodStrategy

_RBAC: Final = "rbac.authorization.k8s.io"
_DRA: Final = "resource.k8s.io"

_TABLE: Final[dict[tuple[str, str], Strategy]] = {
    ("", "nodes"): core.NodeStrategy(),
    ("", "namespaces"): core.NamespaceStrategy(),
    ("", "configmaps"): core.ConfigMapStrategy(),
    ("", "secrets"): core.SecretStrategy(),
    ("", "serviceaccounts"): Strategy(),
    ("", "pods"): PodStrategy(),
    ("", "events"): objects.EventStrategy(strict=False),
    ("events.k8s.io", "events"): objects.EventStrategy(strict=True),
    ("coordination.k8s.io", "leases"): objects.LeaseStrategy(),
    (_RBAC, "roles"): objects.RoleStrategy(namespaced=True),
    (_RBAC, "clusterroles"): objects.RoleStrategy(namespaced=False),
    (_RBAC, "rolebindings"): objects.BindingStrategy(namespaced=True),
    (_RBAC, "clusterrolebindings"): objects.BindingStrategy(namespaced=False),
    (_DRA, "deviceclasses"): resource.CountedStrategy(),
    (_DRA, "resourceslices"): resource.CountedStrategy(),
    (_DRA, "resourceclaims"): resource.ClaimStrategy(),
    (_DRA, "resourceclaimtemplates"): resource.TemplateStrategy(),
    (_DRA, "devicetaintrules"): resource.TaintRuleStrategy(),
    (_DRA, "resourcepoolstatusrequests"): resource.PoolStatusStrategy(),
}


def strategy_of(served: Resource) -> Strategy:
    """The strategy of a stored resource."""
    return _TABLE[served.group, served.plural]
