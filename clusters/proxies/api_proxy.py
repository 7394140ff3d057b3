"""A TLS proxy before any API server: logs each call of a client and injects faults."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self, TypeVar, Unpack

from clusters import tls
from clusters.proxies import kubeconfig, permissions
from clusters.proxies.api_calls import ApiCall, CallLog, Where, fits
from clusters.proxies.api_faults import Cut, Fault, WatchFault
from clusters.proxies.api_forward import Forwarder

_CONTROL_SECONDS: Final = 10.0
_T = TypeVar("_T")


class ApiProxy:
    """Stands between clients and an API server; safe to use from any thread.

    It serves from its creation until `close`. Each client identity has a listener of its own, so that a call is
    known by the port it came to; `identity` names the first one. The client's credentials pass through and are
    never kept. `upstream_ca` is PEM text; `clock` gives wall-clock seconds for the log. Upgraded connections
    (exec, port-forward) are answered with 501.
    """

    def __init__(
        self,
        upstream_url: str,
        upstream_ca: str | bytes,
        *,
        identity: str = "client",
        host: str = "127.0.0.1",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.identity = identity
        self._log = CallLog()
        self._certificates = tls.generate(host)
        self._forwarder = Forwarder(upstream_url, upstream_ca, self._log, clock)
        self._host = host
        self._urls: dict[str, str] = {}
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="api-proxy", daemon=True)
        self._thread.start()
        try:
            self.url_for(identity)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Cut all connections and end the thread; the log stays readable. Closing again does nothing."""
        with self._lock:
            if self._loop.is_closed():
                return
            self._call(self._forwarder.close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_CONTROL_SECONDS)
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def ca_pem(self) -> bytes:
        """The authority that clients of the proxy must trust."""
        return self._certificates.ca_pem

    @property
    def url(self) -> str:
        """The address for the first identity."""
        return self.url_for(self.identity)

    def url_for(self, identity: str) -> str:
        """The address for the client that the log shall call `identity`; opens its listener at first use."""
        with self._lock:
            if identity not in self._urls:
                context = self._certificates.server_context()
                self._urls[identity] = self._call(self._forwarder.listen(identity, self._host, context))
            return self._urls[identity]

    def write_kubeconfig(
        self, path: Path, *, token: str, name: str | None = None, namespace: str = ""
    ) -> None:
        """Write a kubeconfig (mode 0600) that leads through the listener of identity `name`, else the first."""
        user = name or self.identity
        server = self.url_for(user)
        kubeconfig.write(path, server=server, ca_pem=self.ca_pem, token=token, user=user, namespace=namespace)

    def mark(self) -> float:
        """This moment, for `since`."""
        return time.monotonic()

    def calls(
        self, *, since: float | None = None, status: int | None = None, **where: Unpack[Where]
    ) -> list[ApiCall]:
        """The recorded calls that fit, in the order of their answers; `since` is a time.monotonic() value."""
        return self._log.calls(since=since, status=status, **where)

    def wait_for(
        self,
        predicate: Callable[[ApiCall], bool],
        timeout: float,
        reason: str,
        *,
        since: float | None = None,
    ) -> ApiCall:
        """The first recorded or coming call that satisfies the predicate; TimeoutError with the reason.

        The predicate must be quick and must not use the proxy: it runs while the log is held.
        """
        return self._log.wait_for(predicate, timeout, reason, since=since)

    def wait_for_call(self, *, timeout: float, since: float | None = None, **where: Unpack[Where]) -> ApiCall:
        """The first recorded or coming call that fits; TimeoutError says what was awaited."""
        wanted = ", ".join(f"{key} {value}" for key, value in where.items() if value is not None)
        return self.wait_for(
            lambda call: fits(where, call.identity, call.info), timeout, f"a call with {wanted}", since=since
        )

    def rbac_report(
        self,
        declared: Sequence[permissions.DeclaredRule],
        *,
        since: float | None = None,
        **where: Unpack[Where],
    ) -> permissions.Report:
        """Compare the rights that the recorded calls needed with declared ones."""
        return permissions.report(self.calls(since=since, **where), declared)

    @contextmanager
    def fault(
        self,
        *,
        times: int | None = None,
        status: int | None = None,
        reason: str | None = None,
        message: str | None = None,
        retry_after: int | None = None,
        delay: float = 0.0,
        cut: Cut | None = None,
        watch: WatchFault | None = None,
        **where: Unpack[Where],
    ) -> Iterator[Fault]:
        """Inject a fault (see Fault) as long as the context lasts; yields it with its count of hits."""
        fault = Fault(
            where,
            times=times,
            status=status,
            reason=reason,
            message=message,
            retry_after=retry_after,
            delay=delay,
            cut=cut,
            watch=watch,
        )
        self._call(self._forwarder.add_fault(fault))
        try:
            yield fault
        finally:
            self._call(self._forwarder.remove_fault(fault))

    def expire_watches(self, **where: Unpack[Where]) -> int:
        """Send the ERROR event 410 on the open watches that fit and end them; how many there were."""
        with self.fault(watch="expire", **where) as fault:
            return fault.hits

    def _call(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine in the thread of the loop. Nothing happens there any more after `close`."""
        if self._loop.is_closed():
            coroutine.close()
            raise RuntimeError("the API proxy is closed")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_CONTROL_SECONDS)
