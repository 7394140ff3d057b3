"""Rules of the roles that a cluster starts with (bootstrap policy; api-validation section 11)."""

from __future__ import annotations

from collections.abc import Container
from typing import Any, Final

from clusters.embedded.apiserver.auth.node_rules import EVENTS_GROUP, NODE_RULES, READ, rule

_DRA: Final = "resource.k8s.io"
_WRITE: Final = "create delete deletecollection patch update"
_READ_UPDATE: Final = f"{READ} update patch"
_EVENTS: Final = rule("create update patch", "events", f"- {EVENTS_GROUP}")
_COORDINATION: Final = "coordination.k8s.io"

Rules = list[dict[str, Any]]


def urls(*paths: str, verb: str = "get") -> dict[str, Any]:
    """A PolicyRule for non-resource paths."""
    return {"verbs": [verb], "nonResourceURLs": list(paths)}


def cluster_roles(gates: Container[str]) -> dict[str, Rules]:
    """Role name to rules; `gates` are the names of the enabled feature gates."""
    health = ("/livez", "/readyz", "/healthz")
    roles: dict[str, Rules] = {
        "cluster-admin": [rule("*", "*", "*"), urls("*", verb="*")],
        "system:discovery": [
            urls(
                *health,
                "/version",
                "/version/",
                "/openapi",
                "/openapi/*",
                "/api",
                "/api/*",
                "/apis",
                "/apis/*",
            )
        ],
        "system:public-info-viewer": [urls(*health, "/version", "/version/")],
        "system:monitoring": [
            urls("/metrics", "/metrics/slis", *health, *(f"{path}/*" for path in health)),
            rule("get", "nodes/metrics"),
        ],
        "system:basic-user": [
            rule("create", "selfsubjectaccessreviews selfsubjectrulesreviews", "authorization.k8s.io"),
            rule("create", "selfsubjectreviews", "authentication.k8s.io"),
        ],
        "system:auth-delegator": [
            rule("create", "tokenreviews", "authentication.k8s.io"),
            rule("create", "subjectaccessreviews", "authorization.k8s.io"),
        ],
        "system:service-account-issuer-discovery": [
            urls(
                "/.well-known/openid-configuration",
                "/.well-known/openid-configuration/",
                "/openid/v1/jwks",
                "/openid/v1/jwks/",
            )
        ],
        "system:node": list(NODE_RULES),
        "system:kube-scheduler": _scheduler(gates),
        "system:kube-controller-manager": _controller_manager(),
        "view": _view(),
        "edit": _view() + _edit(),
        "admin": _view() + _edit() + _admin(),
    }
    return roles


def _scheduler(gates: Container[str]) -> Rules:
    rules = [
        _EVENTS,
        rule("create", "leases", _COORDINATION),
        rule("get update list watch", "leases", _COORDINATION, ("kube-scheduler",)),
        rule(READ, "nodes"),
        rule(f"{READ} delete", "pods"),
        rule("create", "pods/binding bindings"),
        rule("patch update", "pods/status"),
        rule(READ, "services replicationcontrollers"),
        rule(READ, "replicasets", "apps extensions"),
        rule(READ, "statefulsets", "apps"),
        rule(READ, "poddisruptionbudgets", "policy"),
        rule(READ, "persistentvolumeclaims persistentvolumes"),
        rule("create", "tokenreviews", "authentication.k8s.io"),
        rule("create", "subjectaccessreviews", "authorization.k8s.io"),
        rule(READ, "namespaces"),
        rule(READ, "csinodes volumeattachments csidrivers csistoragecapacities", "storage.k8s.io"),
        rule(READ, "deviceclasses", _DRA),
        rule(_READ_UPDATE, "resourceclaims", _DRA),
        rule(_READ_UPDATE, "resourceclaims/status", _DRA),
        rule("update", "pods/finalizers"),
        rule(READ, "resourceslices", _DRA),
    ]
    if "DRAExtendedResource" in gates:
        rules.append(rule("create delete", "resourceclaims", _DRA))
    if "DRADeviceTaintRules" in gates:
        rules.append(rule(READ, "devicetaintrules", _DRA))
    if "DRAResourceClaimGranularStatusAuthorization" in gates:
        rules.append(rule("update patch", "resourceclaims/binding", _DRA))
    if "GenericWorkload" in gates:
        rules.append(rule(READ, "podgroups", "scheduling.k8s.io"))
        rules.append(rule("patch update", "podgroups/status", "scheduling.k8s.io"))
    return rules


def _controller_manager() -> Rules:
    return [
        _EVENTS,
        rule("create", "leases", _COORDINATION),
        rule("get update", "leases", _COORDINATION, ("kube-controller-manager",)),
        rule("create", "secrets serviceaccounts"),
        rule("delete", "secrets"),
        rule("get", "namespaces secrets serviceaccounts configmaps"),
        rule("update", "secrets serviceaccounts"),
        rule("create", "tokenreviews", "authentication.k8s.io"),
        rule("create", "subjectaccessreviews", "authorization.k8s.io"),
        rule("list watch", "*", "*"),
        rule("create", "serviceaccounts/token"),
    ]


def _view() -> Rules:
    return [
        rule(READ, "pods serviceaccounts services endpoints persistentvolumeclaims configmaps"),
        rule(READ, "limitranges resourcequotas bindings pods/status namespaces/status pods/log"),
        rule(READ, "namespaces"),
        rule(READ, "events", f"- {EVENTS_GROUP}"),
        rule(
            READ,
            "statefulsets statefulsets/status statefulsets/scale daemonsets daemonsets/status deployments "
            "deployments/status deployments/scale replicasets replicasets/status replicasets/scale "
            "controllerrevisions",
            "apps",
        ),
        rule(READ, "jobs cronjobs cronjobs/status jobs/status", "batch"),
        rule(READ, "poddisruptionbudgets poddisruptionbudgets/status", "policy"),
        rule(READ, "resourceclaims resourceclaims/status resourceclaimtemplates", _DRA),
    ]


def _edit() -> Rules:
    return [
        rule(READ, "pods/attach pods/proxy pods/exec pods/portforward secrets services/proxy"),
        rule("impersonate", "serviceaccounts"),
        rule(_WRITE, "pods pods/attach pods/proxy pods/exec pods/portforward"),
        rule("create", "pods/eviction"),
        rule(_WRITE, "serviceaccounts services services/proxy persistentvolumeclaims configmaps secrets"),
        rule("create", "serviceaccounts/token"),
        rule(_WRITE, "events", f"- {EVENTS_GROUP}"),
        rule(
            _WRITE,
            "statefulsets statefulsets/scale daemonsets deployments deployments/scale replicasets "
            "replicasets/scale",
            "apps",
        ),
        rule(_WRITE, "jobs cronjobs", "batch"),
        rule(_WRITE, "poddisruptionbudgets", "policy"),
        rule(f"{READ} {_WRITE}", "leases", _COORDINATION),
        rule(_WRITE, "resourceclaims resourceclaimtemplates", _DRA),
    ]


def _admin() -> Rules:
    return [
        rule("create", "localsubjectaccessreviews", "authorization.k8s.io"),
        rule(f"{READ} {_WRITE}", "roles rolebindings", "rbac.authorization.k8s.io"),
    ]
