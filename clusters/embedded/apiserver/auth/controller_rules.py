"""Rules of the roles system:controller:*: what each controller of kube-controller-manager may do.

Source: kubernetes v1.37.2 `plugin/pkg/auth/authorizer/rbac/bootstrappolicy/controller_policy.go`. Left out are the
controllers of storage, certificates, addresses and load balancers, whose kinds are not served.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any, Final

from clusters.embedded.apiserver.auth.node_rules import EVENTS_GROUP, READ, rule

Rules = list[dict[str, Any]]

_DRA: Final = "resource.k8s.io"
_SCHEDULING: Final = "scheduling.k8s.io"
_APPS: Final = "apps extensions"
_EVENTS: Final = rule("create update patch", "events", f"- {EVENTS_GROUP}")


def controller_roles(gates: Container[str]) -> dict[str, Rules]:
    """Controller name (its service account in kube-system) to rules; `gates` are the enabled feature gates."""
    return {**_workloads(gates), **_housekeeping(), **_dra(gates)}


def _workloads(gates: Container[str]) -> dict[str, Rules]:
    revisions = rule(f"{READ} create delete update patch", "controllerrevisions", "apps")
    job = [
        rule(f"{READ} update patch", "jobs", "batch"),
        rule("update", "jobs/status", "batch"),
        rule("update", "jobs/finalizers", "batch"),
        rule("list watch create delete patch", "pods"),
        _EVENTS,
    ]
    if "WorkloadWithJob" in gates:
        job.append(rule(f"{READ} create update patch", "workloads podgroups", _SCHEDULING))
    return {
        "cronjob-controller": [
            rule(f"{READ} update", "cronjobs", "batch"),
            rule(f"{READ} create update delete patch", "jobs", "batch"),
            rule("update", "cronjobs/status", "batch"),
            rule("update", "cronjobs/finalizers", "batch"),
            rule("list watch delete", "pods"),
            _EVENTS,
        ],
        "daemon-set-controller": [
            rule(READ, "daemonsets", _APPS),
            rule("update", "daemonsets/status", _APPS),
            rule("update", "daemonsets/finalizers", _APPS),
            rule("list watch", "nodes"),
            rule("list watch create delete patch", "pods"),
            rule("create", "pods/binding"),
            revisions,
            _EVENTS,
        ],
        "deployment-controller": [
            rule(f"{READ} update", "deployments", _APPS),
            rule("update", "deployments/status", _APPS),
            rule("update", "deployments/finalizers", _APPS),
            rule(f"{READ} create update patch delete", "replicasets", _APPS),
            rule(f"{READ} update", "pods"),
            _EVENTS,
        ],
        "disruption-controller": [
            rule(READ, "deployments", _APPS),
            rule(READ, "replicasets", _APPS),
            rule(READ, "replicationcontrollers"),
            rule(READ, "poddisruptionbudgets", "policy"),
            rule(READ, "statefulsets", "apps"),
            rule("update", "poddisruptionbudgets/status", "policy"),
            rule("patch update", "pods/status"),
            rule("get", "*/scale", "*"),
            _EVENTS,
        ],
        "job-controller": job,
        "replicaset-controller": [
            rule(f"{READ} update", "replicasets", _APPS),
            rule("update", "replicasets/status", _APPS),
            rule("update", "replicasets/finalizers", _APPS),
            rule("list watch patch create delete", "pods"),
            _EVENTS,
        ],
        "replication-controller": [
            rule(f"{READ} update", "replicationcontrollers"),
            rule("update", "replicationcontrollers/status"),
            rule("update", "replicationcontrollers/finalizers"),
            rule("list watch patch create delete", "pods"),
            _EVENTS,
        ],
        "statefulset-controller": [
            rule("list watch", "pods"),
            rule(READ, "statefulsets", "apps"),
            rule("update", "statefulsets/status", "apps"),
            rule("update", "statefulsets/finalizers", "apps"),
            rule("get create delete update patch", "pods"),
            revisions,
            rule("get create list watch", "persistentvolumeclaims"),
            rule("update delete", "persistentvolumeclaims"),
            rule("update", "pods/finalizers"),
            _EVENTS,
        ],
        "ttl-after-finished-controller": [rule(f"{READ} delete", "jobs", "batch"), _EVENTS],
    }


def _housekeeping() -> dict[str, Rules]:
    return {
        "clusterrole-aggregation-controller": [
            rule(f"escalate {READ} update patch", "clusterroles", "rbac.authorization.k8s.io")
        ],
        "endpoint-controller": [
            rule(READ, "services pods"),
            rule(f"{READ} create update delete", "endpoints"),
            rule("create", "endpoints/restricted"),
            _EVENTS,
        ],
        "endpointslice-controller": [
            rule(READ, "services pods nodes"),
            rule("update", "services/finalizers"),
            rule(f"{READ} create update delete", "endpointslices", "discovery.k8s.io"),
            _EVENTS,
        ],
        "generic-garbage-collector": [rule(f"{READ} patch update delete", "*", "*"), _EVENTS],
        "legacy-service-account-token-cleaner": [
            rule("get", "configmaps", names=("kube-apiserver-legacy-service-account-token-tracking",)),
            rule("patch delete", "secrets"),
        ],
        "namespace-controller": [
            rule(f"{READ} delete", "namespaces"),
            rule("update", "namespaces/finalize namespaces/status"),
            rule(f"{READ} delete deletecollection", "*", "*"),
        ],
        "node-controller": [
            rule(f"{READ} update delete patch", "nodes"),
            rule("patch update", "nodes/status"),
            rule("patch update", "pods/status"),
            rule("list watch get delete", "pods"),
            rule(READ, "leases", "coordination.k8s.io"),
            _EVENTS,
        ],
        "pod-garbage-collector": [
            rule("list watch delete", "pods"),
            rule(READ, "nodes"),
            rule("patch", "pods/status"),
        ],
        "resourcequota-controller": [
            rule("list watch", "*", "*"),
            rule("update", "resourcequotas/status"),
            _EVENTS,
        ],
        "root-ca-cert-publisher": [rule("create update", "configmaps"), _EVENTS],
        "service-account-controller": [rule("create", "serviceaccounts"), _EVENTS],
        "ttl-controller": [rule("update patch list watch", "nodes"), _EVENTS],
        "validatingadmissionpolicy-status-controller": [
            rule(READ, "validatingadmissionpolicies", "admissionregistration.k8s.io"),
            rule("get patch update", "validatingadmissionpolicies/status", "admissionregistration.k8s.io"),
            _EVENTS,
        ],
    }


def _dra(gates: Container[str]) -> dict[str, Rules]:
    claims = [
        rule(READ, "pods"),
        rule("update", "pods/finalizers"),
        rule(f"{READ} create delete", "resourceclaims", _DRA),
        rule("update patch", "resourceclaims resourceclaims/status", _DRA),
        rule("update patch", "pods/status"),
        _EVENTS,
    ]
    if "DRAWorkloadResourceClaims" in gates:
        claims += [
            rule(READ, "podgroups", _SCHEDULING),
            rule("update patch", "podgroups/status", _SCHEDULING),
        ]
    if "DRAResourceClaimGranularStatusAuthorization" in gates:
        claims.append(rule("update patch", "resourceclaims/binding", _DRA))
    roles = {"resource-claim-controller": claims}
    if "DRADeviceTaints" in gates:
        eviction = [
            rule(f"{READ} delete", "pods"),
            rule("update patch", "pods/status"),
            rule(READ, "resourceclaims", _DRA),
            rule(READ, "resourceslices", _DRA),
            rule(READ, "deviceclasses", _DRA),
            _EVENTS,
        ]
        if "DRADeviceTaintRules" in gates:
            eviction += [
                rule("update patch", "devicetaintrules/status", _DRA),
                rule(READ, "devicetaintrules", _DRA),
            ]
        roles["device-taint-eviction-controller"] = eviction
    if "DRAResourcePoolStatus" in gates:
        roles["resourcepoolstatusrequest-controller"] = [
            rule(f"{READ} delete", "resourcepoolstatusrequests", _DRA),
            rule("update patch", "resourcepoolstatusrequests/status", _DRA),
            rule(READ, "resourceslices", _DRA),
            rule(READ, "resourceclaims", _DRA),
            rule(READ, "devicetaintrules", _DRA),
            _EVENTS,
        ]
    return roles
