"""Questions about a driver from outside: is it ready, which claims does it hold."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import grpc

from driver.sdk.checkpoint import Contents, parse
from driver.sdk.plugin import CHECKPOINT, SERVICE_SOCKET
from driver.sdk.records import encode
from driver.sdk.services import HEALTH, NOT_READY_METADATA
from node_api.sockets import channel

_SECONDS = 5.0
_SERVING = b"\x08\x01"


def reasons(plugin_dir: Path) -> list[str]:
    """Why the driver of a state directory is not ready, `condition: reason` each; empty when it is ready.

    Raises:
        SocketPathError: if the path of the directory is too long for a socket.
    """
    with channel(plugin_dir.absolute() / SERVICE_SOCKET) as connection:
        try:
            check = connection.unary_unary(f"/{HEALTH}/Check", bytes, bytes)
            answer, call = check.with_call(b"", timeout=_SECONDS)
        except grpc.RpcError as problem:
            return [f"the driver does not answer: {problem.details()}"]
    found = [
        value.decode()
        for key, value in call.trailing_metadata()
        if key == NOT_READY_METADATA and isinstance(value, bytes)
    ]
    return found or ([] if answer == _SERVING else ["it does not say why"])


def ready(plugin_dir: Path) -> int:
    """Print "ready", or why not, and return 0 or 1."""
    found = reasons(plugin_dir)
    sys.stdout.writelines(f"not ready: {reason}\n" for reason in found)
    if not found:
        sys.stdout.write("ready\n")
    return 1 if found else 0


def document(plugin_dir: Path) -> dict[str, Any]:
    """What the checkpoint in a state directory holds; `damage` says what could not be read.

    Raises:
        OSError: if the file cannot be read at all.
    """
    path = plugin_dir / CHECKPOINT
    contents, damage = Contents(), ""
    if path.exists():
        loaded = parse(path.read_bytes())
        contents, damage = loaded.contents, loaded.damage
    return {
        "claims": {uid: encode(entry) for uid, entry in contents.entries.items()},
        "quarantined": dict(contents.quarantined),
        "deviceNames": dict(contents.device_names),
        "damage": damage,
    }


def claims(plugin_dir: Path) -> int:
    """Print what the checkpoint holds as JSON, and return 0; 1 if it is damaged."""
    found = document(plugin_dir)
    sys.stdout.write(json.dumps(found, indent=1, sort_keys=True) + "\n")
    return 1 if found["damage"] else 0
