"""What a component of the embedded control plane is."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from clusters.clock import Clock
from clusters.embedded.components.client import ApiClient


@dataclass(frozen=True)
class Context:
    """What a component gets for one life: a client with its identity, the clock, every gate's value, a log.

    `reader` is for lists and watches. Controllers of one process share informers there, which act as the process:
    the roles of the controllers themselves do not cover what their informers read.
    """

    client: ApiClient
    clock: Clock
    gates: Mapping[str, bool]
    log: logging.Logger
    shared_reader: ApiClient | None = None

    @property
    def reader(self) -> ApiClient:
        """The client for informers."""
        return self.shared_reader if self.shared_reader is not None else self.client


class Component(Protocol):
    """One life of a component.

    `run` works until it is cancelled, which may happen at any await and stands for the death of a process: nothing
    may depend on code that runs then. The next life is a new object and starts from list and watch.
    """

    async def run(self, context: Context) -> None:
        """Work until cancelled."""
        ...
