"""The strategy of each resource."""

from __future__ import annotations

from typing import Final

from clusters.embedded.apiserver.resources import Resource
from clusters.embedded.apiserver.strategies import core, resource, workloads
from clusters.embedded.apiserver.strategies.admission_policy import (
    BindingStrategy,
    MutatingBindingStrategy,
    MutatingPolicyStrategy,
    PolicyStrategy,
)
from clusters.embedded.apiserver.strategies.base import Strategy
from clusters.embedded.apiserver.strategies.pod import PodStrategy
from clusters.embedded.apiserver.strategies.quota import QuotaStrategy
from clusters.embedded.apiserver.strategies.service import ServiceStrategy

_ADMISSION: Final = "admissionregistration.k8s.io"
_DRA: Final = "resource.k8s.io"

_TABLE: Final[dict[tuple[str, str], Strategy]] = {
    ("", "nodes"): core.NodeStrategy(),
    ("", "namespaces"): core.NamespaceStrategy(),
    ("", "pods"): PodStrategy(),
    ("", "resourcequotas"): QuotaStrategy(),
    ("", "services"): ServiceStrategy(),
    ("apps", "controllerrevisions"): workloads.RevisionStrategy(),
    ("apps", "daemonsets"): workloads.DaemonSetStrategy(),
    ("apps", "deployments"): workloads.DeploymentStrategy(),
    ("apps", "replicasets"): workloads.ReplicaSetStrategy(),
    ("apps", "statefulsets"): workloads.WorkloadStrategy(),
    ("batch", "cronjobs"): workloads.WorkloadStrategy(),
    ("batch", "jobs"): workloads.JobStrategy(),
    ("policy", "poddisruptionbudgets"): workloads.WorkloadStrategy(),
    (_ADMISSION, "mutatingadmissionpolicies"): MutatingPolicyStrategy(),
    (_ADMISSION, "mutatingadmissionpolicybindings"): MutatingBindingStrategy(),
    (_ADMISSION, "validatingadmissionpolicies"): PolicyStrategy(),
    (_ADMISSION, "validatingadmissionpolicybindings"): BindingStrategy(),
    (_DRA, "deviceclasses"): resource.CountedStrategy(),
    (_DRA, "resourceslices"): resource.CountedStrategy(),
    (_DRA, "resourceclaims"): resource.ClaimStrategy(),
    (_DRA, "resourceclaimtemplates"): resource.TemplateStrategy(),
    (_DRA, "devicetaintrules"): resource.TaintRuleStrategy(),
    (_DRA, "resourcepoolstatusrequests"): resource.PoolStatusStrategy(),
}
_NOTHING_SPECIAL: Final = core.CoreStrategy()


def strategy_of(served: Resource) -> Strategy:
    """The strategy of a stored resource."""
    return _TABLE.get((served.group, served.plural), _NOTHING_SPECIAL)
