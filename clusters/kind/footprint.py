"""What a container engine changes in its machine outside of its own folders and namespaces, and how it is taken back.

Packet filter chains, bridges, control groups, switches of the kernel, and folders that it makes wherever it runs.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

COVERED: Final = ("/run/docker", "/run/containerd")
"""Folders that an engine keeps its sockets in, whatever its settings are."""

RUN: Final = "/run/drakit-"
"""How the folders begin that engines of drakit's keep their sockets in; it is among the words they are started with."""

# Made by dockerd, containerd, or for `--volume /lib/modules:/lib/modules` of kind; files are dockerd's.
_MADE: Final = (
    *COVERED,
    "/lib/modules",
    "/etc/docker",
    "/opt/containerd",
    "/opt/containerd/bin",
    "/opt/containerd/lib",
)
_MADE_FILES: Final = ("/etc/docker/key.json",)
_SWITCHES: Final = (
    "net/ipv4/ip_forward",
    "net/ipv6/conf/all/forwarding",
    "net/ipv6/conf/default/forwarding",
    "net/bridge/bridge-nf-call-iptables",
    "net/bridge/bridge-nf-call-ip6tables",
)
_ROOM: Final[Mapping[str, int]] = {
    "fs/inotify/max_user_instances": 512,
    "fs/inotify/max_user_watches": 524_288,
}
"""What nodes need of the machine's limits, for several clusters at a time: without it kubelets do not start."""
_FILTERS: Final = ("iptables", "ip6tables")
_CHAIN: Final = re.compile(r"DOCKER(-[A-Z0-9-]+)?\Z")
_CGROUPS: Final = Path("/sys/fs/cgroup")
_SECONDS: Final = 20.0

Run = Callable[[Sequence[str]], str]


def run(command: Sequence[str]) -> str:
    """What a command prints; "" when it fails or is not there."""
    try:
        done = subprocess.run(  # noqa: S603 - fixed words, without a shell
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


@dataclass(frozen=True)
class Footprint:
    """The state of the machine before an engine was started.

    `absent` are paths that were not there, `switches` values below /proc/sys, `policies` that of the FORWARD chain for
    each packet filter, and `filters` the packet filters that had no chain of an engine. `network` is the network
    namespace that switches of networks and packet filters are those of.
    """

    absent: list[str] = field(default_factory=list)
    switches: dict[str, str] = field(default_factory=dict)
    policies: dict[str, str] = field(default_factory=dict)
    filters: list[str] = field(default_factory=list)
    network: str = ""

    def before(self, other: Footprint) -> Footprint:
        """This one without what an engine has changed that had `other` before it, and may run still."""
        near = self.network == other.network
        return Footprint(
            sorted({*self.absent, *other.absent}),
            {
                name: other.switches.get(name, value) if near or name in _ROOM else value
                for name, value in self.switches.items()
            },
            self.policies | (other.policies if near else {}),
            sorted({*self.filters, *(other.filters if near else ())}),
            self.network,
        )


def read(path: Path) -> Footprint:
    """What was written down; nothing when that cannot be read."""
    try:
        return Footprint(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return Footprint()


def look(execute: Run = run) -> Footprint:
    """The state of this machine now."""
    switches = {}
    for name in (*_SWITCHES, *_ROOM):
        with contextlib.suppress(OSError):
            switches[name] = Path("/proc/sys", name).read_text(encoding="ascii").strip()
    policies = {}
    for name in _FILTERS:
        # Of a filter that nobody has used yet `-save` prints nothing, though it has a policy.
        if found := re.search(r"^-P FORWARD (\w+)", execute([name, "-w", "-S", "FORWARD"]), re.MULTILINE):
            policies[name] = found[1]
    saved = {name: execute([f"{name}-save"]) for name in _FILTERS}
    return Footprint(
        [path for path in (*_MADE, *_MADE_FILES) if not os.path.lexists(path)],
        switches,
        policies,
        [name for name, text in saved.items() if not _chains(text)],
        _network(),
    )


def make_room(limits: Path = Path("/proc/sys")) -> None:
    """Raise the limits of the machine that are too low for nodes, where that is allowed."""
    for name, least in _ROOM.items():
        with contextlib.suppress(OSError, ValueError):
            if int((limits / name).read_text(encoding="ascii")) < least:
                (limits / name).write_text(str(least), encoding="ascii")


def bridges(execute: Run = run) -> list[str]:
    """The bridges of this machine that may be an engine's: it calls them after the numbers of its networks."""
    listed = execute(["ip", "-oneline", "link", "show", "type", "bridge"])
    return re.findall(r"^\d+: (br-[0-9a-f]{12})\b", listed, re.MULTILINE)


def restore(before: Footprint, own_bridges: Collection[str], cgroup: str, execute: Run = run) -> None:
    """Take back what an engine that has ended left behind: its bridges and control group, and all that was not before.

    What another engine of the machine may use meanwhile is left alone.
    """
    for bridge in own_bridges:
        execute(["ip", "link", "delete", bridge, "type", "bridge"])
    remove_cgroup(cgroup)
    others = _other_engines()
    # Filters and switches are those of a network namespace, limits and folders those of the whole machine.
    alone = _network() not in others.values()
    for name in _FILTERS:
        chains = alone and name in before.filters
        policy = before.policies.get(name, "") if chains else ""
        for command in removal(name, execute([f"{name}-save"]), own_bridges, chains=chains, policy=policy):
            execute(command)
    if alone:
        _restore_switches({name: value for name, value in before.switches.items() if name not in _ROOM})
    if not any(_is_own(process) for process in others):
        _restore_switches({name: value for name, value in before.switches.items() if name in _ROOM})
    if not others:
        _remove_made(before.absent)


def _restore_switches(switches: Mapping[str, str]) -> None:
    for name, value in switches.items():
        with contextlib.suppress(OSError):
            switch = Path("/proc/sys", name)
            if switch.read_text(encoding="ascii").strip() != value:
                switch.write_text(value, encoding="ascii")


def _remove_made(absent: Collection[str]) -> None:
    for path in absent:
        if path in _MADE_FILES:
            Path(path).unlink(missing_ok=True)
    # Inner folders first. What somebody has put something into stays.
    for path in sorted(absent, reverse=True):
        with contextlib.suppress(OSError):
            Path(path).rmdir()


def removal(
    name: str, saved: str, own_bridges: Collection[str], *, chains: bool, policy: str = ""
) -> list[list[str]]:
    """The commands of a packet filter that remove what `NAME-save` has printed about `own_bridges`.

    With `chains` also the chains that every engine shares and what leads to them; `policy` is that of FORWARD then.
    """
    rules: list[list[str]] = []
    empty: list[list[str]] = []
    drop: list[list[str]] = []
    table = ""
    for line in saved.splitlines():
        words = line.split()
        if line.startswith("*"):
            table = line[1:].strip()
        elif line.startswith(":"):
            chain = words[0][1:]
            if chains and _CHAIN.match(chain):
                empty.append([name, "-w", "-t", table, "-F", chain])
                drop.append([name, "-w", "-t", table, "-X", chain])
            elif (table, chain) == ("filter", "FORWARD") and policy and words[1] != policy:
                rules.append([name, "-w", "-P", "FORWARD", policy])
        elif line.startswith("-A "):
            target = _after(words, "-j") + _after(words, "-g")
            interfaces = _after(words, "-i") + _after(words, "-o")
            leads = chains and not _CHAIN.match(words[1]) and any(map(_CHAIN.match, target))
            if leads or any(interface in own_bridges for interface in interfaces):
                rules.append([name, "-w", "-t", table, "-D", *words[1:]])
    return [*rules, *empty, *drop]


@contextlib.contextmanager
def guarded(execute: Run = run) -> Iterator[None]:
    """Let an engine start: it flushes the chains that all engines share, and what was in them is put back then."""
    saved = {name: execute([f"{name}-save"]) for name in _FILTERS}
    try:
        yield
    finally:
        for name, before in saved.items():
            if _chains(before):
                for command in lost(name, before, execute([f"{name}-save"])):
                    execute(command)


def lost(name: str, before: str, now: str) -> list[list[str]]:
    """The commands that put back into the chains of engines what `NAME-save` printed before and does not now."""
    there = list(_rules(now))
    # In front, the last one first: the order is as it was, and a RETURN of everything stays behind.
    return [
        [name, "-w", "-t", table, "-I", *shlex.split(rule)[1:]]
        for table, rule in reversed(list(_rules(before)))
        if (table, rule) not in there
    ]


def _rules(saved: str) -> Iterator[tuple[str, str]]:
    """Table and words of each rule in a chain of engines."""
    table = ""
    for line in saved.splitlines():
        if line.startswith("*"):
            table = line[1:].strip()
        elif line.startswith("-A ") and _CHAIN.match(line.split()[1]):
            yield table, line


def _after(words: Sequence[str], option: str) -> list[str]:
    return [following for word, following in itertools.pairwise(words) if word == option]


def _chains(saved: str) -> list[str]:
    names = [line[1:].split()[0] for line in saved.splitlines() if line.startswith(":")]
    return [name for name in names if _CHAIN.match(name)]


def _network(process: str = "self") -> str:
    """The network namespace of a process."""
    return str(Path("/proc", process, "ns", "net").readlink())


def _other_engines() -> dict[str, str]:
    """The network namespace of each dockerd of this machine, by its process: what is there may be its, too."""
    found = {}
    for comm in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            if comm.read_text(encoding="utf-8", errors="replace").strip() == "dockerd":
                found[comm.parent.name] = _network(comm.parent.name)
    return found


def _is_own(process: str) -> bool:
    """Whether a dockerd is one of drakit's, which needs the limits as they are; another did without."""
    try:
        return RUN.encode() in Path("/proc", process, "cmdline").read_bytes()
    except OSError:
        return False


def remove_cgroup(name: str, mounted: Path = _CGROUPS) -> None:
    """Remove a control group, and those in it, from every hierarchy; groups with processes stay."""
    if not name:
        return
    for hierarchy in (mounted, *(path for path in mounted.glob("*") if path.is_dir())):
        top = hierarchy / name
        if not top.is_dir():
            continue
        for folder, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()
