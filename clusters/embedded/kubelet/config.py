"""How one kubelet is set up: what a KubeletConfiguration and the command line of a real one say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from clusters.containers.model import RUNTIME_NAME, RUNTIME_VERSION
from clusters.tls import Certificates

KUBELET_VERSION: Final = "v1.37.2"
CONTAINER_RUNTIME_VERSION: Final = f"{RUNTIME_NAME}://{RUNTIME_VERSION}"
DEFAULT_CAPACITY: Final[Mapping[str, str]] = {
    "cpu": "8",
    "memory": "32Gi",
    "ephemeral-storage": "100Gi",
    "hugepages-1Gi": "0",
    "hugepages-2Mi": "0",
    "pods": "110",
}


@dataclass(frozen=True)
class KubeletConfig:
    """Settings of a kubelet. Times are seconds of the cluster's clock; defaults are a real kubelet's.

    Attributes:
        labels: further labels of the Node, as with --node-labels.
        taints: taints that a new Node gets, as with --register-with-taints.
        capacity: quantities by resource name.
        reserved: what of the capacity is not allocatable.
        node_ip: address of the node; the HTTPS server listens there.
        sync_frequency: longest time between two looks at a Pod (jitter 1.0 to 1.5).
        backoff_period: time after a failed look at a Pod, at most `sync_frequency` (jitter 1.0 to 1.5).
        max_container_backoff: longest wait before a container that fails is started again.
        lease_seconds: duration of the Node's lease, which is renewed every quarter of it.
        status_frequency: how often the Node's status is looked at; written when it changed.
        status_report_frequency: how often the Node's status is written in any case.
        reconcile_period: how often claims of Pods that are gone are looked for.
        wipe_delay: time without a connection to a driver until its ResourceSlices are removed.
        api_token: bearer token of the API server for requests to this kubelet; "" lets nobody in.
        certificates: of the HTTPS server; made for the address by default.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, Any], ...] = ()
    capacity: Mapping[str, str] = field(default_factory=lambda: DEFAULT_CAPACITY)
    reserved: Mapping[str, str] = field(default_factory=dict)
    node_ip: str = "127.0.0.1"
    sync_frequency: float = 60.0
    backoff_period: float = 10.0
    max_container_backoff: float = 300.0
    lease_seconds: int = 40
    status_frequency: float = 10.0
    status_report_frequency: float = 300.0
    reconcile_period: float = 60.0
    wipe_delay: float = 30.0
    api_token: str = ""
    certificates: Certificates | None = None


@dataclass(frozen=True)
class KubeletPaths:
    """Files of one node's kubelet, all below the node's folder."""

    root: Path

    @property
    def pods(self) -> Path:
        """Folder of the Pods' volumes, one folder a Pod UID."""
        return self.root / "pods"

    @property
    def logs(self) -> Path:
        """Folder of the containers' logs, what is /var/log/pods on a real node."""
        return self.root / "log"

    @property
    def host(self) -> Path:
        """What hostPath volumes see as the root of the node's file system."""
        return self.root / "host"

    @property
    def dra_state(self) -> Path:
        """Checkpoint of the claims."""
        return self.root / "dra_manager_state"

    @property
    def dra_health(self) -> Path:
        """What drivers reported about the health of devices."""
        return self.root / "dra_health_state"

    @property
    def pod_resources(self) -> Path:
        """Socket of the Pod resources API."""
        return self.root / "pod-resources" / "kubelet.sock"
