"""The file in which a kubelet keeps what drivers prepared, in the format of a real one."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from node_api.files import remove_temporaries, write_atomic

_KIND: Final = "DRACheckpoint"
_API_VERSION: Final = "checkpoint.dra.kubelet.k8s.io/v1"
_MODE: Final = 0o600
State = dict[str, Any]
"""One entry of ClaimInfoStateList."""


class CheckpointError(Exception):
    """A checkpoint that cannot be read or written; the kubelet does not start with it."""


def encode(states: Sequence[Mapping[str, Any]] | None) -> bytes:
    """The file's content."""
    data = _go_json({"kind": _KIND, "apiVersion": _API_VERSION, "ClaimInfoStateList": states})
    return _go_json({"Data": data, "Checksum": zlib.crc32(data.encode())}).encode()


def _go_json(value: object) -> str:
    """JSON as Go writes it: no spaces, and <, > and & escaped."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def decode(content: bytes) -> list[State]:
    """The entries. Raises CheckpointError when the content is damaged."""
    try:
        outer = json.loads(content)
        data = outer["Data"]
        if zlib.crc32(data.encode()) != outer["Checksum"]:
            raise CheckpointError("checkpoint is corrupted")
        inner = json.loads(data)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CheckpointError("checkpoint is corrupted") from error
    return inner.get("ClaimInfoStateList") or []


class CheckpointFile:
    """The file on disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written = b""

    def load(self) -> list[State]:
        """The entries; a missing file is made without any. Raises CheckpointError."""
        prefix = "create ResourceClaim cache: GetOrCreate() on checkpoint state: "
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            remove_temporaries(self._path.parent, self._path.name)
            try:
                content = self._path.read_bytes()
            except FileNotFoundError:
                self._write(encode(None))
                return []
            return decode(content)
        except CheckpointError as error:
            text = f"failed to get checkpoint {self._path.name}: {error}"
            raise CheckpointError(f"failed to run Kubelet: {prefix}{text}") from error
        except OSError as error:
            raise CheckpointError(
                f"failed to run Kubelet: {prefix}failed to get checkpoint {self._path.name}: {error}"
            ) from error

    def store(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Replace the content as a whole. Raises CheckpointError.

        It is not moved to a thread: a write that goes on after the kubelet was killed could undo one of its next life.
        Nor does it wait for a disk, as a real kubelet does: what survives the kubelet here is gone with the machine.
        """
        content = encode(list(states))
        if content == self._written:
            return
        try:
            self._write(content)
        except OSError as error:
            raise CheckpointError(f"could not save checkpoint {self._path.name}: {error}") from error

    def _write(self, content: bytes) -> None:
        write_atomic(self._path, content, mode=_MODE, durable=False)
        self._written = content
