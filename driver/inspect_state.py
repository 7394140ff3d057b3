"""Questions about a driver from outside: is it ready, which claims does it hold."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import grpc

from driver.sdk.checkpoint import Contents, parse
from driver.sdk.plugin import CHECKPOINT, SERVICE_SOCKET
from driver.sdk.records import encode
from driver.sdk.services import HEALTH, NOT_READY_METADATA
from node_api.sockets import channel

_SECONDS = 5.0


def ready(plugin_dir: Path) -> int:
    """Print "ready", or why not, and return 0 or 1."""
    with channel(plugin_dir.absolute() / SERVICE_SOCKET) as connection:
        try:
            check = connection.unary_unary(f"/{HEALTH}/Check", bytes, bytes)
            answer, call = check.with_call(b"", timeout=_SECONDS)
        except grpc.RpcError as problem:
            sys.stdout.write(f"not ready: the driver does not answer: {problem.details()}\n")
            return 1
    if answer == b"\x08\x01":
        sys.stdout.write("ready\n")
        return 0
    for key, value in call.trailing_metadata():
        if key == NOT_READY_METADATA and isinstance(value, bytes):
            sys.stdout.write(f"not ready: {value.decode()}\n")
    return 1


def claims(plugin_dir: Path) -> int:
    """Print what the checkpoint holds, and return 0; 1 if it is damaged."""
    path = plugin_dir / CHECKPOINT
    contents, damage = Contents(), ""
    if path.exists():
        loaded = parse(path.read_bytes())
        contents, damage = loaded.contents, loaded.damage
    document = {
        "claims": {uid: encode(entry) for uid, entry in contents.entries.items()},
        "quarantined": dict(contents.quarantined),
        "deviceNames": dict(contents.device_names),
    }
    sys.stdout.write(json.dumps(document, indent=1, sort_keys=True) + "\n")
    if damage:
        sys.stderr.write(f"driver: {path} is damaged: {damage}\n")
    return 1 if damage else 0
