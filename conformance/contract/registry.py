"""The registration directory of a node, looked at as a kubelet does: which sockets there are and what they answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from clusters.descriptor import Descriptor
from clusters.interface import BareNode
from conformance.contract import plugin
from conformance.contract.findings import Findings
from conformance.contract.plugin import CallFailed, Info
from conformance.model import Failed
from conformance.waiting import poll
from node_api.registry import registration_sockets

LISTEN_SECONDS = 2.0
STRANGER_SECONDS = 10.0
"""A driver may have several names; one that has for so long only registered others will not come."""


class Registry:
    """The registration sockets of the driver under test, not through any proxy."""

    def __init__(
        self, node: BareNode, descriptor: Descriptor, findings: Findings, check_alive: Callable[[], None]
    ) -> None:
        self._node = node
        self._descriptor = descriptor
        self._findings = findings
        self._check_alive = check_alive

    def sockets(self) -> list[Path]:
        """Every registration socket, stale ones included."""
        return [Path(path) for path in sorted(registration_sockets(self._node.paths.registry))]

    def describe(self) -> str:
        """What is in the directory."""
        names = sorted(path.name for path in self._node.paths.registry.iterdir())
        return f"the registry directory holds {', '.join(names) or 'nothing'}"

    def look(self) -> tuple[Path, Info]:
        """The socket that answers with the driver's name, else the first that answers. Raises CallFailed."""
        others: list[tuple[Path, Info]] = []
        problem = CallFailed("GetInfo", "UNAVAILABLE", self.describe())
        for path in self.sockets():
            try:
                info = plugin.get_info(path)
            except CallFailed as error:
                problem = error
                continue
            if info.name == self._descriptor.name:
                return path, info
            others.append((path, info))
        if others:
            return others[0]
        raise problem

    def find(self) -> tuple[Path, Info]:
        """The same, after waiting for a socket as long as the descriptor allows. Raises Failed."""

        def there() -> bool:
            self._check_alive()
            return bool(self.sockets())

        poll(
            there,
            self._descriptor.ready_seconds,
            "a registration socket in the registry directory",
            self.describe,
        )
        began = time.monotonic()

        def answer() -> tuple[Path, Info] | None:
            self._check_alive()
            try:
                found = self.look()
            except CallFailed as error:
                # Between the making of a socket and its first accept there is a moment; a kubelet waits for 10 s.
                if error.code == "UNAVAILABLE" and time.monotonic() - began < LISTEN_SECONDS:
                    return None
                raise Failed("an answer to GetInfo", str(error)) from None
            own = found[1].name == self._descriptor.name
            return found if own or self.only_strangers(began) else None

        return poll(answer, STRANGER_SECONDS + plugin.INFO_SECONDS, "the driver's own name in GetInfo")

    def only_strangers(self, since: float) -> bool:
        """Whether other names are all that will come, seen since that monotonic time; known once for all."""
        if time.monotonic() - since > STRANGER_SECONDS:
            self._findings.stranger = True
        return self._findings.stranger
