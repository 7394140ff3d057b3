"""Checks of where the container engine runs, and of what it has there."""

from __future__ import annotations

import re
import urllib.parse
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from clusters.doctor.engine import Engine, look, unanswered
from clusters.doctor.host import Host
from clusters.doctor.model import KIND, Check, Finding, Wanted, missing, ok, unknown, warning

_HERE: Final = ("localhost", "127.0.0.1", "::1")
_SYS_RESOURCE: Final = 24
_GIB: Final = 1 << 30
_NEEDED, _PLENTY = 4 * _GIB, 10 * _GIB


@dataclass(frozen=True)
class Place:
    """Where the engine runs, and what this host's kernel and root filesystem are."""

    engine: Engine
    kernel: str
    data: bool


def look_place(host: Host, wanted: Wanted) -> Place:
    """Compare the engine's host with this one."""
    engine = look(host, wanted)
    kernel = host.read("/proc/sys/kernel/osrelease").strip()
    folder = str(engine.info.get("DockerRootDir") or "")
    # Only root may look into it, but its parents tell as much.
    return Place(engine, kernel, bool(folder) and host.kind_of(Path(folder)) != "")


def judge_place(place: Place) -> Finding:
    """Whether folders and sockets of this host can be mounted into nodes."""
    engine = place.engine
    if not engine.version:
        return unanswered(engine)
    remedy = "let DOCKER_HOST name an engine on this very host; drivers that run on the host need it"
    parts = urllib.parse.urlsplit(engine.endpoint)
    if parts.scheme in ("tcp", "http", "https", "ssh") and (parts.hostname or "") not in _HERE:
        return missing(f"the engine runs on {parts.hostname}: what it mounts are folders there", remedy)
    system, kernel = (
        str(engine.info.get("OperatingSystem") or ""),
        str(engine.info.get("KernelVersion") or ""),
    )
    if "docker desktop" in system.lower() or (kernel and kernel != place.kernel):
        where = system or "another kernel"
        return missing(
            f"the engine runs in a virtual machine ({where}, {kernel}): no socket crosses into it", remedy
        )
    if not place.data:
        return warning(
            f"the engine's folder {engine.info.get('DockerRootDir')} is not to be seen here: it may be another host's, "
            "such as that of this container",
            "mount the temporary folder at the same path on both sides, or run drakit beside the engine",
        )
    return ok("the engine runs on this host")


@dataclass(frozen=True)
class Capabilities:
    """The bounding set of this process, and the engine."""

    engine: Engine
    bounding: int


def look_capabilities(host: Host, wanted: Wanted) -> Capabilities:
    """Read the bounding set."""
    found = re.search(r"^CapBnd:\s*([0-9a-fA-F]+)", host.read("/proc/self/status"), re.MULTILINE)
    return Capabilities(look(host, wanted), int(found[1], 16) if found else 0)


def judge_capabilities(facts: Capabilities) -> Finding:
    """Whether privileged containers can have every capability."""
    if facts.bounding & 1 << _SYS_RESOURCE:
        return ok("CAP_SYS_RESOURCE can be had")
    if facts.engine.own:
        return ok("not to be had here; the engine that drakit starts makes nodes without it")
    if facts.engine.version:
        return warning(
            "not to be had by this process: if the engine lacks it too, nodes end with "
            '"unable to apply caps: operation not permitted"',
            "set DRAKIT_ENGINE=private: as root drakit starts an engine of its own, which does without",
        )
    return unknown("not to be had by this process; no engine answers that could say more")


@dataclass(frozen=True)
class EngineRoom:
    """What is free where images and nodes are kept."""

    engine: Engine
    folder: Path
    free: int


def look_room(host: Host, wanted: Wanted) -> EngineRoom:
    """Where the engine keeps its data, or where one of drakit's own would."""
    engine = look(host, wanted)
    own = host.env("DRAKIT_ENGINE_HOME") or str(host.cache_folder().parent / "engine")
    folder = Path(str(engine.info.get("DockerRootDir") or "/var/lib/docker") if engine.version else own)
    return EngineRoom(engine, folder, host.room(folder).free)


def judge_room(facts: EngineRoom) -> Finding:
    """A node image is 1.1 GB, and a node as much again."""
    free = f"{facts.free / _GIB:.1f} GiB free in {facts.folder}"
    if facts.free < _NEEDED:
        return missing(
            f"{free}: a node image and two nodes need {_NEEDED // _GIB}",
            "make room (docker system prune), or move the engine's data folder",
        )
    if facts.free < _PLENTY:
        return warning(
            f"{free}: enough for few nodes", "make room (docker system prune) before more are started"
        )
    return ok(free)


CHECKS: Final[tuple[Check[Any], ...]] = (
    Check(
        "engine-host",
        "The engine runs on this host, so that its mounts reach nodes.",
        (KIND,),
        look_place,
        judge_place,
    ),
    Check(
        "cap-sys-resource",
        "Nodes can have CAP_SYS_RESOURCE, or the engine does without.",
        (KIND,),
        look_capabilities,
        judge_capabilities,
    ),
    Check(
        "engine-space",
        "Images and nodes have room in the engine's data folder.",
        (KIND,),
        look_room,
        judge_room,
    ),
)
