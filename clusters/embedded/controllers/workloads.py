"""The workload controllers by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from clusters.embedded.components.component import Component
from clusters.embedded.controllers.daemonset import DaemonSetController
from clusters.embedded.controllers.deployment import DeploymentController
from clusters.embedded.controllers.job import JobController, TtlAfterFinishedController
from clusters.embedded.controllers.replicaset import ReplicaSetController
from clusters.embedded.controllers.statefulset import StatefulSetController


@dataclass(frozen=True)
class Workload:
    """How to make one life of a controller, and its service account in kube-system."""

    factory: Callable[[], Component]
    account: str


WORKLOADS: Final[Mapping[str, Workload]] = {
    "daemonset-controller": Workload(DaemonSetController, "daemon-set-controller"),
    "deployment-controller": Workload(DeploymentController, "deployment-controller"),
    "job-controller": Workload(JobController, "job-controller"),
    "replicaset-controller": Workload(ReplicaSetController, "replicaset-controller"),
    "statefulset-controller": Workload(StatefulSetController, "statefulset-controller"),
    "ttl-after-finished-controller": Workload(TtlAfterFinishedController, "ttl-after-finished-controller"),
}
"""Name of the controller in kube-controller-manager to what runs it."""
