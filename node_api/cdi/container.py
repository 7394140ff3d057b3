"""Applying edits to a record of a container, as runtimes do with an OCI spec."""

from __future__ import annotations

import os
import posixpath
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from node_api.cdi.checks import edits_problems
from node_api.cdi.model import HOOK_NAMES, DeviceNode, Edits, Hook, IntelRdt, Mount
from node_api.cdi.names import quote


class NotADeviceNodeError(OSError):
    """Something other than a block, character or FIFO node is at the path (links are not followed)."""


class InjectionError(Exception):
    """Edits cannot be applied. What was applied before the failing edit stays in the record."""


@dataclass(frozen=True)
class HostNode:
    """A device node of the host: type b, c or p, its numbers and permission bits."""

    type: str
    major: int
    minor: int
    mode: int


HostNodes = Callable[[str], HostNode]
"""Looks a path of the host up without following links; raises OSError or NotADeviceNodeError."""


def host_nodes(root: str | os.PathLike[str] = "/") -> HostNodes:
    """Return a look-up of real device nodes below the root."""

    def look_up(path: str) -> HostNode:
        found = os.lstat(f"{str(root).rstrip('/')}/{path.lstrip('/')}")
        for kind, matches in (("b", stat.S_ISBLK), ("c", stat.S_ISCHR), ("p", stat.S_ISFIFO)):
            if matches(found.st_mode):
                major, minor = os.major(found.st_rdev), os.minor(found.st_rdev)
                return HostNode(kind, major, minor, stat.S_IMODE(found.st_mode) & 0o777)
        raise NotADeviceNodeError("not a device node")

    return look_up


@dataclass(frozen=True)
class ContainerDevice:
    """A device node in the container; a runtime makes it 0666 and 0:0 where mode or owner are None."""

    path: str
    type: str
    major: int
    minor: int
    file_mode: int | None = None
    uid: int | None = None
    gid: int | None = None


@dataclass(frozen=True)
class DeviceRule:
    """A rule of the device cgroup that allows `access` (letters of rwm) to a device."""

    type: str
    major: int
    minor: int
    access: str


@dataclass(frozen=True)
class ContainerMount:
    """A mount of the container."""

    destination: str
    source: str
    type: str = ""
    options: tuple[str, ...] = ()


@dataclass
class Container:
    """What an OCI spec holds of the things that CDI changes.

    `uid` and `gid` are those of the container's process. `id_mapped`: its user namespace maps ids.
    """

    env: list[str] = field(default_factory=list)
    uid: int = 0
    gid: int = 0
    additional_gids: list[int] = field(default_factory=list)
    devices: list[ContainerDevice] = field(default_factory=list)
    device_rules: list[DeviceRule] = field(default_factory=list)
    mounts: list[ContainerMount] = field(default_factory=list)
    hooks: dict[str, list[Hook]] = field(default_factory=lambda: {name: [] for name in HOOK_NAMES})
    intel_rdt: IntelRdt | None = None
    net_devices: dict[str, str] = field(default_factory=dict)
    id_mapped: bool = False

    @property
    def environment(self) -> dict[str, str]:
        """The environment as the process sees it: of several values of a variable the last."""
        return dict(variable.partition("=")[::2] for variable in self.env)


def _apply_env(container: Container, variables: list[str]) -> None:
    # Of several values that the container has for a variable, the last is the one replaced.
    places = {variable.partition("=")[0]: index for index, variable in enumerate(container.env)}
    for variable in variables:
        name = variable.partition("=")[0]
        if name in places:
            container.env[places[name]] = variable
        else:
            places[name] = len(container.env)
            container.env.append(variable)


def _fill(node: DeviceNode, container: Container, look_up: HostNodes) -> ContainerDevice:
    """Complete a device node from the host's node."""
    host_path = node.host_path or node.path
    kind, major, minor, mode = node.type, node.major, node.minor, node.file_mode
    complete = kind != "" and (major != 0 or kind == "p")
    try:
        host = look_up(host_path)
    except OSError as problem:
        if not complete:
            cause = (problem.strerror or str(problem)).lower()
            raise InjectionError(f"failed to stat CDI host device {quote(host_path)}: {cause}") from problem
    else:
        mode = host.mode if mode is None else mode
        if not complete:
            if kind and kind != host.type:
                raise InjectionError(
                    f"CDI device ({quote(node.path)}, {quote(host_path)}), "
                    f"host type mismatch ({kind}, {host.type})"
                )
            kind = host.type
            if kind != "p" and major == 0:
                major, minor = host.major, host.minor
    uid = node.uid if node.uid is not None else (container.uid or None)
    gid = node.gid if node.gid is not None else (container.gid or None)
    return ContainerDevice(node.path, kind, major, minor, mode, uid, gid)


def _apply_node(container: Container, node: DeviceNode, look_up: HostNodes) -> None:
    device = _fill(node, container, look_up)
    container.devices = [other for other in container.devices if other.path != device.path]
    container.devices.append(device)
    if device.type in ("b", "c"):
        access = {"": "rwm", "none": ""}.get(node.permissions, node.permissions)
        container.device_rules.append(DeviceRule(device.type, device.major, device.minor, access))


def _mount_options(mount: Mount, container: Container) -> tuple[str, ...]:
    options = tuple(mount.options)
    if not container.id_mapped or {"idmap", "ridmap"} & set(options):
        return options
    if "rbind" in options:
        return (*options, "ridmap")
    if mount.type == "bind" or "bind" in options:
        return (*options, "idmap")
    return options


def _depth(mount: ContainerMount) -> int:
    # Two leading slashes are one for the library, but special in POSIX and for normpath.
    return posixpath.normpath(re.sub("/+", "/", mount.destination)).count("/")


def _apply_mounts(container: Container, mounts: list[Mount]) -> None:
    for mount in mounts:
        same = [other for other in container.mounts if other.destination == mount.container_path]
        if same:
            container.mounts.remove(same[0])
        container.mounts.append(
            ContainerMount(
                mount.container_path, mount.host_path, mount.type, _mount_options(mount, container)
            )
        )
    if mounts:
        # Parents before children; the sort is stable.
        container.mounts.sort(key=_depth)


def apply(edits: Edits, container: Container, look_up: HostNodes | None = None) -> None:
    """Change the container as the edits say.

    Args:
        edits: as `Scan.resolve` gives them.
        container: changed in place; on an error the edits before the failing one stay applied.
        look_up: device nodes of the host; by default the real ones.

    Raises:
        InjectionError: with the library's text.
    """
    for problem in edits_problems(edits, ""):
        raise InjectionError(f"failed to inject devices: {problem.text}")
    look_up = look_up or host_nodes()
    _apply_env(container, edits.env)
    try:
        for node in filter(None, edits.device_nodes):
            _apply_node(container, node, look_up)
    except InjectionError as problem:
        raise InjectionError(f"failed to inject devices: {problem}") from problem
    for device in filter(None, edits.net_devices):
        container.net_devices[device.host_interface_name] = device.name
    _apply_mounts(container, list(filter(None, edits.mounts)))
    for hook in filter(None, edits.hooks):
        container.hooks[hook.hook_name].append(hook)
    if edits.intel_rdt is not None:
        container.intel_rdt = edits.intel_rdt
    for gid in edits.additional_gids:
        if gid and gid not in container.additional_gids:
            container.additional_gids.append(gid)


def start_problems(container: Container, root: str | os.PathLike[str] = "/") -> list[str]:
    """Return why an OCI runtime would fail to start the container although the injection succeeded.

    Args:
        container: after `apply`.
        root: where the host's paths are looked up.
    """

    def on_host(path: str) -> Path:
        return Path(f"{str(root).rstrip('/')}/{path.lstrip('/')}")

    problems: list[str] = []
    for mount in container.mounts:
        if mount.type in ("", "bind") and not {"bind", "rbind"} & set(mount.options):
            problems.append(f"mount {mount.destination}: no such device (no option bind or rbind)")
        elif {"bind", "rbind"} & set(mount.options) and not on_host(mount.source).exists():
            problems.append(f"mount {mount.destination}: source {mount.source} does not exist")
    problems += [
        f"device rule {rule.type} {rule.major}:{rule.minor}: device access at 1 field cannot be empty"
        for rule in container.device_rules
        if not rule.access
    ]
    for stage, hooks in container.hooks.items():
        for hook in hooks:
            if not hook.path.startswith("/"):
                problems.append(f"hook {stage} {hook.path}: the path is not absolute")
            elif not os.access(on_host(hook.path), os.X_OK):
                problems.append(f"hook {stage} {hook.path}: not an executable file")
            if hook.timeout is not None and hook.timeout <= 0:
                problems.append(f"hook {stage} {hook.path}: timeout {hook.timeout} is not positive")
    problems += [
        f"network device {interface}: no such interface"
        for interface in container.net_devices
        if not on_host(f"/sys/class/net/{interface}").exists()
    ]
    return problems
