"""The driver descriptor: how the kit starts, stops, configures and disturbs a driver under test.

One YAML document; docs/descriptor.md is its manual. Placeholders such as {node} in commands are replaced per node.
"""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clusters.document import DocumentError, Reader, did_you_mean, load_yaml

SCHEMA_VERSION = 1

PLACEHOLDERS: Mapping[str, str] = {
    "python": "the interpreter that runs drakit",
    "descriptor_dir": "the folder of the descriptor file",
    "driver": "the driver's name",
    "node": "name of the Node",
    "kubeconfig": "kubeconfig file of the driver's service account",
    "plugin_dir": "the driver's own directory for state and service socket (plugins/NAME on a real node)",
    "plugins_dir": "the folder above plugin_dir, for drivers that append their own name",
    "registry_dir": "directory for the registration socket (plugins_registry on a real node)",
    "cdi_dir": "directory for CDI specs",
    "hw_root": "root of the hardware tree of this node, for drivers that can be pointed at one",
    "socket_dir": "a short directory for further sockets",
    "machine": "the fake machine that this node shall have, for drivers on fake hardware (docs/hardware.md)",
    "device": "name of a device as published (hooks only)",
}

HOOKS: Mapping[str, str] = {
    "failDevice": "make the next configuration of {device} fail",
    "vanishDevice": "make {device} disappear from the hardware",
    "healDevice": "undo failDevice and vanishDevice for {device}",
    "removeAllDevices": "leave the node without any device, before the driver starts",
    "badStrings": "give the hardware overlong and malformed strings and versions, before the driver starts",
}

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
Command = tuple[str, ...]


@dataclass(frozen=True)
class Rule:
    """One declared RBAC rule of the driver's service account (rbac.authorization.k8s.io PolicyRule)."""

    api_groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    resource_names: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The rule in the form of the RBAC API."""
        rule: dict[str, Any] = {
            "apiGroups": list(self.api_groups),
            "resources": list(self.resources),
            "verbs": list(self.verbs),
        }
        if self.resource_names:
            rule["resourceNames"] = list(self.resource_names)
        return rule


@dataclass(frozen=True)
class Configs:
    """Example opaque parameters.

    `valid` is accepted by every device; `unknown_field` differs from it by one misspelt key; `visible` puts
    `visible_text` into the CDI edits of a device.
    """

    valid: Mapping[str, Any] | None = None
    unknown_field: Mapping[str, Any] | None = None
    unknown_field_name: str = ""
    visible: Mapping[str, Any] | None = None
    visible_text: str = ""


@dataclass(frozen=True)
class Descriptor:
    """A driver under test.

    `start` is empty for a driver that cannot be started as a process: on a cluster of the user's it is `installed`, or
    `manifests` install it.
    """

    path: Path
    name: str
    device_classes: tuple[str, ...]
    start: Command
    environment: Mapping[str, str] = field(default_factory=dict)
    prepare_node: tuple[Command, ...] = ()
    ready_seconds: float = 30.0
    stop_signal: signal.Signals = signal.SIGTERM
    stop_seconds: float = 10.0
    slice_repair_seconds: float = 90.0
    capabilities: frozenset[str] = frozenset()
    permissions: tuple[Rule, ...] = ()
    configs: Configs = Configs()
    hooks: Mapping[str, tuple[Command, ...]] = field(default_factory=dict)
    installed: bool = False
    manifests: tuple[Path, ...] = ()

    def expand(self, command: Iterable[str], values: Mapping[str, str]) -> list[str]:
        """A command with its placeholders replaced."""
        everything = {
            "python": sys.executable,
            "descriptor_dir": str(self.path.parent.resolve()),
            "driver": self.name,
            **values,
        }
        return [_PLACEHOLDER.sub(lambda match: everything.get(match[1], match[0]), word) for word in command]


def load(path: Path, capabilities: Iterable[str]) -> Descriptor:
    """Read a descriptor. Raises DocumentError naming every problem with its field path."""
    reader = Reader(load_yaml(path), str(path))
    vocabulary = list(capabilities)
    version = reader.take("schemaVersion", int, SCHEMA_VERSION, required=True)
    if version != SCHEMA_VERSION:
        reader.problem("schemaVersion", f"{version} is not known; this drakit reads {SCHEMA_VERSION}")
    name = reader.take("name", str, required=True)
    if name and (len(name) > 63 or not _NAME.match(name)):
        reader.problem(
            "name", f'"{name}" is not a driver name: a lower-case DNS subdomain of at most 63 characters'
        )
    installed = reader.take("installed", bool)
    manifests = tuple(path.parent / file for file in reader.strings("manifests"))
    if installed and manifests:
        reader.problem("manifests", 'install a driver that is not there; leave them out, or "installed"')
    elsewhere = installed or bool(manifests)
    start = reader.child("start", required=not elsewhere)
    stop = reader.child("stop")
    descriptor = Descriptor(
        path=path,
        name=name,
        device_classes=tuple(reader.strings("deviceClasses")),
        prepare_node=_commands(reader, "prepareNode"),
        start=_command(start, "command", required=not elsewhere or reader.has("start")),
        environment=_environment(start),
        ready_seconds=_seconds(start, "readySeconds", 30.0),
        stop_signal=_signal(stop),
        stop_seconds=_seconds(stop, "graceSeconds", 10.0),
        slice_repair_seconds=_seconds(reader, "sliceRepairSeconds", 90.0),
        capabilities=frozenset(reader.strings("capabilities", allowed=vocabulary)),
        permissions=reader.each("permissions", _rule),
        configs=_configs(reader),
        hooks=_hooks(reader.child("hooks")),
        installed=installed,
        manifests=manifests,
    )
    start.end()
    stop.end()
    reader.end()
    reader.finish()
    return descriptor


def check_start(descriptor: Descriptor) -> None:
    """Raise DocumentError for a driver that cannot be started as a process."""
    if not descriptor.start:
        problem = (
            "start: is required where drakit starts the cluster; --kubeconfig names one that has the driver"
        )
        raise DocumentError(str(descriptor.path), [problem])


def _check_placeholders(reader: Reader, key: str, command: Iterable[str], extra: frozenset[str]) -> None:
    allowed = {name for name in PLACEHOLDERS if name != "device"} | extra
    for word in command:
        for name in _PLACEHOLDER.findall(word):
            if name not in allowed:
                options = ", ".join("{" + option + "}" for option in sorted(allowed))
                reader.problem(
                    key,
                    f"unknown placeholder {{{name}}}{did_you_mean(name, allowed)} (known here: {options})",
                )


def _command(reader: Reader, key: str, *, required: bool = False) -> Command:
    words = tuple(reader.strings(key, required=required))
    if reader.has(key) and not words:
        reader.problem(key, "must name a program")
    _check_placeholders(reader, key, words, frozenset())
    return words


def _commands(reader: Reader, key: str, extra: frozenset[str] = frozenset()) -> tuple[Command, ...]:
    commands: list[Command] = []
    for index, item in enumerate(reader.take(key, list)):
        if not isinstance(item, list) or not item or not all(isinstance(word, str) for word in item):
            reader.problem(f"{key}[{index}]", "must be a command: a list of strings")
            continue
        _check_placeholders(reader, f"{key}[{index}]", item, extra)
        commands.append(tuple(item))
    return tuple(commands)


def _environment(reader: Reader) -> Mapping[str, str]:
    environment = reader.take("environment", dict)
    for key, value in environment.items():
        if not isinstance(value, str):
            reader.problem(f"environment.{key}", "must be a string (quote numbers and booleans)")
    return {str(key): str(value) for key, value in environment.items()}


def _seconds(reader: Reader, key: str, default: float) -> float:
    value = reader.take(key, float, default)
    if value <= 0:
        reader.problem(key, "must be a number of seconds greater than zero")
    return value


def _signal(reader: Reader) -> signal.Signals:
    allowed = ["SIGTERM", "SIGINT", "SIGQUIT", "SIGHUP"]
    name = reader.choice("signal", allowed, "SIGTERM")
    return signal.Signals[name] if name in allowed else signal.SIGTERM


def _rule(reader: Reader) -> Rule:
    rule = Rule(
        tuple(reader.strings("apiGroups", required=True)),
        tuple(reader.strings("resources", required=True)),
        tuple(reader.strings("verbs", required=True)),
        tuple(reader.strings("resourceNames")),
    )
    reader.end()
    return rule


def _configs(reader: Reader) -> Configs:
    child = reader.child("configs")
    unknown, visible = child.child("unknownField"), child.child("visible")
    configs = Configs(
        valid=child.take("valid", dict) if child.has("valid") else None,
        unknown_field=unknown.take("parameters", dict, required=True) if child.has("unknownField") else None,
        unknown_field_name=unknown.take("field", str, required=True) if child.has("unknownField") else "",
        visible=visible.take("parameters", dict, required=True) if child.has("visible") else None,
        visible_text=visible.take("text", str, required=True) if child.has("visible") else "",
    )
    unknown.end()
    visible.end()
    child.end()
    return configs


def _hooks(reader: Reader) -> Mapping[str, tuple[Command, ...]]:
    device = frozenset({"device"})
    hooks = {
        name: _commands(reader, name, device if "{device}" in purpose else frozenset())
        for name, purpose in HOOKS.items()
        if reader.has(name)
    }
    reader.end(allow=HOOKS)
    return hooks


__all__ = [
    "HOOKS",
    "PLACEHOLDERS",
    "SCHEMA_VERSION",
    "Command",
    "Configs",
    "Descriptor",
    "DocumentError",
    "Rule",
    "check_start",
    "load",
]
