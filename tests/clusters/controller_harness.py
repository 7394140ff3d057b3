"""An API server, a host with controllers and a client, for the tests of the controllers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from skipped_clock import SkippedClock, Wait

from clusters.client import Client, ClientError
from clusters.embedded.apiserver.auth.tokens import StaticTokens
from clusters.embedded.apiserver.auth.users import MASTERS, User
from clusters.embedded.apiserver.config import ServerConfig
from clusters.embedded.apiserver.thread import ServerThread
from clusters.embedded.components.client import ApiClient
from clusters.embedded.components.component import Component, Context
from clusters.embedded.components.host import ComponentHost
from clusters.embedded.controllers.catalogue import controllers
from clusters.embedded.hosting import service_account
from clusters.tls import client_context

DRA = "resource.k8s.io/v1"
FINALIZER = "resource.kubernetes.io/delete-protection"
Found = TypeVar("Found")
Object = dict[str, Any]


class Plane:
    """A control plane of which only the given components run."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.clock = SkippedClock()
        manager = User("system:kube-controller-manager", groups=("system:authenticated",))
        self._accounts = {entry.name: entry.service_account for entry in controllers("")}
        tokens = {
            "admin": User("admin", groups=(MASTERS,)),
            "manager": manager,
            **{name: service_account("kube-system", account) for name, account in self._accounts.items()},
        }
        config = ServerConfig(tokens=StaticTokens(tokens), clock=self.clock.now, **settings)
        self.server = ServerThread(config).start()
        ca = folder / "ca.pem"
        ca.write_bytes(self.server.ca_pem)
        self.client = Client(self.server.url, ca, "admin")
        self.host = ComponentHost()
        self._tls = client_context(self.server.ca_pem)
        self.gates: dict[str, bool] = {}

    def close(self) -> None:
        self.host.close()
        self.client.close()
        self.server.stop()

    def add(self, name: str, factory: Callable[[], Component], *, start: bool = True) -> None:
        """Register a component, of the catalogue's names with its own rights, and start it."""
        if name not in self._accounts:
            raise ValueError(f"no controller {name}")

        def context(log: Any) -> Context:
            client, reader = (
                ApiClient(self.server.url, self._tls, token, "kube-controller-manager/1.37")
                for token in (name, "manager")
            )
            return Context(client, self.clock, self.gates, log, reader)

        self.host.register(name, factory, context)
        if start:
            self.host.start(name)

    def until(self, look: Callable[[], Found], what: str, seconds: float = 20.0) -> Found:
        """The first true answer of `look`; fails with the last one and the logs after `seconds`."""
        wait = Wait(self.clock, seconds)
        while True:
            answer = look()
            if answer:
                return answer
            if wait.over():
                logs = [line for name in self.host.names() for line in self.host.logs(name)[-15:]]
                raise AssertionError("\n".join([f"not within {seconds} s: {what}; last: {answer!r}", *logs]))
            time.sleep(0.02)

    def gone(self, api_version: str, resource: str, name: str, namespace: str | None = None) -> None:
        """Wait for the end of an object."""
        self.until(
            lambda: self.client.find(api_version, resource, name, namespace) is None,
            f"end of {resource} {name}",
        )

    def changed(
        self, api_version: str, resource: str, name: str, change: Callable[[Object], Any], **where: Any
    ) -> Object:
        """Read, change and write an object, again after conflicts; `subresource` and `namespace` as in a client."""
        subresource = where.pop("subresource", None)
        while True:
            obj = self.client.get(api_version, resource, name, where.get("namespace"))
            change(obj)
            try:
                return self.client.update(api_version, resource, obj, subresource)
            except ClientError as error:
                if error.code != 409:
                    raise

    def events(self, name: str, namespace: str = "default") -> list[Object]:
        """The events of an object, the oldest first."""
        found = self.client.list("v1", "events", namespace, fieldSelector=f"involvedObject.name={name}")
        return sorted(found, key=lambda event: event["metadata"]["name"])


@contextmanager
def plane(folder: Path, **settings: Any) -> Iterator[Plane]:
    """A control plane that lives as long as the block."""
    made = Plane(folder, **settings)
    try:
        yield made
    finally:
        made.close()
