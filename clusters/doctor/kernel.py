"""Checks of the kernel's settings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from clusters.doctor import engine
from clusters.doctor.host import Host
from clusters.doctor.model import EMBEDDED, KIND, LOCAL, Check, Finding, Wanted, missing, ok, unknown, warning

_CONTROLLERS: Final = ("cpu", "cpuset", "memory", "pids")
_V2: Final = "/sys/fs/cgroup/cgroup.controllers"
_INSTANCES: Final = (128, 512)
_WATCHES: Final = (65_536, 524_288)
_MIB: Final = 1 << 20
# Measured: two nodes with a driver, and the tests of the conformance run beside them.
_MEMORY_MIB: Final = {EMBEDDED: 512, LOCAL: 1536, KIND: 2048}


@dataclass(frozen=True)
class Cgroups:
    """The version of the cgroup hierarchy, and the controllers that can be used."""

    version: int
    controllers: frozenset[str]


def look_cgroups(host: Host, wanted: Wanted) -> Cgroups:
    """Version 2 has its controllers in its root; version 1 in a table of the kernel."""
    try:
        return Cgroups(2, frozenset(host.read(_V2).split()))
    except FileNotFoundError:
        lines = host.read("/proc/cgroups").splitlines()
        rows = [line.split() for line in lines if line and not line.startswith("#")]
        return Cgroups(1, frozenset(row[0] for row in rows if row[-1] == "1"))


def judge_version(facts: Cgroups) -> Finding:
    """Version 1 works as long as kubelet and containerd let it."""
    if facts.version == 2:
        return ok("version 2")
    return warning(
        "version 1, which Kubernetes, kind and containerd call deprecated; drakit lets kubelets start on it",
        "boot with systemd.unified_cgroup_hierarchy=1, where that can be chosen",
    )


def judge_controllers(facts: Cgroups) -> Finding:
    """What a kubelet limits Pods with."""
    if lacking := [name for name in _CONTROLLERS if name not in facts.controllers]:
        where = (
            "cgroup.subtree_control of the parents"
            if facts.version == 2
            else "cgroup_enable= of the kernel's command line"
        )
        return missing(f"version {facts.version} without {', '.join(lacking)}", f"switch them on ({where})")
    return ok(", ".join(_CONTROLLERS))


def _number(host: Host, path: str) -> int:
    return int(host.read(path).strip() or 0)


@dataclass(frozen=True)
class Limit:
    """A setting of the kernel: its name, value, the least, and what is plenty."""

    name: str
    value: int
    least: int
    plenty: int


def look_instances(host: Host, wanted: Wanted) -> Limit:
    """Each node has some forty, and all are the host's root's."""
    return Limit(
        "fs.inotify.max_user_instances", _number(host, "/proc/sys/fs/inotify/max_user_instances"), *_INSTANCES
    )


def look_watches(host: Host, wanted: Wanted) -> Limit:
    """Files that kubelets and their runtimes follow."""
    return Limit(
        "fs.inotify.max_user_watches", _number(host, "/proc/sys/fs/inotify/max_user_watches"), *_WATCHES
    )


def judge_limit(limit: Limit) -> Finding:
    """Too few end in "too many open files" in the log of a kubelet."""
    seen, remedy = f"{limit.name} is {limit.value}", f"sudo sysctl {limit.name}={limit.plenty}"
    if limit.value < limit.least:
        return missing(f"{seen}, at least {limit.least} are needed", remedy)
    if limit.value < limit.plenty:
        return warning(f"{seen}: enough for two nodes", f"{remedy} before more are started")
    return ok(seen)


def look_memory(host: Host, wanted: Wanted) -> int:
    """Bytes that can be had without swapping."""
    found = re.search(r"^MemAvailable:\s*(\d+) kB", host.read("/proc/meminfo"), re.MULTILINE)
    return int(found[1]) * 1024 if found else -1


def judge_memory(available: int) -> Finding:
    """Each tier has its need."""
    if available < 0:
        return unknown("/proc/meminfo does not tell", "see that there are 2 GiB for a kind cluster")
    seen = f"{available // _MIB} MiB available"
    short = {tier: need for tier, need in _MEMORY_MIB.items() if available < need * _MIB}
    if short:
        needs = ", ".join(f"{need} for {tier}" for tier, need in short.items())
        return missing(
            f"{seen}; two nodes and their tests need {needs}",
            "end other programs, or add memory",
            blocks=short,
        )
    return ok(seen)


@dataclass(frozen=True)
class Switch:
    """A setting of the network that may be absent (None), and whether drakit would start the engine."""

    value: int | None
    engine: engine.Engine


def _switch(host: Host, wanted: Wanted, path: str) -> Switch:
    try:
        value: int | None = _number(host, path)
    except FileNotFoundError:
        value = None
    return Switch(value, engine.look(host, wanted))


def look_forwarding(host: Host, wanted: Wanted) -> Switch:
    """The engine switches it on when it starts, unless it is told not to."""
    return _switch(host, wanted, "/proc/sys/net/ipv4/ip_forward")


def judge_forwarding(switch: Switch) -> Finding:
    """Nodes reach each other and the outside through this host."""
    if switch.value == 1:
        return ok("on")
    if not switch.engine.version:
        return ok("off; an engine that starts switches it on")
    return missing("net.ipv4.ip_forward is off, though the engine runs", "sudo sysctl net.ipv4.ip_forward=1")


def look_netfilter(host: Host, wanted: Wanted) -> Switch:
    """Only there when the module is loaded."""
    return _switch(host, wanted, "/proc/sys/net/bridge/bridge-nf-call-iptables")


def judge_netfilter(switch: Switch) -> Finding:
    """Services between Pods of one node go through a bridge on some networks."""
    if switch.value == 1:
        return ok("on")
    what = (
        "the module br_netfilter is not loaded"
        if switch.value is None
        else "net.bridge.bridge-nf-call-iptables is off"
    )
    remedy = (
        "sudo modprobe br_netfilter"
        if switch.value is None
        else "sudo sysctl net.bridge.bridge-nf-call-iptables=1"
    )
    return warning(f"{what}: Services may not answer between Pods of one node", remedy)


CHECKS: Final[tuple[Check[Any], ...]] = (
    Check(
        "memory",
        "There is memory for two nodes and their tests.",
        (EMBEDDED, LOCAL, KIND),
        look_memory,
        judge_memory,
    ),
    Check("cgroup-version", "The cgroup hierarchy is version 2.", (LOCAL, KIND), look_cgroups, judge_version),
    Check(
        "cgroup-controllers",
        f"Kubelets can limit Pods: controllers {', '.join(_CONTROLLERS)}.",
        (LOCAL, KIND),
        look_cgroups,
        judge_controllers,
    ),
    Check(
        "inotify-instances",
        "Kubelets can follow files: enough inotify instances.",
        (LOCAL, KIND),
        look_instances,
        judge_limit,
    ),
    Check(
        "inotify-watches",
        "Kubelets can follow files: enough inotify watches.",
        (LOCAL, KIND),
        look_watches,
        judge_limit,
    ),
    Check(
        "ip-forwarding", "This host forwards IPv4 between nodes.", (KIND,), look_forwarding, judge_forwarding
    ),
    Check("bridge-netfilter", "Packets on bridges pass iptables.", (KIND,), look_netfilter, judge_netfilter),
)
