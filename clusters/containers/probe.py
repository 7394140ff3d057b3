"""The document that `probe` prints: what a container sees, in one line of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from clusters.containers.view import ContainerView

KIND = "ContainerProbe"
VERSION = 1


def document(view: ContainerView, environment: Mapping[str, str]) -> dict[str, Any]:
    """The document of a program with this environment.

    Keys: `kind`, `schemaVersion`, `hostname`, `arguments`, `workingDirectory`, `user` (uid, gid, groups),
    `environment`, `devices` (path, type, major, minor, fileMode, uid, gid, access), `mounts` (destination,
    source, type, options), `limits`, `hooks` (stage, path, args, env, timeout), `intelRdt`, `netDevices`, `cdiDevices`.
    What a real container cannot find out (hooks, cdiDevices) is null where a real one prints it.
    """
    return {
        "kind": KIND,
        "schemaVersion": VERSION,
        "hostname": view.hostname,
        "arguments": list(view.arguments),
        "workingDirectory": view.working_dir,
        "user": {"uid": view.uid, "gid": view.gid, "groups": list(view.groups)},
        "environment": dict(environment),
        "devices": [
            {
                "path": device.path,
                "type": device.type,
                "major": device.major,
                "minor": device.minor,
                "fileMode": device.file_mode,
                "uid": device.uid,
                "gid": device.gid,
                "access": device.access,
            }
            for device in view.devices
        ],
        "mounts": [asdict(mount) for mount in view.mounts],
        "limits": dict(view.limits),
        "hooks": [asdict(hook) for hook in view.hooks],
        "intelRdt": view.intel_rdt,
        "netDevices": dict(view.net_devices),
        "cdiDevices": list(view.cdi_devices),
    }


def line(view: ContainerView, environment: Mapping[str, str]) -> str:
    """The document as a line with its end."""
    return json.dumps(document(view, environment), separators=(",", ":"), sort_keys=True) + "\n"
