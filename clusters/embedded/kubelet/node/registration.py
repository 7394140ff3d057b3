"""Registers the Node, keeps its status and its lease."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from clusters.chance import CHANCE
from clusters.client import ClientError
from clusters.clock import Clock
from clusters.embedded.components.client import ApiClient
from clusters.embedded.components.events import EventRecorder
from clusters.embedded.kubelet.config import KubeletConfig
from clusters.embedded.kubelet.node.status import initial_node, node_labels, node_status
from clusters.embedded.kubelet.pods.objects import Object

_FIRST_PAUSE, _LAST_PAUSE = 0.1, 7.0
_LEASES: Final = ("coordination.k8s.io/v1", "leases", "kube-node-lease")
_ATTEMPTS: Final = 5
_CONDITION_EVENTS: Final = {
    ("MemoryPressure", "False"): "NodeHasSufficientMemory",
    ("DiskPressure", "False"): "NodeHasNoDiskPressure",
    ("PIDPressure", "False"): "NodeHasSufficientPID",
    ("Ready", "True"): "NodeReady",
    ("Ready", "False"): "NodeNotReady",
}


class NodeRegistration:
    """The Node of one kubelet."""

    def __init__(
        self,
        name: str,
        config: KubeletConfig,
        client: ApiClient,
        clock: Clock,
        gates: Mapping[str, bool],
        events: EventRecorder,
        log: logging.Logger,
        *,
        port: int,
    ) -> None:
        self._name, self._config, self._client = name, config, client
        self._clock, self._gates, self._events, self._log = clock, gates, events, log
        self._port = port
        self._reported = 0.0
        self._unschedulable = False

    async def register(self) -> Object:
        """Create the Node, or bring labels of a known one in line; tried until it works. Returns the Node."""
        pause = _FIRST_PAUSE
        while True:
            await self._clock.sleep(pause if pause > _FIRST_PAUSE else 0)
            pause = min(pause * 2, _LAST_PAUSE)
            try:
                return await self._register()
            except ClientError as error:
                self._log.warning(
                    'Unable to register node with API server node="%s" err="%s"', self._name, error
                )

    async def _register(self) -> Object:
        try:
            node = await self._client.create("v1", "nodes", initial_node(self._name, self._config))
        except ClientError as error:
            if error.code != 409:
                raise
            node = await self._client.get("v1", "nodes", self._name)
            self._log.info('Node was previously registered node="%s"', self._name)
            wanted = node_labels(self._name, self._config)
            found = node["metadata"].get("labels") or {}
            labels = {key: value for key, value in wanted.items() if found.get(key) != value}
            if labels:
                node = await self._client.patch("v1", "nodes", self._name, {"metadata": {"labels": labels}})
        return await self._write_status(node)

    async def run_status(self) -> None:
        """Keep the status up to date until cancelled."""
        while True:
            await self._clock.sleep(self._config.status_frequency * (1 + CHANCE.random() * 0.04))
            for _ in range(_ATTEMPTS):
                try:
                    await self._update_status()
                    break
                except ClientError as error:
                    self._log.info('Error updating node status, will retry err="%s"', error)
                    if error.code == 404:
                        await self.register()

    async def _update_status(self) -> None:
        await self._write_status(await self._client.get("v1", "nodes", self._name))

    async def _write_status(self, node: Object) -> Object:
        """Write the status if it changed, or if it was not written for long."""
        self._record_cordon(node)
        known = node.get("status") or {}
        now = self._clock.now()
        status = node_status(
            self._name,
            self._config,
            self._gates,
            known.get("conditions") or [],
            now=self._clock.timestamp(),
            port=self._port,
        )
        due = now - self._reported >= self._config.status_report_frequency
        if not due and _stable(known) == _stable(status):
            return node
        patch: Object = {}
        for key, value in status.items():
            if key == "addresses":
                # The list is merged by type; a changed address must not stay beside the new one.
                patch[key] = [*value, {"$patch": "replace"}]
            elif known.get(key) != value:
                patch[key] = value
        if "declaredFeatures" in known and "declaredFeatures" not in status:
            patch["declaredFeatures"] = None
        written = await self._client.patch("v1", "nodes", self._name, {"status": patch}, subresource="status")
        self._reported = now
        self._record_conditions(known.get("conditions") or [], status["conditions"])
        return written

    def _record_cordon(self, node: Object) -> None:
        unschedulable = bool((node.get("spec") or {}).get("unschedulable"))
        if unschedulable != self._unschedulable:
            self._record("NodeNotSchedulable" if unschedulable else "NodeSchedulable")
            self._unschedulable = unschedulable

    def _record_conditions(self, before: list[Any], after: list[Any]) -> None:
        known = {condition["type"]: condition["status"] for condition in before}
        for condition in after:
            kind, status = condition["type"], condition["status"]
            reason = _CONDITION_EVENTS.get((kind, status))
            if reason and known.get(kind) != status:
                self._record(reason)

    def _record(self, reason: str) -> None:
        # The UID of a kubelet's Node events is the node's name.
        reference = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self._name, "uid": self._name}}
        self._events.event(reference, "Normal", reason, f"Node {self._name} status is now: {reason}")

    async def run_lease(self, node: Object) -> None:
        """Renew the lease until cancelled, four times in its duration."""
        interval = self._config.lease_seconds * 0.25
        owner = {"apiVersion": "v1", "kind": "Node", "name": self._name, "uid": node["metadata"]["uid"]}
        lease: Object | None = None
        while True:
            try:
                lease = await self._renew(lease, owner)
            except ClientError as error:
                lease = None
                self._log.info('Failed to update lease err="%s"', error)
            await self._clock.sleep(interval * (1 + CHANCE.random() * 0.04))

    async def _renew(self, lease: Object | None, owner: Object) -> Object:
        spec = {
            "holderIdentity": self._name,
            "leaseDurationSeconds": self._config.lease_seconds,
            "renewTime": self._clock.micro_timestamp(),
        }
        group, resource, namespace = _LEASES
        if lease is None:
            lease = await self._client.find(group, resource, self._name, namespace)
        if lease is None:
            body = {
                "apiVersion": group,
                "kind": "Lease",
                "metadata": {"name": self._name, "namespace": namespace, "ownerReferences": [owner]},
                "spec": spec,
            }
            return await self._client.create(group, resource, body, namespace)
        return await self._client.update(
            group, resource, {**lease, "spec": {**lease.get("spec", {}), **spec}}
        )


def _stable(status: Mapping[str, Any]) -> Object:
    """The status without heartbeats."""
    conditions = [
        {key: item for key, item in condition.items() if key != "lastHeartbeatTime"}
        for condition in status.get("conditions") or []
    ]
    ignored = ("conditions", "images", "volumesInUse", "volumesAttached", "config", "phase")
    rest = {key: item for key, item in status.items() if key not in ignored}
    return {**rest, "conditions": sorted(conditions, key=lambda condition: str(condition["type"]))}
