"""Components of an embedded cluster under the names and identities they have in a real one."""

from __future__ import annotations

import logging
import secrets
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from clusters.clock import Clock
from clusters.embedded.apiserver.auth.tokens import StaticTokens
from clusters.embedded.apiserver.auth.users import User
from clusters.embedded.apiserver.thread import ServerThread
from clusters.embedded.components.client import ApiClient
from clusters.embedded.components.component import Component, Context
from clusters.embedded.components.host import LOG_LINES, ComponentHost, Lines
from clusters.log_files import LogFile
from clusters.tls import client_context

_ACCOUNTS: Final = "system:serviceaccounts"


def service_account(namespace: str, name: str) -> User:
    """The user that a service account acts as."""
    return User(
        f"system:serviceaccount:{namespace}:{name}",
        groups=(_ACCOUNTS, f"{_ACCOUNTS}:{namespace}", "system:authenticated"),
    )


def node_user(name: str) -> User:
    """The user of a node's kubelet."""
    return User(f"system:node:{name}", groups=("system:nodes", "system:authenticated"))


class HostedComponents:
    """One component or several under one name; all of `clusters.interface.Component`."""

    def __init__(self, host: ComponentHost, names: Sequence[str]) -> None:
        self._host = host
        self._names = tuple(names)

    def start(self) -> None:
        """Start what does not run."""
        self._host.start(*self._names)

    def stop(self) -> None:
        """Stop what runs."""
        self._host.stop(*self._names)

    def kill(self) -> None:
        """End it without any shutdown code."""
        self._host.kill(*self._names)

    def restart(self) -> None:
        """Stop and start."""
        self._host.restart(*self._names)

    @property
    def running(self) -> bool:
        """Whether all of it runs."""
        return all(self._host.running(name) for name in self._names)

    def logs(self) -> list[str]:
        """The last lines of the logs."""
        return [line for name in self._names for line in self._host.logs(name)]


class ServerComponent:
    """The API server as a component; objects, port and certificates survive its restart."""

    def __init__(self, server: ServerThread, log: logging.Logger, logs: Path) -> None:
        """`server` runs and writes to `log`, which goes to a file in the folder `logs` from now on."""
        self._server = server
        self._running = True
        self._lines: deque[str] = deque(maxlen=LOG_LINES)
        self._log = log
        log.addHandler(Lines(self._lines, LogFile(logs, "apiserver")))
        log.info("serving on %s", server.url)

    def start(self) -> None:
        """Start it again."""
        if not self._running:
            self._server.start()
            self._running = True
            self._log.info("serving on %s again", self._server.url)

    def stop(self) -> None:
        """End all connections and listen no more."""
        if self._running:
            self._running = False
            self._server.stop()
            self._log.info("stopped")

    kill = stop

    def restart(self) -> None:
        """Stop and start."""
        self.stop()
        self.start()

    @property
    def running(self) -> bool:
        """Whether it listens."""
        return self._running

    def logs(self) -> list[str]:
        """When it began and ended, and the requests that it failed to handle."""
        return list(self._lines)


class Hosting:
    """Registers components with a client of their own identity."""

    def __init__(
        self,
        server: ServerThread,
        tokens: StaticTokens,
        clock: Clock,
        gates: Mapping[str, bool],
        logs: Path | None = None,
    ) -> None:
        """`tokens` is the server's own set: each component's token is added to it. `logs` is the folder for logs."""
        self.host = ComponentHost(logs)
        self._server = server
        self._tokens = tokens
        self.clock = clock
        self.gates = gates
        self._tls = client_context(server.ca_pem)

    def register(
        self,
        name: str,
        factory: Callable[[], Component],
        user: User,
        agent: str,
        reader: User | None = None,
    ) -> HostedComponents:
        """Make a component known that acts as `user`; `agent` is the first word of its User-Agent.

        `reader` is the user of its informers when that is another.
        """
        user_agent = f"{agent}/v1.37.2 (linux/amd64) drakit/{name}"
        token = self._token(user)
        reading = self._token(reader) if reader is not None else ""

        def context(log: logging.Logger) -> Context:
            client = ApiClient(self._server.url, self._tls, token, user_agent)
            shared = ApiClient(self._server.url, self._tls, reading, user_agent) if reading else None
            return Context(client, self.clock, self.gates, log, shared)

        self.host.register(name, factory, context)
        return HostedComponents(self.host, [name])

    def _token(self, user: User) -> str:
        token = secrets.token_urlsafe(24)
        self._tokens.add(token, user)
        return token

    def close(self) -> None:
        """End all components."""
        self.host.close()
