"""The Node object as a kubelet makes it, and the status that it keeps up to date."""

from __future__ import annotations

import hashlib
import platform
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from clusters.containers.model import HANDLER_FEATURES, HANDLERS
from clusters.embedded.kubelet.config import CONTAINER_RUNTIME_VERSION, KUBELET_VERSION, KubeletConfig
from clusters.embedded.kubelet.pods.objects import Object
from clusters.embedded.kubelet.pods.resources import HUGEPAGES, parse_amounts
from dra_api.quantity import Quantity

_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_DECLARED: Final = ("DRANodeAllocatableResources", "DRAOptionalNodeOperations")
"""Gates that are features to declare under the same name. Nothing else is declared that is not there."""
_PRESSURES: Final = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)


def architecture() -> str:
    """This machine's architecture in Go's words."""
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine)


def node_labels(name: str, config: KubeletConfig) -> dict[str, str]:
    """Labels of a new Node."""
    arch = architecture()
    return {
        "beta.kubernetes.io/arch": arch,
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": arch,
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        **config.labels,
    }


def initial_node(name: str, config: KubeletConfig) -> Object:
    """The Node to create, without status."""
    node: Object = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": node_labels(name, config),
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
    }
    if config.taints:
        node["spec"] = {"taints": [dict(taint) for taint in config.taints]}
    return node


def allocatable(config: KubeletConfig) -> dict[str, str]:
    """Capacity without what is reserved; huge pages are taken out of the memory."""
    capacity, reserved = parse_amounts(config.capacity), parse_amounts(config.reserved)
    left = {name: amount - reserved.get(name, Quantity(0)) for name, amount in capacity.items()}
    for name, amount in capacity.items():
        if name.startswith(HUGEPAGES) and "memory" in left and not amount.is_zero():
            left["memory"] = left["memory"] - amount
    return {name: str(amount) if amount.sign >= 0 else "0" for name, amount in left.items()}


def _machine_id(name: str, kind: str) -> uuid.UUID:
    return uuid.UUID(bytes=hashlib.sha256(f"{kind} {name}".encode()).digest()[:16], version=4)


def node_status(
    name: str,
    config: KubeletConfig,
    gates: Mapping[str, bool],
    previous: Sequence[Mapping[str, Any]],
    *,
    now: str,
    port: int,
) -> Object:
    """The status.

    Args:
        name: name of the node.
        config: settings.
        gates: every gate's value.
        previous: conditions that the Node has.
        now: time stamp.
        port: where the HTTPS server listens.
    """
    status: Object = {
        "addresses": [
            {"type": "InternalIP", "address": config.node_ip},
            {"type": "Hostname", "address": name},
        ],
        "capacity": dict(config.capacity),
        "allocatable": allocatable(config),
        "conditions": _conditions(config, previous, now),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "features": {"supplementalGroupsPolicy": True},
        "nodeInfo": {
            "architecture": architecture(),
            # The machine goes on when a kubelet is restarted.
            "bootID": str(_machine_id(name, "boot")),
            "containerRuntimeVersion": CONTAINER_RUNTIME_VERSION,
            "kernelVersion": platform.release(),
            "kubeProxyVersion": "",
            "kubeletVersion": KUBELET_VERSION,
            "machineID": _machine_id(name, "machine").hex,
            "operatingSystem": "linux",
            "osImage": "drakit embedded node",
            "systemUUID": str(_machine_id(name, "system")),
        },
        "runtimeHandlers": [{"name": handler, "features": dict(HANDLER_FEATURES)} for handler in HANDLERS],
    }
    declared = sorted(gate for gate in _DECLARED if gates.get(gate))
    if declared:
        status["declaredFeatures"] = declared
    return status


def _conditions(config: KubeletConfig, previous: Sequence[Mapping[str, Any]], now: str) -> list[Object]:
    wanted = [(kind, "False", reason, message) for kind, reason, message in _PRESSURES]
    missing = [name for name in ("cpu", "memory", "pods", "ephemeral-storage") if name not in config.capacity]
    if missing:
        text = f"missing node capacity for resources: {', '.join(missing)}"
        wanted.append(("Ready", "False", "KubeletNotReady", text))
    else:
        wanted.append(("Ready", "True", "KubeletReady", "kubelet is posting ready status"))
    known = {condition["type"]: condition for condition in previous}
    result: list[Object] = [
        dict(condition)
        for condition in previous
        if condition["type"] not in {kind for kind, _, _, _ in wanted}
    ]
    for kind, status, reason, message in wanted:
        before = known.get(kind)
        unchanged = before is not None and before["status"] == status
        result.append(
            {
                "type": kind,
                "status": status,
                "lastHeartbeatTime": now,
                "lastTransitionTime": before["lastTransitionTime"] if before and unchanged else now,
                "reason": reason,
                "message": message,
            }
        )
    return result
