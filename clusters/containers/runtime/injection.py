"""From what a kubelet asks for to what the container will see: CDI resolved and applied."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from clusters.containers.images import command_line
from clusters.containers.model import (
    ContainerConfig,
    LinuxResources,
    Mount,
    Propagation,
    RuntimeServiceError,
    Sandbox,
)
from clusters.containers.view import PATH, ContainerView, RecordedHook, VisibleDevice, VisibleMount
from node_api import cdi
from node_api.cdi.container import ContainerDevice, ContainerMount, DeviceRule
from node_api.cdi.directory import UnresolvableError
from node_api.cdi.names import qualified_name_problem, quote

ANNOTATION_PREFIX = "cdi.k8s.io/"
RECORDED_MODE = 0o666
"""Permission bits of a recorded node: those of the file depend on who made it, not on the device."""
CREATE_FAILED = "failed to create containerd container: "


def look_up(path: str) -> cdi.HostNode:
    """A device node of the host: a real one, or a regular file that records one as `c MAJOR:MINOR`."""
    try:
        return cdi.host_nodes()(path)
    except cdi.NotADeviceNodeError:
        recorded = _recorded_node(Path(path))
        if recorded is None:
            raise
        return recorded


def _recorded_node(path: Path) -> cdi.HostNode | None:
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode) or found.st_size > 64:
        return None
    kind, _, numbers = path.read_bytes().decode("ascii", "replace").strip().partition(" ")
    major, colon, minor = numbers.partition(":")
    if kind not in ("b", "c") or not (colon and major.isdigit() and minor.isdigit()):
        return None
    return cdi.HostNode(kind, int(major), int(minor), RECORDED_MODE)


def requested_ids(config: ContainerConfig) -> list[str]:
    """CDI names of a container: those of the field, then those of annotations, each once. As containerd does.

    Raises:
        RuntimeServiceError: an annotation holds something else. Names of the field are not looked at.
    """
    ids = list(config.cdi_devices)
    for key, value in config.annotations.items():
        if not key.startswith(ANNOTATION_PREFIX):
            continue
        for device_id in value.split(","):
            if qualified_name_problem(device_id) is not None:
                raise RuntimeServiceError(
                    "Unknown",
                    f"{CREATE_FAILED}failed to parse CDI device annotations: invalid CDI device name "
                    f"{quote(device_id)}",
                )
            ids.append(device_id)
    return list(dict.fromkeys(ids))


def build(
    config: ContainerConfig, sandbox: Sandbox, container_id: str, scan: Callable[[], cdi.Scan]
) -> cdi.Container:
    """The container with all edits applied. Raises RuntimeServiceError with containerd's texts.

    `scan` reads the CDI directories; it is called only for a container that asks for devices.
    """
    gid = config.run_as_group or 0
    container = cdi.Container(
        env=[
            f"PATH={PATH}",
            f"HOSTNAME={sandbox.config.hostname}",
            *(f"{name}={value}" for name, value in config.envs),
        ],
        uid=config.run_as_user or 0,
        gid=gid,
        additional_gids=list(dict.fromkeys((gid, *config.supplemental_groups))),
    )
    try:
        for mount in config.mounts:
            _add_mount(container, mount)
        for device in config.devices:
            _add_device(container, device.container_path, device.host_path, device.permissions)
    except _SpecError as problem:
        raise RuntimeServiceError(
            "Unknown",
            f'failed to generate container "{container_id}" spec: failed to generate spec: {problem}',
        ) from problem
    try:
        ids = requested_ids(config)
        if ids:
            cdi.apply(scan().resolve(ids).edits, container, look_up)
    except (UnresolvableError, cdi.InjectionError) as problem:
        raise RuntimeServiceError(
            "Unknown", f"{CREATE_FAILED}CDI device injection failed: {problem}"
        ) from problem
    return container


class _SpecError(Exception):
    """A mount or device of the Pod that the host has not got, in containerd's words."""


def _go_error(operation: str, problem: OSError, path: str) -> _SpecError:
    return _SpecError(f"{operation} {path}: {(problem.strerror or str(problem)).lower()}")


_PROPAGATIONS = {
    Propagation.PRIVATE: "rprivate",
    Propagation.HOST_TO_CONTAINER: "rslave",
    Propagation.BIDIRECTIONAL: "rshared",
}


def _add_mount(container: cdi.Container, mount: Mount) -> None:
    # containerd makes a missing source of a Pod's mount; a missing source that CDI names fails at the start.
    destination, source = mount.container_path, mount.host_path
    place = Path(source)
    try:
        if not place.exists():
            place.mkdir(parents=True, mode=0o755)
        source = str(place.resolve(strict=True))
    except OSError as problem:
        raise _SpecError(f'failed to mkdir "{source}": {_go_error("mkdir", problem, source)}') from problem
    access = "rro" if mount.recursive_readonly else "ro" if mount.readonly else "rw"
    options = ("rbind", _PROPAGATIONS[mount.propagation], access)
    container.mounts = [other for other in container.mounts if other.destination != destination]
    container.mounts.append(ContainerMount(destination, source, "bind", options))


def _add_device(container: cdi.Container, path: str, host_path: str, permissions: str) -> None:
    try:
        node = look_up(os.path.realpath(host_path, strict=True))
    except cdi.NotADeviceNodeError as problem:
        raise _SpecError("not a device node") from problem
    except OSError as problem:
        raise _go_error("lstat", problem, host_path) from problem
    container.devices = [device for device in container.devices if device.path != path]
    container.devices.append(ContainerDevice(path, node.type, node.major, node.minor, node.mode))
    if node.type in ("b", "c"):
        container.device_rules.append(DeviceRule(node.type, node.major, node.minor, permissions))


def view(config: ContainerConfig, sandbox: Sandbox, container: cdi.Container, image: str) -> ContainerView:
    """What a program in the container sees; `image` is the full name of its image."""
    return ContainerView(
        hostname=sandbox.config.hostname,
        arguments=command_line(image, config.command, config.args),
        working_dir=config.working_dir or "/",
        # runc sets HOME from the user database of the image, which knows root only.
        environment={"HOME": "/" if container.uid else "/root"} | container.environment,
        devices=tuple(_visible(device, container.device_rules) for device in container.devices),
        mounts=tuple(
            VisibleMount(mount.destination, mount.source, mount.type, mount.options)
            for mount in container.mounts
        ),
        limits=limits(config.resources),
        hooks=tuple(
            RecordedHook(stage, hook.path, tuple(hook.args), tuple(hook.env), hook.timeout)
            for stage, hooks in container.hooks.items()
            for hook in hooks
        ),
        uid=container.uid,
        gid=container.gid,
        groups=tuple(container.additional_gids),
        intel_rdt=None if container.intel_rdt is None else asdict(container.intel_rdt),
        net_devices=dict(container.net_devices),
        cdi_devices=tuple(requested_ids(config)),
    )


def _visible(device: ContainerDevice, rules: Sequence[DeviceRule]) -> VisibleDevice:
    mode = 0o666 if device.file_mode is None else device.file_mode
    numbers = (device.type, device.major, device.minor)
    allowed = {
        letter for rule in rules if (rule.type, rule.major, rule.minor) == numbers for letter in rule.access
    }
    access = "".join(letter for letter in "rwm" if letter in allowed)
    return VisibleDevice(device.path, *numbers, mode, device.uid or 0, device.gid or 0, access)


def limits(resources: LinuxResources) -> dict[str, int | str]:
    """The limits that are set, by the names of `ContainerView.limits`."""
    found: dict[str, int | str] = {
        "memory": resources.memory_limit_in_bytes,
        "cpuQuota": resources.cpu_quota,
        "cpuPeriod": resources.cpu_period,
        "cpuShares": resources.cpu_shares,
        "cpusetCpus": resources.cpuset_cpus,
        "cpusetMems": resources.cpuset_mems,
    }
    found |= {f"hugepages-{size}": limit for size, limit in resources.hugepage_limits.items()}
    # A quota of -1 is none.
    return {name: value for name, value in found.items() if value and value != -1}
