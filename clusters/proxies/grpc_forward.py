"""Forwarding of gRPC calls, byte for byte, with recording and faults."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from typing import Any

import grpc

from clusters.proxies.grpc_calls import Call, CallLog, Record, short_service
from clusters.proxies.grpc_faults import ActiveFault
from node_api.services import split_method

UNLIMITED = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
"""Channel and server arguments: the proxy imposes no size of its own."""

# What gRPC says about a connection that went away during a call.
LOST = (grpc.StatusCode.UNAVAILABLE, "Socket closed")
# A held call looks this often whether it was released or cancelled; gRPC offers no common wait for both.
_HOLD_SECONDS = 0.01

# The deadline is measured by gRPC's clock and told in whole milliseconds.
_CLOCK_SECONDS = 0.05

Rewrite = Callable[[str, bytes], bytes]
"""Changes an answer before it goes to the kubelet; gets the full method and the message."""


class Forwarder(grpc.GenericRpcHandler):
    """Serves every method by forwarding to one channel.

    All calls are handled as server streams: a unary call is one whose stream has one message.
    """

    def __init__(
        self,
        channel: grpc.Channel,
        socket: str,
        log: CallLog,
        faults: Callable[[Call], list[ActiveFault]],
        stopped: threading.Event,
        *,
        rewrite: Rewrite = lambda method, message: message,
        wait_for_ready: bool = False,
    ) -> None:
        """Set up.

        Args:
            channel: to the driver.
            socket: the driver's socket, for the record.
            log: where calls are recorded.
            faults: takes the faults for a call.
            stopped: set when held calls must give up.
            rewrite: see Rewrite.
            wait_for_ready: whether calls wait for a connection within their deadline.
        """
        self._channel = channel
        self._socket = socket
        self._log = log
        self._faults = faults
        self._stopped = stopped
        self._rewrite = rewrite
        self._wait_for_ready = wait_for_ready

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Return the handler for a method; every method has one."""
        method = handler_call_details.method

        def handle(request: bytes, context: grpc.ServicerContext) -> Generator[bytes, None, None]:
            return self._handle(method, request, context)

        return grpc.unary_stream_rpc_method_handler(handle)

    def _handle(
        self, full: str, request: bytes, context: grpc.ServicerContext
    ) -> Generator[bytes, None, None]:
        service, method = split_method(full)
        call = Call(
            time.monotonic(),
            self._socket,
            short_service(service),
            method,
            request,
            timeout=context.time_remaining(),
        )
        record = self._log.begin(call)
        # A kubelet that goes away ends the generator where it is, without an exception that can be caught.
        ended = _End(record)
        context.add_callback(ended.gone)
        faults = self._faults(call)
        if faults:
            record.update(faults=tuple(active.fault.action for active in faults))
        refused = self._before(faults, context)
        if refused is None:
            refused = yield from self._forward(full, request, context, record, faults)
        code, details = refused
        ended.at(code, details)
        if code is not grpc.StatusCode.OK:
            context.set_code(code)
            context.set_details(details)

    def _before(
        self, faults: list[ActiveFault], context: grpc.ServicerContext
    ) -> tuple[grpc.StatusCode, str] | None:
        """Apply what happens before forwarding; return the status if the call ends here."""
        for active in faults:
            fault = active.fault
            if fault.action == "delay":
                until = time.monotonic() + fault.seconds
                self._wait(context, lambda until=until: time.monotonic() >= until)  # type: ignore[misc]
            elif fault.action == "hold":
                self._wait(context, lambda active=active: active.released)  # type: ignore[misc]
            elif fault.action == "error":
                return fault.code, fault.details
            elif fault.action == "cut":
                return LOST
        if not context.is_active() or self._stopped.is_set():
            # Nobody waits any more: the driver must not hear of the call.
            return grpc.StatusCode.CANCELLED, "cancelled while held by the proxy"
        return None

    def _wait(self, context: grpc.ServicerContext, condition: Callable[[], bool]) -> None:
        while not condition() and context.is_active() and not self._stopped.wait(_HOLD_SECONDS):
            pass

    def _forward(
        self,
        full: str,
        request: bytes,
        context: grpc.ServicerContext,
        record: Record,
        faults: list[ActiveFault],
    ) -> Generator[bytes, None, tuple[grpc.StatusCode, str]]:
        """Forward and pass on the answers; return the status."""
        metadata = tuple(
            (key, value)
            for key, value in context.invocation_metadata()
            if not key.startswith(("grpc-", ":")) and key != "user-agent"
        )
        method: Any = self._channel.unary_stream(full, None, None)
        upstream = method(
            request,
            timeout=context.time_remaining(),
            metadata=metadata,
            wait_for_ready=self._wait_for_ready,
        )
        if not context.add_callback(upstream.cancel):
            upstream.cancel()
        dropped = any(active.fault.action == "drop" for active in faults)
        holds = [active for active in faults if active.fault.action == "hold-answer"]
        try:
            for message in upstream:
                record.update(responses=(*record.call.responses, message))
                self._hold(holds, context)
                if not dropped:
                    yield self._rewrite(full, message)
        except grpc.RpcError:
            self._hold(holds, context)
        if dropped:
            return LOST
        context.set_trailing_metadata(tuple(upstream.trailing_metadata() or ()))
        return upstream.code(), upstream.details() or ""

    def _hold(self, holds: list[ActiveFault], context: grpc.ServicerContext) -> None:
        for active in holds:
            self._wait(context, lambda active=active: active.released)  # type: ignore[misc]


class _End:
    """Records the end of a call once."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._lock = threading.Lock()
        self._ended = False

    def at(self, code: grpc.StatusCode, details: str) -> None:
        """The call ended with this status."""
        with self._lock:
            if self._ended:
                return
            self._ended = True
        self._record.update(code=code, details=details)

    def gone(self) -> None:
        """The call is over; without a status before, because the kubelet cancelled it or its deadline came."""
        call = self._record.call
        late = call.timeout is not None and time.monotonic() - call.time >= call.timeout - _CLOCK_SECONDS
        if late:
            self.at(grpc.StatusCode.DEADLINE_EXCEEDED, "deadline of the kubelet")
        else:
            self.at(grpc.StatusCode.CANCELLED, "cancelled by the kubelet")
