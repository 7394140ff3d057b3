"""The kit's driver with the answers that a plugin should never give."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import grpc

from conformance.cluster.kit_driver import KitDriver
from node_api import services

STRANGE_UID = "00000000-aaaa-bbbb-cccc-000000000000"
Answer = Callable[[Any, Sequence[tuple[str, str, str]]], None]
"""Changes an answer; the claims are those of the call as (namespace, name, uid)."""


def skip_all(response: Any, claims: Sequence[tuple[str, str, str]]) -> None:
    """No entries."""
    response.claims.clear()


def skip_last(response: Any, claims: Sequence[tuple[str, str, str]]) -> None:
    """No entry for the last claim."""
    del response.claims[claims[-1][2]]


def wrong_uid(response: Any, claims: Sequence[tuple[str, str, str]]) -> None:
    """An entry for a claim that nobody asked about, instead of the last."""
    del response.claims[claims[-1][2]]
    response.claims[STRANGE_UID].SetInParent()


def no_devices(response: Any, claims: Sequence[tuple[str, str, str]]) -> None:
    """Entries without devices."""
    for entry in response.claims.values():
        del entry.devices[:]


def every_request(response: Any, claims: Sequence[tuple[str, str, str]]) -> None:
    """Devices that are for every request."""
    for entry in response.claims.values():
        for device in entry.devices:
            del device.request_names[:]


class ScriptedDriver(KitDriver):
    """Answers are changed by `answers`, by the name of the method; `entered` is set by a call that blocks."""

    def __init__(self, *arguments: Any, **parts: Any) -> None:
        super().__init__(*arguments, **parts)
        self.answers: dict[str, Answer] = {}
        self.entered = threading.Event()

    def _answer(
        self,
        method: str,
        response: Any,
        claims: Sequence[tuple[str, str, str]],
        context: grpc.ServicerContext,
    ) -> Any:
        blocks = {
            services.NODE_PREPARE_RESOURCES: self.faults.block_prepare,
            services.NODE_UNPREPARE_RESOURCES: self.faults.block_unprepare,
        }
        if method in blocks and blocks[method].is_set():
            self.entered.set()
        result = super()._answer(method, response, claims, context)
        if method in self.answers:
            self.answers[method](result, claims)
        return result
