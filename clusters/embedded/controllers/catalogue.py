"""All controllers of an embedded cluster under upstream's names (cmd/kube-controller-manager/names)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from clusters.embedded.components.component import Component
from clusters.embedded.controllers.admission_policy_status import AdmissionPolicyStatusController
from clusters.embedded.controllers.device_taint_eviction import DeviceTaintEvictionController
from clusters.embedded.controllers.disruption import DisruptionController
from clusters.embedded.controllers.garbage_collector import GarbageCollector
from clusters.embedded.controllers.namespace import NamespaceController
from clusters.embedded.controllers.node_lifecycle import NodeLifecycleController
from clusters.embedded.controllers.pod_gc import PodGarbageCollector
from clusters.embedded.controllers.resource_claim import ResourceClaimController
from clusters.embedded.controllers.resource_pool_status import ResourcePoolStatusController
from clusters.embedded.controllers.resource_quota import ResourceQuotaController
from clusters.embedded.controllers.root_ca import RootCaPublisher
from clusters.embedded.controllers.service_account import ServiceAccountController
from clusters.embedded.controllers.taint_eviction import TaintEvictionController
from clusters.embedded.controllers.workloads import WORKLOADS


@dataclass(frozen=True)
class Entry:
    """A controller: its name, what makes one life of it, its service account in kube-system.

    Without its feature gate, if it has one, it does not exist.
    """

    name: str
    factory: Callable[[], Component]
    service_account: str
    gate: str = ""


def controllers(ca_pem: str) -> list[Entry]:
    """Every controller; `ca_pem` is the certificate authority of the API server."""
    return [
        Entry(ResourceClaimController.name, ResourceClaimController, "resource-claim-controller"),
        Entry(GarbageCollector.name, GarbageCollector, "generic-garbage-collector"),
        Entry(NamespaceController.name, NamespaceController, "namespace-controller"),
        Entry(ServiceAccountController.name, ServiceAccountController, "service-account-controller"),
        Entry(RootCaPublisher.name, lambda: RootCaPublisher(ca_pem), "root-ca-cert-publisher"),
        Entry(NodeLifecycleController.name, NodeLifecycleController, "node-controller"),
        Entry(TaintEvictionController.name, TaintEvictionController, "node-controller"),
        Entry(
            DeviceTaintEvictionController.name,
            DeviceTaintEvictionController,
            "device-taint-eviction-controller",
            gate="DRADeviceTaints",
        ),
        Entry(
            ResourcePoolStatusController.name,
            ResourcePoolStatusController,
            "resourcepoolstatusrequest-controller",
            gate="DRAResourcePoolStatus",
        ),
        Entry(DisruptionController.name, DisruptionController, "disruption-controller"),
        Entry(ResourceQuotaController.name, ResourceQuotaController, "resourcequota-controller"),
        Entry(
            AdmissionPolicyStatusController.name,
            AdmissionPolicyStatusController,
            "validatingadmissionpolicy-status-controller",
        ),
        Entry(PodGarbageCollector.name, PodGarbageCollector, "pod-garbage-collector"),
        *(Entry(name, workload.factory, workload.account) for name, workload in WORKLOADS.items()),
    ]
