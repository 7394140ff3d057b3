"""How the kubelets of a local cluster are started, and what of a NodeSpec they can be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from clusters.interface import ClusterError, ClusterSpec, NodeSpec
from clusters.local import credentials, probes
from clusters.local.control_plane import Programs, feature_gates
from clusters.local.credentials import Credentials, node_user
from clusters.local.mounts import MountNamespace
from clusters.local.supervisor import Launch, Process

FOLDER: Final = "k"
"""Name of a kubelet's root folder in that of its node, short because of its sockets."""

# What a kubelet expects of the kernel: it sets what it finds otherwise, and the kernel is that of the whole machine.
_SYSCTLS: Final[Mapping[str, str]] = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
_OWN_LABELS: Final = frozenset(
    {
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "node.kubernetes.io/instance-type",
        "beta.kubernetes.io/instance-type",
    }
)
_OWN_NAMESPACES: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
_MACHINE: Final = frozenset({"cpu", "memory", "ephemeral-storage"})


def may_set_label(key: str) -> bool:
    """Whether a kubelet may give its Node this label; others are an administrator's."""
    namespace = key.rpartition("/")[0]
    reserved = any(
        namespace == domain or namespace.endswith("." + domain) for domain in ("kubernetes.io", "k8s.io")
    )
    own = any(namespace == name or namespace.endswith("." + name) for name in _OWN_NAMESPACES)
    return not reserved or own or key in _OWN_LABELS


def extended_resources(spec: NodeSpec) -> dict[str, str]:
    """What of the capacity an administrator writes to the Node's status.

    Raises ClusterError for what is the machine's, and cannot be chosen.
    """
    chosen = dict(spec.capacity)
    chosen.pop("pods", None)
    for name in chosen:
        if name in _MACHINE or name.startswith("hugepages-"):
            raise ClusterError(
                f"nodes of a local cluster have the {name} of this machine; their capacity can only be set for "
                "pods and for extended resources such as example.com/widget"
            )
    return chosen


class KubeletFactory:
    """Makes the kubelets of one cluster."""

    def __init__(
        self,
        spec: ClusterSpec,
        programs: Programs,
        keys: Credentials,
        namespace: MountNamespace,
        make: Callable[..., Process],
        *,
        address: str,
    ) -> None:
        """`make` makes a Process of the cluster; `address` is what kubelets serve on, "" for loopback alone."""
        self._programs = programs
        self._keys = keys
        self._namespace = namespace
        self._make = make
        self._address = address
        self._gates = dict(feature_gates(spec))
        self._fields = {name: _value(text) for name, text in spec.kubelet}

    def kubelet(
        self, name: str, spec: NodeSpec, root: Path, server: Callable[[], str], runtime: Path
    ) -> Process:
        """The kubelet of a node whose folder is `root`; `runtime` is the socket of its CRI server."""
        ports: dict[str, int] = {}
        host = self._address or "127.0.0.1"
        covers = self._covers(root)
        # A kubelet that is killed as it starts leaves a folder where others would, too.
        temporary = root / "host" / "tmp"
        temporary.mkdir()
        # A prefix that no other file has: a node may have any name, "apiserver" as well.
        certificate, key = self._keys.pair(
            f"node-{name}", self._keys.authority.server(f"system:node:{name}", name, host)
        )

        def launch() -> Launch:
            if not process.has_served:
                ports.update(https=probes.free_port(host), health=probes.free_port())
            document = {
                **self._configuration(root, spec, runtime),
                "address": host,
                "port": ports["https"],
                "healthzPort": ports["health"],
                "tlsCertFile": str(certificate),
                "tlsPrivateKeyFile": str(key),
                **self._fields,
            }
            config = credentials.write(root / "kubelet.yaml", yaml.safe_dump(document).encode())
            labels = [f"{key}={value}" for key, value in spec.labels if may_set_label(key)]
            command = [
                str(self._programs.path("kubelet")),
                f"--config={config}",
                f"--kubeconfig={self._keys.kubeconfig(node_user(name), server())}",
                f"--hostname-override={name}",
                f"--root-dir={root / FOLDER}",
                f"--cert-dir={root / FOLDER / 'pki'}",
                f"--node-labels={','.join(labels)}",
                *([f"--node-ip={host}"] if self._address else []),
                "--v=2",
            ]
            return Launch(
                self._namespace.inside(command, covers),
                probes.http(f"http://127.0.0.1:{ports['health']}/healthz"),
                (self._namespace.descriptor,),
                {"TMPDIR": str(temporary)},
            )

        process = self._make(f"kubelet-{name}", launch, stop_seconds=5.0)
        return process

    def _covers(self, root: Path) -> dict[str, Path]:
        """Places of the host that a kubelet uses whatever its settings are, and what it sees there instead."""
        own = root / "host"
        covers = {"/var/lib/kubelet": own / "kubelet", "/var/log/containers": own / "containers"}
        for folder in covers.values():
            folder.mkdir(parents=True)
        for name, value in _SYSCTLS.items():
            if Path("/proc/sys", name).exists():
                covers[f"/proc/sys/{name}"] = credentials.write(
                    own / name.replace("/", "."), f"{value}\n".encode()
                )
        return covers

    def _configuration(self, root: Path, spec: NodeSpec, runtime: Path) -> dict[str, Any]:
        capacity = dict(spec.capacity)
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": f"unix://{runtime}",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": False},
                "x509": {"clientCAFile": str(self._keys.ca)},
            },
            # The only client certificate of this authority is that of the API server.
            "authorization": {"mode": "AlwaysAllow"},
            "readOnlyPort": 0,
            # Nobody listens there; a kubelet without it complains in an event of every Pod.
            "clusterDNS": ["10.96.0.10"],
            "clusterDomain": "cluster.local",
            "healthzBindAddress": "127.0.0.1",
            "podLogsDir": str(root / "log"),
            "volumePluginDir": str(root / FOLDER / "volume-plugins"),
            # Containers are no processes: there is nothing to put into cgroups.
            "cgroupDriver": "cgroupfs",
            "cgroupsPerQOS": False,
            "enforceNodeAllocatable": [],
            "failCgroupV1": False,
            "failSwapOn": False,
            "makeIPTablesUtilChains": False,
            "oomScoreAdj": 0,
            # A full disk of the user's must not evict Pods that use none of it.
            "evictionHard": {
                "memory.available": "1Mi",
                "nodefs.available": "0%",
                "nodefs.inodesFree": "0%",
                "imagefs.available": "0%",
                "imagefs.inodesFree": "0%",
            },
            "imageGCHighThresholdPercent": 100,
            "featureGates": self._gates,
            **({"maxPods": _value(capacity["pods"])} if "pods" in capacity else {}),
            **(
                {
                    "registerWithTaints": [
                        {"key": key, "value": value, "effect": effect} for key, value, effect in spec.taints
                    ]
                }
                if spec.taints
                else {}
            ),
        }


def _value(text: str) -> Any:
    """A field's value from its text: numbers and truth values as such, durations and words as text."""
    return yaml.safe_load(text)
