"""Describes a cluster to kind: what a ClusterSpec is as a document of kind.x-k8s.io/v1alpha4. Starts nothing.

Nodes are containers. The first one is the control plane, where Pods run as everywhere; the folder of each is at the
same path inside it, so that what a driver on the host says of its files is true there. Only where kubelet and runtime
look has a place of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from clusters import gates
from clusters.interface import ClusterError, ClusterSpec, NodeSpec
from clusters.local.kubelet import extended_resources, may_set_label
from clusters.node import node_paths

BARE_PORT: Final = 6444
"""Port inside the control plane that is published, too: that of an API server beside the cluster's own."""
REGISTRY: Final = "/var/lib/kubelet/plugins_registry"
CDI: Final = "/etc/cdi"
"""Where kubelet and runtime of a node look. Not /run/cdi: kind mounts a file system of its own on /run."""

_HOST: Final = "127.0.0.1"
_CONTROL_PLANE_TAINT: Final = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
_SCHEDULER_FILE: Final = "scheduler.yaml"
_SCHEDULER_KUBECONFIG: Final = "/etc/kubernetes/scheduler.conf"
_KUBELET_GROUP: Final = "kubelet.config.k8s.io/v1beta1"
_KUBEADM: Final = ("v1beta3", "v1beta4")
"""kind writes kubeadm's configuration in one of these, as versions of it and of Kubernetes are, and takes of our
changes those of the same version. In the older one arguments are a map and no list."""

# As in a container without privileges of its own: what a kubelet asks for is more than a sandbox can give. Elsewhere
# it is without effect, as containers of Pods have the score of the runtime at least.
_CONTAINERD: Final = '[plugins."io.containerd.grpc.v1.cri"]\n  restrict_oom_score_adj = true\n'
# The controllers' accounts take seconds at the default rate; a cluster has one of each, and waits for no lease.
_MANAGER: Final[Mapping[str, str]] = {
    "enable-hostpath-provisioner": "true",
    "leader-elect": "false",
    "kube-api-qps": "200",
    "kube-api-burst": "400",
}


def container_names(name: str, count: int) -> list[str]:
    """The names that kind gives to the containers, and Kubernetes to the nodes, of `count` nodes."""
    workers = [f"{name}-worker{number if number > 1 else ''}" for number in range(1, count)]
    return [f"{name}-control-plane", *workers]


def gate_settings(spec: ClusterSpec) -> dict[str, bool]:
    """The gates to set so that the choice holds, without those that are locked to what they are. Raises GateError."""
    table = gates.known(spec.version)
    chosen = gates.settings(dict(spec.gates), spec.version)
    return {name: value for name, value in sorted(chosen.items()) if not table[name].locked}


def runtime_settings(spec: ClusterSpec) -> dict[str, bool]:
    """What the API server has to serve: the choice, and what gates need that are on. Raises GateError."""
    return gates.runtime_config(dict(spec.gates), spec.version) | dict(spec.runtime_config)


def labels_of_administrators(node: NodeSpec) -> dict[str, str]:
    """The labels that a kubelet may not give its own Node; an administrator does once it is registered."""
    return {key: value for key, value in node.labels if not may_set_label(key)}


def files(spec: ClusterSpec, folders: Sequence[Path]) -> dict[Path, str]:
    """The files that `document` names, with their content, to be written before kind is called. Raises ClusterError."""
    config = _scheduler(spec.scheduler_config)
    return {folders[0] / _SCHEDULER_FILE: yaml.safe_dump(config)} if config is not None else {}


def document(spec: ClusterSpec, name: str, folders: Sequence[Path], *, port: int = 0) -> str:
    """The text of kind's configuration; `kind_config` says more."""
    return yaml.safe_dump(kind_config(spec, name, folders, port=port), sort_keys=False)


def kind_config(spec: ClusterSpec, name: str, folders: Sequence[Path], *, port: int = 0) -> dict[str, Any]:
    """kind's configuration of a cluster with a node for each of `folders`, those of the spec first.

    `port` is that of the API server on this machine, 0 for a free one. Raises GateError, and ClusterError for what no
    node in a container can be.
    """
    nodes = [*spec.nodes, *(NodeSpec() for _ in range(len(folders) - len(spec.nodes)))]
    if not folders or len(nodes) > len(folders):
        raise ValueError("a folder is needed for every node, and one for the control plane")
    chosen = gate_settings(spec)
    patches = [
        *(_cluster_patch(api, spec, chosen, folders[0]) for api in _KUBEADM),
        *(_patience_patch(kind) for kind in ("InitConfiguration", "JoinConfiguration")),
        {"apiVersion": _KUBELET_GROUP, "kind": "KubeletConfiguration", **_kubelet(spec)},
    ]
    result: dict[str, Any] = {
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "kind": "Cluster",
        "name": name,
        "networking": {"apiServerAddress": _HOST, **({"apiServerPort": port} if port else {})},
        "kubeadmConfigPatches": [yaml.safe_dump(patch) for patch in patches],
        "containerdConfigPatches": [_CONTAINERD],
        "nodes": [
            _node(node, folder, number, len(folders))
            for number, (node, folder) in enumerate(zip(nodes, folders, strict=True))
        ],
    }
    if chosen:
        result["featureGates"] = chosen
    if served := runtime_settings(spec):
        result["runtimeConfig"] = {key: _word(value) for key, value in sorted(served.items())}
    return result


def _node(node: NodeSpec, folder: Path, number: int, count: int) -> dict[str, Any]:
    paths = node_paths(folder)
    first = number == 0
    kind = "InitConfiguration" if first else "JoinConfiguration"
    # The folder before what is in it.
    mounts = {folder: str(folder), paths.kubelet_registry: REGISTRY, paths.cdi: CDI}
    result: dict[str, Any] = {
        "role": "control-plane" if first else "worker",
        "extraMounts": [{"hostPath": str(host), "containerPath": inside} for host, inside in mounts.items()],
    }
    if first:
        result["extraPortMappings"] = [
            {"containerPort": BARE_PORT, "hostPort": 0, "listenAddress": _HOST, "protocol": "TCP"}
        ]
    if labels := {key: value for key, value in node.labels if may_set_label(key)}:
        result["labels"] = labels
    taints: list[dict[str, str]] = [
        {"key": key, "value": value, "effect": effect} for key, value, effect in node.taints
    ]
    if first and count == 1 and taints:
        # kind takes it away from a single node, and fails when it is not there.
        taints.insert(0, dict(_CONTROL_PLANE_TAINT))
    if taints or (first and count > 1):
        # The same in every version of kubeadm's configuration.
        patch = {"kind": kind, "nodeRegistration": {"taints": taints}}
        result["kubeadmConfigPatches"] = [yaml.safe_dump(patch)]
    extended_resources(node)
    if pods := dict(node.capacity).get("pods"):
        result["kubeadmConfigPatchesJSON6902"] = [
            _append_argument(api, kind, "max-pods", pods) for api in _KUBEADM
        ]
    return result


def _append_argument(api: str, kind: str, name: str, value: str) -> dict[str, str]:
    """One more argument of a kubelet. A merge would put it in the place of kind's own."""
    path = "/nodeRegistration/kubeletExtraArgs"
    step: dict[str, Any] = {"op": "add", "path": f"{path}/{name}", "value": value}
    if api != _KUBEADM[0]:
        step = {"op": "add", "path": f"{path}/-", "value": {"name": name, "value": value}}
    return {"group": "kubeadm.k8s.io", "version": api, "kind": kind, "patch": yaml.safe_dump([step])}


def _patience_patch(kind: str) -> dict[str, Any]:
    """Let kubeadm try its requests for longer than a minute, which a busy machine needs; older versions cannot."""
    return {
        "apiVersion": f"kubeadm.k8s.io/{_KUBEADM[-1]}",
        "kind": kind,
        "timeouts": {"kubernetesAPICall": "4m0s"},
    }


def _cluster_patch(api: str, spec: ClusterSpec, chosen: Mapping[str, bool], folder: Path) -> dict[str, Any]:
    gate_arguments = {}
    if chosen:
        gate_arguments["feature-gates"] = ",".join(f"{name}={_word(value)}" for name, value in chosen.items())
    scheduler: dict[str, Any] = {"leader-elect": "false"}
    volumes = []
    if spec.scheduler_config.strip():
        inside = f"/etc/kubernetes/{_SCHEDULER_FILE}"
        scheduler["config"] = inside
        volumes = [
            {
                "name": "configuration",
                "hostPath": str(folder / _SCHEDULER_FILE),
                "mountPath": inside,
                "readOnly": True,
                "pathType": "File",
            }
        ]
    return {
        "apiVersion": f"kubeadm.k8s.io/{api}",
        "kind": "ClusterConfiguration",
        "controllerManager": {"extraArgs": _arguments(api, {**gate_arguments, **_MANAGER})},
        "scheduler": {
            "extraArgs": _arguments(api, {**gate_arguments, **scheduler}),
            **({"extraVolumes": volumes} if volumes else {}),
        },
        # What it keeps is thrown away with the cluster.
        "etcd": {"local": {"extraArgs": _arguments(api, {"unsafe-no-fsync": "true"})}},
    }


def _arguments(api: str, pairs: Mapping[str, str]) -> Any:
    """Arguments of a component; a patch replaces a list as a whole, so that kind's own have to be among them."""
    if api != _KUBEADM[0]:
        return [{"name": name, "value": value} for name, value in pairs.items()]
    return dict(pairs)


def _kubelet(spec: ClusterSpec) -> dict[str, Any]:
    return {
        # Needed on a host with the first version of control groups, without effect on others.
        "failCgroupV1": False,
        # Numbers and truth values as such, durations and words as text.
        **{name: yaml.safe_load(text) for name, text in spec.kubelet},
    }


def _scheduler(text: str) -> dict[str, Any] | None:
    """A KubeSchedulerConfiguration for the scheduler of a kind cluster; None without one. Raises ClusterError."""
    if not text.strip():
        return None
    try:
        config = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ClusterError(f"the scheduler configuration is no YAML: {error}") from None
    if not isinstance(config, dict):
        raise ClusterError("the scheduler configuration must be a KubeSchedulerConfiguration")
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        **config,
        "clientConnection": {**(config.get("clientConnection") or {}), "kubeconfig": _SCHEDULER_KUBECONFIG},
        "leaderElection": {"leaderElect": False},
    }


def _word(value: bool) -> str:
    return "true" if value else "false"
