"""Problems of a created container that only show when an OCI runtime starts it, in runc's words."""

from __future__ import annotations

import os
from pathlib import Path

from clusters.containers.view import ContainerView

CREATE_FAILED = (
    "failed to create containerd task: failed to create shim task: "
    "OCI runtime create failed: runc create failed: "
)
"""What containerd and its shim put before the words of runc."""
_INIT = "unable to start container process: error during container init: "


def start_problem(view: ContainerView) -> str | None:
    """The first problem in the order in which runc meets them, as containerd reports it; None when it can start."""
    problem = _rule_problem(view) or _mount_problem(view) or _hook_problem(view) or _interface_problem(view)
    return None if problem is None else CREATE_FAILED + problem


def command_problem(text: str) -> str:
    """A command that cannot be executed, as containerd reports it."""
    return f"{CREATE_FAILED}{_INIT}{text}"


def exec_problem(exec_id: str, text: str) -> str:
    """A command that cannot be executed in a running container, as containerd reports it."""
    return (
        f'failed to start exec "{exec_id}": OCI runtime exec failed: exec failed: '
        f"unable to start container process: {text}"
    )


def _rule_problem(view: ContainerView) -> str | None:
    if any(device.type in ("b", "c") and not device.access for device in view.devices):
        return "device access at 1 field cannot be empty"
    return None


def _mount_problem(view: ContainerView) -> str | None:
    for mount in view.mounts:
        if {"bind", "rbind"} & set(mount.options):
            if not Path(mount.source).exists():
                return (
                    f"{_INIT}failed to fulfil mount request: open {mount.source}: no such file or directory"
                )
        elif mount.type in ("", "bind"):
            return (
                f'{_INIT}error mounting "{mount.source}" to rootfs at "{mount.destination}": '
                f"mount src={mount.source}, dst={mount.destination}: no such device"
            )
    return None


def _hook_problem(view: ContainerView) -> str | None:
    numbers: dict[str, int] = {}
    for hook in view.hooks:
        number = numbers.get(hook.stage, 0)
        numbers[hook.stage] = number + 1
        # poststop hooks run when the container is deleted; runc only logs their failures.
        if hook.stage == "poststop" or os.access(hook.path, os.X_OK):
            continue
        cause = "permission denied" if Path(hook.path).exists() else "no such file or directory"
        return f"{_INIT}error running {hook.stage} hook #{number}: fork/exec {hook.path}: {cause}"
    return None


def _interface_problem(view: ContainerView) -> str | None:
    for interface in view.net_devices:
        if not Path("/sys/class/net", interface).exists():
            return f"{_INIT}unable to setup network devices: link not found: {interface}"
    return None
