"""Records of a CDI spec file.

A field's metadata says how the file names it and which type the text must have; `node_api.cdi.parse` reads by
that. Entries of `device_nodes`, `mounts`, `hooks` and `net_devices` can be None: a null in the file stays a
null, and a runtime refuses it or crashes. Absent text is "", absent numbers are None where absence matters.
"""

# ruff: noqa: RUF009  the helpers below return dataclass fields

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

VERSIONS = ("0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
"""Known values of cdiVersion, oldest first; anything else is refused."""

HOOK_NAMES = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
"""Stages at which a hook can run, as OCI names them."""


def _scalar(key: str, kind: str, default: Any = None) -> Any:
    return field(default=default, metadata={"key": key, "kind": kind})


def _text(key: str) -> Any:
    return _scalar(key, "string", "")


def _list(key: str, kind: str | type) -> Any:
    return field(default_factory=list, metadata={"key": key, "kind": kind, "list": True})


def _map(key: str) -> Any:
    return field(default_factory=dict, metadata={"key": key, "kind": "string", "map": True})


@dataclass(frozen=True)
class DeviceNode:
    """A device node to make in the container; what is absent is taken from the host's node."""

    path: str = _text("path")
    host_path: str = _text("hostPath")
    type: str = _text("type")
    major: int = _scalar("major", "int64", 0)
    minor: int = _scalar("minor", "int64", 0)
    file_mode: int | None = _scalar("fileMode", "uint32")
    permissions: str = _text("permissions")
    uid: int | None = _scalar("uid", "uint32")
    gid: int | None = _scalar("gid", "uint32")


@dataclass(frozen=True)
class Mount:
    """A mount; without the option `bind` or `rbind` OCI runtimes cannot make it."""

    host_path: str = _text("hostPath")
    container_path: str = _text("containerPath")
    options: list[str] = _list("options", "string")
    type: str = _text("type")


@dataclass(frozen=True)
class Hook:
    """A program that the OCI runtime starts at a stage of the container's life; `timeout` in seconds."""

    hook_name: str = _text("hookName")
    path: str = _text("path")
    args: list[str] = _list("args", "string")
    env: list[str] = _list("env", "string")
    timeout: int | None = _scalar("timeout", "int")


@dataclass(frozen=True)
class IntelRdt:
    """Cache and memory bandwidth class. `schemata` None is absent, which differs from an empty list."""

    clos_id: str = _text("closID")
    l3_cache_schema: str = _text("l3CacheSchema")
    mem_bw_schema: str = _text("memBwSchema")
    schemata: list[str] | None = field(
        default=None, metadata={"key": "schemata", "kind": "string", "list": True}
    )
    enable_monitoring: bool = _scalar("enableMonitoring", "bool", False)


@dataclass(frozen=True)
class NetDevice:
    """A network interface of the host to move into the container under `name`."""

    host_interface_name: str = _text("hostInterfaceName")
    name: str = _text("name")


@dataclass(frozen=True)
class Edits:
    """Changes to a container."""

    env: list[str] = _list("env", "string")
    device_nodes: list[DeviceNode | None] = _list("deviceNodes", DeviceNode)
    hooks: list[Hook | None] = _list("hooks", Hook)
    mounts: list[Mount | None] = _list("mounts", Mount)
    intel_rdt: IntelRdt | None = field(default=None, metadata={"key": "intelRdt", "kind": IntelRdt})
    additional_gids: list[int] = _list("additionalGids", "uint32")
    net_devices: list[NetDevice | None] = _list("netDevices", NetDevice)

    @property
    def empty(self) -> bool:
        """Whether nothing is given; `intelRdt: {}` and `additionalGids: [0]` count as given."""
        return self.intel_rdt is None and not (
            self.env
            or self.device_nodes
            or self.hooks
            or self.mounts
            or self.additional_gids
            or self.net_devices
        )

    def merged(self, later: Edits) -> Edits:
        """Return both edits as one, this one's first; a later intelRdt replaces an earlier one as a whole."""
        return Edits(
            env=self.env + later.env,
            device_nodes=self.device_nodes + later.device_nodes,
            hooks=self.hooks + later.hooks,
            mounts=self.mounts + later.mounts,
            intel_rdt=self.intel_rdt if later.intel_rdt is None else later.intel_rdt,
            additional_gids=self.additional_gids + later.additional_gids,
            net_devices=self.net_devices + later.net_devices,
        )


@dataclass(frozen=True)
class Device:
    """A device that can be asked for by `<kind>=<name>`."""

    name: str = _text("name")
    annotations: dict[str, str] = _map("annotations")
    edits: Edits = field(default_factory=Edits, metadata={"key": "containerEdits", "kind": Edits})


@dataclass(frozen=True)
class Spec:
    """A spec file; its own edits apply once per request that uses any of its devices."""

    version: str = _text("cdiVersion")
    kind: str = _text("kind")
    annotations: dict[str, str] = _map("annotations")
    devices: list[Device] = _list("devices", Device)
    edits: Edits = field(default_factory=Edits, metadata={"key": "containerEdits", "kind": Edits})


GO_NAMES: dict[type, str] = {
    Spec: "specs.Spec",
    Device: "specs.Device",
    Edits: "specs.ContainerEdits",
    DeviceNode: "specs.DeviceNode",
    Mount: "specs.Mount",
    Hook: "specs.Hook",
    IntelRdt: "specs.IntelRdt",
    NetDevice: "specs.LinuxNetDevice",
}
"""Names of the records in the library's messages."""

NULL_ENTRIES_STAY = (DeviceNode, Mount, Hook, NetDevice)
"""Records whose lists keep null entries; in all other lists a null entry vanishes."""
