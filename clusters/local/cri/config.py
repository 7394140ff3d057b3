"""Which nodes a process serves: a JSON document `{"nodes": [{"name": ..., "socket": ..., ...}]}`."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from node_api.sockets import check_socket_path

_FIELDS: Final = ("name", "socket", "cdi_dirs", "root", "pod_cidr")


class ConfigError(Exception):
    """A configuration that cannot be used; the text says where and why."""


@dataclass(frozen=True)
class NodeConfig:
    """The runtime of one node.

    Attributes:
        name: of the node, which is also its host name.
        socket: where its kubelet connects.
        cdi_dirs: folders with CDI specs, lowest priority first.
        root: folder for the files of the runtime; made if it is not there.
        pod_cidr: IPv4 network of its sandboxes.
    """

    name: str
    socket: Path
    cdi_dirs: tuple[Path, ...]
    root: Path
    pod_cidr: str


def to_document(nodes: Iterable[NodeConfig]) -> dict[str, Any]:
    """The document that `load` reads."""
    return {
        "nodes": [
            {
                "name": node.name,
                "socket": str(node.socket),
                "cdi_dirs": [str(folder) for folder in node.cdi_dirs],
                "root": str(node.root),
                "pod_cidr": node.pod_cidr,
            }
            for node in nodes
        ]
    }


def load(path: Path) -> tuple[NodeConfig, ...]:
    """The nodes of a file. Raises ConfigError."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise ConfigError(f"{path}: cannot be read: {problem.strerror}") from problem
    except ValueError as problem:
        raise ConfigError(f"{path}: is not JSON: {problem}") from problem
    try:
        if not isinstance(document, dict) or set(document) != {"nodes"}:
            raise ConfigError('must be an object with the one key "nodes"')
        if not isinstance(document["nodes"], list):
            raise ConfigError("nodes: must be a list")
        nodes = tuple(_node(f"nodes[{index}]", entry) for index, entry in enumerate(document["nodes"]))
        for what in ("name", "socket"):
            values = [getattr(node, what) for node in nodes]
            if twice := [str(value) for value in values if values.count(value) > 1]:
                raise ConfigError(f"nodes: two have the {what} {twice[0]}")
    except ConfigError as problem:
        raise ConfigError(f"{path}: {problem}") from None
    return nodes


def _node(where: str, entry: Any) -> NodeConfig:
    if not isinstance(entry, Mapping) or set(entry) != set(_FIELDS):
        raise ConfigError(f"{where}: must be an object with the keys {', '.join(_FIELDS)}")
    for name in _FIELDS:
        value = entry[name]
        words = value if name == "cdi_dirs" else [value]
        if not isinstance(words, list) or not all(isinstance(word, str) and word for word in words):
            kind = "a list of strings" if name == "cdi_dirs" else "a string"
            raise ConfigError(f"{where}.{name}: must be {kind} that is not empty")
    try:
        check_socket_path(entry["socket"])
        ipaddress.IPv4Network(entry["pod_cidr"])
    except ValueError as problem:
        raise ConfigError(f"{where}: {problem}") from None
    return NodeConfig(
        entry["name"],
        Path(entry["socket"]),
        tuple(Path(folder) for folder in entry["cdi_dirs"]),
        Path(entry["root"]),
        entry["pod_cidr"],
    )
