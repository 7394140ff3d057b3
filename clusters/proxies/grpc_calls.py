"""What the plugin proxy records of each call."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import grpc
from google.protobuf import text_format
from google.protobuf.message import DecodeError, Message

from node_api.messages import message_types
from node_api.services import FULL_NAMES, full_method

_SHORT_NAMES = {full: short for short, full in FULL_NAMES.items()}


def short_service(full_name: str) -> str:
    """Return "v1.DRAPlugin" for the full name of that service; other names as they are."""
    return _SHORT_NAMES.get(full_name, full_name)


@dataclass(frozen=True)
class Call:
    """One call through the proxy.

    Attributes:
        time: monotonic seconds at which it came in.
        socket: the driver's socket it was for.
        service: short name such as "v1.DRAPlugin", or the full name of other services.
        method: for example "NodePrepareResources".
        request: the request as sent.
        responses: the messages that the driver answered so far; at most one for unary calls. They are here
            even if a fault kept them from the kubelet.
        code: the result as the kubelet saw it; None while the call runs.
        details: text of an error.
        duration: seconds it took, so far while it runs.
        timeout: seconds to the deadline when it came in; None without a deadline.
        faults: names of the faults that hit it.
    """

    time: float
    socket: str
    service: str
    method: str
    request: bytes
    responses: tuple[bytes, ...] = ()
    code: grpc.StatusCode | None = None
    details: str = ""
    duration: float = 0.0
    timeout: float | None = None
    faults: tuple[str, ...] = ()

    @property
    def request_message(self) -> Message | None:
        """The decoded request; None if the method is unknown or the bytes are no such message."""
        types = message_types(full_method(self.service, self.method))
        return types and _decode(types.request, self.request)

    @property
    def response_messages(self) -> tuple[Message | None, ...]:
        """The decoded answers; None for what cannot be decoded."""
        types = message_types(full_method(self.service, self.method))
        return tuple(types and _decode(types.response, data) for data in self.responses)

    @property
    def response_message(self) -> Message | None:
        """The last decoded answer, None if there is none."""
        messages = self.response_messages
        return messages[-1] if messages else None

    def __str__(self) -> str:
        asked = _show(self.request_message, self.request)
        answers = [
            _show(message, data)
            for message, data in zip(self.response_messages[-1:], self.responses[-1:], strict=True)
        ]
        count = f" (last of {len(self.responses)})" if len(self.responses) > 1 else ""
        state = "running" if self.code is None else self.code.name
        details = f" {self.details!r}" if self.details else ""
        faults = f" [{', '.join(self.faults)}]" if self.faults else ""
        return (
            f"{self.time:.3f} {self.service}/{self.method} {{{asked}}} -> {state}{details}"
            f" {{{''.join(answers)}}}{count} in {self.duration * 1000:.1f} ms{faults}"
        )


def _decode(kind: type[Message], data: bytes) -> Message | None:
    try:
        return kind.FromString(data)
    except DecodeError:
        return None


def _show(message: Message | None, data: bytes) -> str:
    if message is None:
        return data.hex()
    return text_format.MessageToString(message, as_one_line=True)


@dataclass
class Record:
    """A call being recorded; `call` is replaced as things happen."""

    call: Call
    log: CallLog

    def update(self, **changes: object) -> None:
        """Change fields of the call and wake whoever waits for a change."""
        with self.log.changed:
            duration = time.monotonic() - self.call.time
            self.call = replace(self.call, duration=duration, **changes)  # type: ignore[arg-type]
            self.log.changed.notify_all()


@dataclass
class CallLog:
    """All calls in the order in which they came in. Thread-safe."""

    records: list[Record] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def begin(self, call: Call) -> Record:
        """Start to record a call."""
        record = Record(call, self)
        with self.changed:
            self.records.append(record)
            self.changed.notify_all()
        return record

    def calls(self, since: float = 0.0) -> list[Call]:
        """Return the calls that came in from the monotonic time on; running ones as they are now."""
        now = time.monotonic()
        with self.changed:
            found = [record.call for record in self.records if record.call.time >= since]
        return [replace(call, duration=now - call.time) if call.code is None else call for call in found]

    def wait(self, condition: Callable[[Call], bool], count: int, since: float, timeout: float) -> list[Call]:
        """Wait until so many calls fulfil the condition and return these.

        Raises:
            TimeoutError: if they do not within the timeout (seconds).
        """
        deadline = time.monotonic() + timeout
        with self.changed:
            while True:
                found = [
                    record.call
                    for record in self.records
                    if record.call.time >= since and condition(record.call)
                ]
                if len(found) >= count:
                    return found
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"{len(found)} of {count} expected calls within {timeout:g} s")
                self.changed.wait(left)
