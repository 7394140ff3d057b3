"""What a container saw, read from the document that `probe` printed to its log."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from clusters.containers.probe import KIND, VERSION


class ObservationError(Exception):
    """A log without a readable document of a probe; the text says what the log holds instead."""


@dataclass(frozen=True)
class ObservedDevice:
    """A device node; `type` b, c, u or p; `access` letters of rwm that the device cgroup allows."""

    path: str
    type: str
    major: int
    minor: int
    file_mode: int
    uid: int
    gid: int
    access: str


@dataclass(frozen=True)
class ObservedMount:
    """A mount; `source` as far as the container can tell."""

    destination: str
    source: str
    type: str
    options: tuple[str, ...]


@dataclass(frozen=True)
class ObservedHook:
    """A hook that the runtime was told to run."""

    stage: str
    path: str
    args: tuple[str, ...]
    env: tuple[str, ...]
    timeout: int | None


@dataclass(frozen=True)
class Observation:
    """What a container saw. `hooks` and `cdi_devices` are None where a container cannot find them out.

    `limits` as in `clusters.containers.view.ContainerView`; `document` is all that the probe printed.
    """

    hostname: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    devices: tuple[ObservedDevice, ...]
    mounts: tuple[ObservedMount, ...]
    limits: Mapping[str, int | str]
    hooks: tuple[ObservedHook, ...] | None = None
    cdi_devices: tuple[str, ...] | None = None
    groups: tuple[int, ...] = ()
    document: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def device(self, path: str) -> ObservedDevice | None:
        """The device node at a path."""
        return next((device for device in self.devices if device.path == path), None)

    def mount(self, destination: str) -> ObservedMount | None:
        """The mount at a path; of several the last, which hides the others."""
        return next((mount for mount in reversed(self.mounts) if mount.destination == destination), None)


def parse_observation(log: str | bytes, where: str = "the container") -> Observation:
    """The observation in the text of a container's log; of several documents the last.

    Args:
        log: the log as `kubectl logs` gives it, with or without timestamps.
        where: the container in words, for errors.

    Raises:
        ObservationError: no document, or one that is damaged or of an unknown version.
    """
    text = log.decode("utf-8", "replace") if isinstance(log, bytes) else log
    document: dict[str, Any] | None = None
    broken = ""
    for line in text.splitlines():
        start = line.find("{")
        if start < 0 or KIND not in line:
            continue
        try:
            found = json.loads(line[start:])
        except ValueError as problem:
            broken = f"{problem}: {_shortened(line[start:])}"
            continue
        if isinstance(found, dict) and found.get("kind") == KIND:
            document = found
    if document is None:
        raise ObservationError(f"{where}: {_missing(text, broken)}")
    if document.get("schemaVersion") != VERSION:
        raise ObservationError(
            f"{where}: its probe printed version {document.get('schemaVersion')!r}, this kit reads version {VERSION}; "
            "use the probe image of this release"
        )
    try:
        return _observation(document)
    except (KeyError, TypeError, AttributeError, ValueError) as problem:
        raise ObservationError(
            f"{where}: the document of its probe is damaged ({type(problem).__name__}: {problem}): "
            f"{_shortened(json.dumps(document))}"
        ) from problem


def _missing(text: str, broken: str) -> str:
    if broken:
        return f"the document of its probe is cut or damaged: {broken}"
    if not text.strip():
        return "its log is empty; the container has not started, or its command is not `probe`"
    lines = text.splitlines()
    return (
        f"none of the {len(lines)} lines of its log is the document of a probe; the first is "
        f"{_shortened(lines[0])!r}; run the command `probe` in the container"
    )


def _shortened(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}..."


def _observation(document: dict[str, Any]) -> Observation:
    hooks, ids = document["hooks"], document["cdiDevices"]
    return Observation(
        hostname=str(document["hostname"]),
        arguments=tuple(document["arguments"]),
        environment=dict(document["environment"]),
        devices=tuple(
            ObservedDevice(
                device["path"],
                device["type"],
                int(device["major"]),
                int(device["minor"]),
                int(device["fileMode"]),
                int(device["uid"]),
                int(device["gid"]),
                device["access"],
            )
            for device in document["devices"]
        ),
        mounts=tuple(
            ObservedMount(mount["destination"], mount["source"], mount["type"], tuple(mount["options"]))
            for mount in document["mounts"]
        ),
        limits=dict(document["limits"]),
        hooks=None
        if hooks is None
        else tuple(
            ObservedHook(
                hook["stage"], hook["path"], tuple(hook["args"]), tuple(hook["env"]), hook["timeout"]
            )
            for hook in hooks
        ),
        cdi_devices=None if ids is None else tuple(ids),
        groups=tuple(document["user"]["groups"]),
        document=document,
    )
