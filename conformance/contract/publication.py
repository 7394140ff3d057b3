"""The slices that the driver under test has published for its node, and waiting for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from clusters.client import Client
from clusters.descriptor import Descriptor
from clusters.interface import BareNode
from conformance.contract.claims import RESOURCE_API, Device
from conformance.contract.findings import Findings
from conformance.contract.pools import complete, content, describe_slices, devices, versions
from conformance.model import Failed, NotTestable
from conformance.waiting import poll

PUBLISH_SECONDS = 30.0
QUIET_SECONDS = 1.0
WRITES = ("create", "update", "patch", "delete", "deletecollection")


class Publication:
    """What the driver has published for one node, as the API server holds it."""

    def __init__(
        self,
        node: BareNode,
        client: Client,
        descriptor: Descriptor,
        findings: Findings,
        check_alive: Callable[[], None],
    ) -> None:
        self._node = node
        self._client = client
        self._descriptor = descriptor
        self._findings = findings
        self._check_alive = check_alive

    def slices(self) -> list[dict[str, Any]]:
        """The slices of the node: those that name it, and those for several nodes that it owns."""
        named = self._list(self._node.name)
        shared = [item for item in self._list("") if _owned_by(item, self._node.name)]
        return [*named, *shared]

    def _list(self, node: str) -> list[dict[str, Any]]:
        selector = f"spec.driver={self._descriptor.name},spec.nodeName={node}"
        return self._client.list(RESOURCE_API, "resourceslices", fieldSelector=selector)

    def wait(self, timeout: float | None = None, *, required: bool = False) -> list[dict[str, Any]]:
        """The slices, once every pool is complete and some device is there; by default at least 30 s.

        Raises NotTestable when the driver is known to have no device, Failed if `required`.
        """

        def probe() -> list[dict[str, Any]] | None:
            self._check_alive()
            slices = self.slices()
            if complete(slices) and devices(slices):
                return slices
            if self._findings.deviceless and required:
                raise Failed(expected, describe_slices(slices))
            if self._findings.deviceless:
                raise NotTestable(self._findings.deviceless)
            return None

        expected = "a complete pool with devices"
        patience = max(PUBLISH_SECONDS, self._descriptor.ready_seconds) if timeout is None else timeout
        return poll(probe, patience, expected, lambda: describe_slices(self.slices()))

    def settled(self) -> list[dict[str, Any]]:
        """The slices, once nothing was written for a second: a driver may publish in several steps."""
        known: dict[str, str] = {}
        since = time.monotonic()

        def probe() -> list[dict[str, Any]] | None:
            nonlocal known, since
            slices = self.slices()
            if versions(slices) != known:
                known, since = versions(slices), time.monotonic()
            quiet = time.monotonic() - since >= QUIET_SECONDS
            return slices if quiet and complete(slices) else None

        self.wait()
        return poll(
            probe,
            PUBLISH_SECONDS,
            f"complete pools, and no write for {QUIET_SECONDS:g} s",
            lambda: f"written again and again: {describe_slices(self.slices())}",
        )

    def devices(self, count: int, least: int) -> list[Device]:
        """The first `count` published devices, or fewer. Raises NotTestable when there are less than `least`."""
        try:
            slices = self.wait(self._descriptor.ready_seconds)
        except Failed:
            self._check_alive()
            self._note_deviceless()
            raise
        found = devices(slices)
        if len(found) < least:
            raise NotTestable(f"{least} devices are needed; the driver published {len(found)}")
        return found[:count]

    def _note_deviceless(self) -> None:
        """Tell a driver that has nothing to publish, which is legal, from one that fails to publish."""
        slices = self.slices()
        tried = self._node.api_proxy.calls(resource="resourceslices", verbs=WRITES)
        if not devices(slices) and (complete(slices) or not tried):
            seen = describe_slices(slices)
            self._findings.deviceless = f"a device is needed; the driver published none ({seen})"
            raise NotTestable(self._findings.deviceless)

    def delete(self) -> None:
        """Remove every slice, behind the driver's back."""
        for item in self.slices():
            self._client.delete(RESOURCE_API, "resourceslices", item["metadata"]["name"])

    def take_a_device_away(self) -> None:
        """Edit a slice, behind the driver's back: its last device goes."""
        victim = next(item for item in self.slices() if item["spec"].get("devices"))
        change = {"spec": {"devices": victim["spec"]["devices"][:-1]}}
        self._client.patch(RESOURCE_API, "resourceslices", victim["metadata"]["name"], change)

    def returns(self, wanted: Sequence[str]) -> None:
        """Wait until the slices say again what they did (see `content`), as long as the descriptor allows."""
        poll(
            lambda: content(self.slices()) == wanted,
            self._descriptor.slice_repair_seconds,
            "the slices are as the driver published them",
            lambda: describe_slices(self.slices()),
        )


def _owned_by(item: dict[str, Any], node: str) -> bool:
    owners = item["metadata"].get("ownerReferences") or []
    return any(owner.get("kind") == "Node" and owner.get("name") == node for owner in owners)
