"""Checks of the container engine that kind makes its nodes with."""

from __future__ import annotations

import errno
import json
import re
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from clusters.doctor.host import Host
from clusters.doctor.model import KIND, Check, Finding, Wanted, missing, ok, unknown, warning
from clusters.kind.engine import ENVIRONMENT

OLDEST: Final = (20, 10)
"""The first Docker with private cgroup namespaces, without which a node does not boot."""
ENGINE_PROGRAMS: Final = ("dockerd", "containerd", "runc", "iptables")
"""What an engine of drakit's own consists of."""

_OWN: Final = ("", "private")
"""Values of DRAKIT_ENGINE with which drakit may start an engine of its own."""

_DEFAULT: Final = "unix:///var/run/docker.sock"
_INSTALL: Final = (
    "install it (Debian and Ubuntu: apt install docker.io; https://docs.docker.com/engine/install)"
)


@dataclass(frozen=True)
class Engine:
    """What the docker command and the engine behind it say. `version` is "" when no engine answers; `problem` says why.

    `spawnable` names what an engine of drakit's own lacks, None when there could be one. `choice` is what DRAKIT_ENGINE
    says: with "private" no other engine is asked.
    """

    command: Path | None = None
    command_text: str = ""
    endpoint: str = ""
    chosen_by: str = ""
    version: str = ""
    problem: str = ""
    info: Mapping[str, Any] = field(default_factory=dict)
    spawnable: str | None = None
    choice: str = ""

    @property
    def own(self) -> bool:
        """Whether drakit would start an engine of its own."""
        return not self.version and not self.chosen_by and self.spawnable is None and self.choice in _OWN

    @property
    def options(self) -> Sequence[str]:
        """Names of its security options, such as rootless."""
        words = [str(word) for word in self.info.get("SecurityOptions") or []]
        return [found[1] for word in words if (found := re.match(r"name=([^,]+)", word))]


def look(host: Host, wanted: Wanted) -> Engine:
    """Ask the docker command."""
    command = host.which("docker")
    choice = host.env(ENVIRONMENT)
    spawnable = _spawnable(host)
    if command is None:
        return Engine(spawnable=spawnable, choice=choice)
    text = host.run(str(command), "--version").last_line
    if choice not in ("", "given"):
        return Engine(command, text, _DEFAULT, spawnable=spawnable, choice=choice)
    chosen_by, endpoint = _endpoint(host, command)
    asked = host.run(str(command), "version", "--format", "{{json .}}")
    server = _object(asked.out).get("Server")
    version = str(server.get("Version") or "") if isinstance(server, dict) else ""
    info = _object(host.run(str(command), "info", "--format", "{{json .}}").out) if version else {}
    problem = "" if version else asked.last_line if asked.err.strip() else "it says no version of an engine"
    return Engine(command, text, endpoint, chosen_by, version, problem, info, spawnable, choice)


def _object(text: str) -> Mapping[str, Any]:
    """The JSON object of a command's output; warnings may stand around it."""
    for line in text.splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            return found
    return {}


def _endpoint(host: Host, command: Path) -> tuple[str, str]:
    """Who chose the engine (DOCKER_HOST, a context, or nobody), and its address."""
    if given := host.env("DOCKER_HOST"):
        return "DOCKER_HOST", given
    shown = host.run(str(command), "context", "show")
    name = shown.out.strip() if shown.code == 0 else ""
    if not name or name == "default":
        return "", _DEFAULT
    found = host.run(str(command), "context", "inspect", name, "--format", "{{.Endpoints.docker.Host}}")
    return f"the docker context {name}", found.out.strip() or _DEFAULT


def _spawnable(host: Host) -> str | None:
    if host.user_id() != 0:
        return "an engine of drakit's own needs root"
    lacking = [name for name in ENGINE_PROGRAMS if host.which_of_root(name) is None]
    return f"an engine of drakit's own needs {', '.join(lacking)}" if lacking else None


def judge_command(engine: Engine) -> Finding:
    """Whether it is Docker's own command."""
    if engine.command is None:
        return missing("there is no program docker in PATH", _INSTALL)
    if "docker" not in engine.command_text.lower():
        return missing(
            f"{engine.command} is not Docker's command: {engine.command_text}",
            f"put Docker's own before it in PATH, or {_INSTALL}",
        )
    return ok(f"{engine.command}: {engine.command_text}")


def judge_snap(engine: Engine) -> Finding:
    """A snap sees neither /tmp nor hidden folders of the home."""
    if engine.command is None:
        return _later()
    if engine.command.parts[:2] == ("/", "snap") or "/snap/" in str(engine.command):
        return missing(
            f"{engine.command} comes from a snap, which sees neither /tmp nor hidden folders",
            "install Docker from a package instead, or set TMPDIR to a plain folder below your home",
        )
    return ok("not from a snap")


@dataclass(frozen=True)
class Socket:
    """The engine's socket: what is at its path, the errno of a connection, and its group."""

    engine: Engine
    path: Path | None = None
    kind: str = ""
    code: int = 0
    group: str = ""


def look_socket(host: Host, wanted: Wanted) -> Socket:
    """Look at the socket of the endpoint, if it is one."""
    engine = look(host, wanted)
    parts = urllib.parse.urlsplit(engine.endpoint)
    if parts.scheme != "unix":
        return Socket(engine)
    path = Path(parts.path)
    kind = host.kind_of(path)
    if kind != "socket":
        return Socket(engine, path, kind)
    return Socket(engine, path, kind, host.connect(path), host.owner_group(path))


def judge_endpoint(socket: Socket) -> Finding:
    """Whether what names the engine can name one."""
    engine = socket.engine
    if engine.command is None:
        return _later()
    who, where = engine.chosen_by, engine.endpoint
    if not who:
        return ok(f"nothing names an engine; the usual one is {where}")
    remedy = "unset DOCKER_HOST" if who == "DOCKER_HOST" else "docker context use default"
    scheme = urllib.parse.urlsplit(where).scheme
    if scheme not in ("unix", "tcp", "ssh", "http", "https", "npipe", "fd"):
        return missing(
            f"{who} is {where}, which is no address of an engine", f"{remedy}, or write unix:///PATH"
        )
    if socket.path is not None and socket.kind != "socket":
        what = f"a {socket.kind} is there" if socket.kind else "nothing is there"
        return missing(
            f"{who} names the socket {socket.path}, and {what}", f"{remedy}, or name the right one"
        )
    return ok(f"{who} names {where}")


def judge_permission(socket: Socket) -> Finding:
    """Whether this user may speak with the engine."""
    if socket.path is None or socket.kind != "socket":
        return ok("no socket to be opened")
    if socket.code in (errno.EACCES, errno.EPERM):
        return missing(
            f"this user may not open {socket.path}, which belongs to group {socket.group}",
            f"sudo usermod -aG {socket.group} $USER and log in again, or run drakit as root",
        )
    return ok(f"{socket.path} can be opened" if socket.code == 0 else f"{socket.path} refuses nobody")


def judge_answer(engine: Engine) -> Finding:
    """Whether there is, or can be, an engine."""
    if engine.version:
        return ok(f"an engine answers at {engine.endpoint}")
    if engine.command is None:
        return _later()
    if engine.own:
        why = f"{ENVIRONMENT}={engine.choice}" if engine.choice else "none runs"
        return ok(f"{why}; drakit starts one of its own while a cluster needs it")
    if engine.choice == "private":
        return missing(
            f"{ENVIRONMENT}=private, and {engine.spawnable}", f"{_INSTALL}, or unset {ENVIRONMENT}"
        )
    if engine.choice not in ("", "given"):
        return missing(
            f'{ENVIRONMENT}={engine.choice}: it is "given" or "private", or not set', f"unset {ENVIRONMENT}"
        )
    alternative = "" if engine.chosen_by or engine.spawnable is None else f" ({engine.spawnable})"
    other = f", or let {engine.chosen_by} name another" if engine.chosen_by else ""
    return missing(
        f"no engine answers at {engine.endpoint}: {engine.problem}{alternative}",
        f"start it (sudo systemctl start docker){other}",
    )


def judge_version(engine: Engine) -> Finding:
    """Whether it is Docker, and not too old."""
    if not engine.version:
        return unanswered(engine)
    parts = [int(number) for number in re.findall(r"\d+", engine.version)[:2]]
    platform = str(engine.info.get("OperatingSystem") or "")
    kind = "Podman" if "podman" in str(engine.info).lower() else "Docker"
    if kind != "Docker":
        return missing(f"the engine is {kind} {engine.version}", f"drakit drives Docker alone; {_INSTALL}")
    if tuple(parts) < OLDEST:
        return missing(f"the engine is Docker {engine.version}", f"20.10 or newer is needed; {_INSTALL}")
    return ok(f"Docker {engine.version}" + (f" on {platform}" if platform else ""))


def judge_users(engine: Engine) -> Finding:
    """Whether root in a node is root."""
    if not engine.version:
        return unanswered(engine)
    if "rootless" in engine.options:
        return warning(
            "the engine runs rootless: nodes cannot have device nodes, and cgroups only on version 2 with delegation",
            "let DOCKER_HOST name an engine that runs as root, such as unix:///var/run/docker.sock",
        )
    if "userns" in engine.options:
        return warning(
            "the engine maps users of containers (userns-remap); kind asks it not to for its nodes",
            "take userns-remap out of /etc/docker/daemon.json if drivers cannot reach their folders",
        )
    return ok("users of containers are those of this host")


def _later() -> Finding:
    return unknown("not known without a docker command")


def unanswered(engine: Engine) -> Finding:
    """What there is to say of an engine that does not answer."""
    return ok("drakit starts one of its own") if engine.own else unknown("not known, as no engine answers")


CHECKS: Final[tuple[Check[Any], ...]] = (
    Check(
        "docker-command", "The docker command is in PATH and is Docker's own.", (KIND,), look, judge_command
    ),
    Check(
        "docker-snap", "Docker's command sees temporary folders, unlike a snap.", (KIND,), look, judge_snap
    ),
    Check(
        "docker-host",
        "DOCKER_HOST, or the docker context, names a socket that is there.",
        (KIND,),
        look_socket,
        judge_endpoint,
    ),
    Check(
        "docker-permission", "This user may open the engine's socket.", (KIND,), look_socket, judge_permission
    ),
    Check(
        "engine",
        "A container engine answers, or drakit can start one of its own.",
        (KIND,),
        look,
        judge_answer,
    ),
    Check("engine-version", "The engine is Docker 20.10 or newer.", (KIND,), look, judge_version),
    Check(
        "engine-users",
        "Root in a node is root of this host: not rootless, no mapping.",
        (KIND,),
        look,
        judge_users,
    ),
)
