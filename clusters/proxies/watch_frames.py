"""Cutting watch streams into whole events, without a look inside."""

from __future__ import annotations

import json
from typing import Any, Final

from clusters.proxies.api_calls import PROTOBUF
from dra_api import wire

_LENGTH_BYTES: Final = 4


class Frames:
    """Collects the bytes of a stream and gives back all complete events."""

    def __init__(self, content_type: str) -> None:
        self.protobuf = content_type.split(";", 1)[0].strip().lower() == PROTOBUF
        self._pending = b""

    def feed(self, data: bytes) -> bytes:
        """The complete events, in the form of the stream; the rest waits for more."""
        self._pending += data
        end = self._end_of_frames() if self.protobuf else self._pending.rfind(b"\n") + 1
        complete, self._pending = self._pending[:end], self._pending[end:]
        return complete

    def rest(self) -> bytes:
        """What is left when the stream ends."""
        return self._pending

    def error_event(self, status: dict[str, Any]) -> bytes:
        """An ERROR event with a Status."""
        if self.protobuf:
            return wire.encode_watch_frame("ERROR", status)
        return json.dumps({"type": "ERROR", "object": status}, separators=(",", ":")).encode() + b"\n"

    def _end_of_frames(self) -> int:
        position = 0
        while len(self._pending) - position >= _LENGTH_BYTES:
            length = int.from_bytes(self._pending[position : position + _LENGTH_BYTES], "big")
            if len(self._pending) - position - _LENGTH_BYTES < length:
                break
            position += _LENGTH_BYTES + length
        return position
