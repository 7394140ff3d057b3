"""Checks of kubelets and container runtimes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from clusters.doctor.cluster.model import ClusterCheck, Problem, doubt, fault, unknown
from clusters.doctor.cluster.pools import device_content, local_slices
from clusters.doctor.cluster.snapshot import Object, Snapshot
from clusters.doctor.model import Wanted

Version = tuple[int, ...]


@dataclass(frozen=True)
class KnownBad:
    """Kubelets from `first` to before `mended` with a fault that is published."""

    first: Version
    mended: Version
    what: str
    issue: str


KNOWN_BAD: Final = (
    KnownBad(
        (1, 34, 0),
        (1, 34, 2),
        "forgets drivers that are registered, so that Pods with claims do not start",
        "kubernetes/kubernetes#133920",
    ),
)
_SKEW: Final = 3
_CONTAINERD_KNOWS, _CONTAINERD_ON, _CRIO_KNOWS = (1, 7), (2, 0), (1, 23)


def numbers(text: str) -> Version:
    """The numbers of a version such as v1.34.1-eks-1 or 1.7.27-0ubuntu1."""
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(part) for part in found.groups() if part) if found else ()


def _info(node: Object) -> Object:
    info: Object = (node.get("status") or {}).get("nodeInfo") or {}
    return info


def judge_known_bad(snapshot: Snapshot, wanted: Wanted) -> Iterator[Problem]:
    """Patch releases that are better avoided."""
    for node in snapshot.list("nodes"):
        version = str(_info(node).get("kubeletVersion", ""))
        for entry in KNOWN_BAD:
            if entry.first <= numbers(version) < entry.mended:
                yield fault(
                    f"node {node['metadata']['name']}",
                    f"its kubelet {version} {entry.what} ({entry.issue})",
                    f"update it to v{'.'.join(map(str, entry.mended))} or newer",
                )


def judge_skew(snapshot: Snapshot, wanted: Wanted) -> Iterator[Problem]:
    """Kubernetes' own rule: not newer than the API server, and at most three minors older."""
    server = numbers(snapshot.version)[:2]
    for node in snapshot.list("nodes"):
        version = str(_info(node).get("kubeletVersion", ""))
        found = numbers(version)[:2]
        if len(found) == 2 and len(server) == 2 and not 0 <= server[1] - found[1] <= _SKEW:
            word = "newer than" if found > server else "too old for"
            yield fault(
                f"node {node['metadata']['name']}",
                f"its kubelet {version} is {word} the API server {snapshot.version}",
                "update the older one",
            )


def judge_ready(snapshot: Snapshot, wanted: Wanted) -> Iterator[Problem]:
    """Devices of a node that is not Ready are not given away."""
    drivers = {str((item.get("spec") or {}).get("nodeName", "")) for item in snapshot.list("resourceslices")}
    for node in snapshot.list("nodes"):
        name = node["metadata"]["name"]
        conditions = (node.get("status") or {}).get("conditions") or []
        ready: Object = next((entry for entry in conditions if entry.get("type") == "Ready"), {})
        if ready.get("status") != "True":
            devices = "; there are slices of it" if name in drivers else ""
            why = str(ready.get("message") or ready.get("reason") or "no condition says why")
            yield doubt(f"node {name}", f"it is not Ready: {why}{devices}", f"kubectl describe node {name}")


def judge_runtime(snapshot: Snapshot, wanted: Wanted) -> Iterator[Problem]:
    """A runtime without CDI starts containers without their devices, and says nothing."""
    for node in snapshot.list("nodes"):
        where = f"node {node['metadata']['name']}"
        name, _, version = str(_info(node).get("containerRuntimeVersion", "")).partition("://")
        found = numbers(version)
        if not found:
            yield unknown(where, "it does not tell its container runtime")
        elif name == "containerd" and found < _CONTAINERD_KNOWS:
            yield fault(where, f"containerd {version} knows no CDI", "update it to 2.0 or newer")
        elif name == "containerd" and found < _CONTAINERD_ON:
            yield doubt(
                where,
                f"containerd {version} ignores CDI unless enable_cdi is set",
                "set enable_cdi = true in its configuration, or update it to 2.0 or newer",
            )
        elif name == "cri-o" and found < _CRIO_KNOWS:
            yield fault(where, f"CRI-O {version} knows no CDI", "update it to 1.23 or newer")
        elif name == "docker":
            yield doubt(
                where,
                f"Docker {version} by cri-dockerd hands no CDI devices on in many releases (Mirantis/cri-dockerd#558)",
                "use containerd or CRI-O",
            )
        elif name not in ("containerd", "cri-o"):
            yield unknown(
                where,
                f"whether {name} {version} knows CDI is not known here",
                "run drakit conformance --focus sentinel",
            )


def judge_cpu_manager(snapshot: Snapshot, wanted: Wanted) -> Iterator[Problem]:
    """Two that hand out processors do not know of each other."""
    drivers: dict[str, set[str]] = {}
    for item in local_slices(snapshot):
        spec = item["spec"]
        # Without gate DRANodeAllocatableResources a driver of processors is known by its name alone.
        named = "cpu" in str(spec.get("driver")).split(".")
        if named or any(_maps_cpu(device) for device in spec.get("devices") or []):
            drivers.setdefault(str(spec.get("nodeName")), set()).add(str(spec.get("driver")))
    for node, names in sorted(drivers.items()):
        who = ", ".join(sorted(names))
        configuration = snapshot.configurations.get(node)
        if configuration is None:
            yield unknown(
                f"node {node}",
                f"{who} hands out processors, and the configuration of the kubelet cannot be read",
                "see that its cpuManagerPolicy is none",
            )
        elif configuration.get("cpuManagerPolicy") == "static":
            yield fault(
                f"node {node}",
                f"{who} hands out processors, and so does the kubelet (cpuManagerPolicy static)",
                "set cpuManagerPolicy to none and remove /var/lib/kubelet/cpu_manager_state, or remove the driver",
            )


def _maps_cpu(device: Object) -> bool:
    """Whether processors of the node come with a device; what it merely uses of them (overhead) does not count."""
    content = device_content(device)
    mapped = content.get("nodeAllocatableResources") or {}
    before = content.get("nodeAllocatableResourceMappings") or {}
    return bool((mapped.get("cpu") or {}).get("mapping")) or "cpu" in before


CHECKS: Final = (
    ClusterCheck(
        "kubelet-known-bad", "No kubelet has a published fault of DRA.", judge_known_bad, ("nodes",)
    ),
    ClusterCheck("kubelet-skew", "Kubelets fit the API server's version.", judge_skew, ("nodes",)),
    ClusterCheck("node-ready", "Nodes are Ready.", judge_ready, ("nodes",)),
    ClusterCheck(
        "runtime-cdi", "Container runtimes give containers their CDI devices.", judge_runtime, ("nodes",)
    ),
    ClusterCheck(
        "static-cpu-manager",
        "Where a driver hands out processors, the kubelet does not.",
        judge_cpu_manager,
        ("resourceslices",),
    ),
)
