"""An API proxy as one client uses it: the same calls and faults, narrowed to one identity."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from clusters.proxies.api_calls import ApiCall
from clusters.proxies.api_faults import Fault
from clusters.proxies.api_proxy import ApiProxy


class ClientView:
    """The part of an ApiProxy that concerns the client called `identity`."""

    def __init__(self, proxy: ApiProxy, identity: str) -> None:
        self._proxy = proxy
        self.identity = identity

    def write_kubeconfig(self, path: Path, *, token: str) -> None:
        """Write a kubeconfig (mode 0600) with which calls are known as this identity's."""
        self._proxy.write_kubeconfig(path, token=token, name=self.identity)

    def calls(self, *, since: float | None = None, **wanted: Any) -> list[ApiCall]:
        """The recorded calls of this client; see ApiProxy.calls."""
        return self._proxy.calls(since=since, identity=self.identity, **wanted)

    def fault(self, **what: Any) -> AbstractContextManager[Fault]:
        """Inject a fault into calls of this client; see ApiProxy.fault."""
        return self._proxy.fault(identity=self.identity, **what)

    def wait_for(
        self, predicate: Callable[[ApiCall], bool], timeout: float, reason: str, *, since: float | None = None
    ) -> ApiCall:
        """The first call of this client that satisfies the predicate; TimeoutError with the reason."""
        return self._proxy.wait_for(
            lambda call: call.identity == self.identity and predicate(call), timeout, reason, since=since
        )
