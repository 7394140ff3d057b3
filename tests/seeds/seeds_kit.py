"""A namespace of a test on a whole cluster, and everything to wait for."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from seeds_api import (
    CLUSTER_SCOPED,
    DRA,
    GPU_NODE,
    NVIDIA,
    PLAIN_NODE,
    Object,
    Sent,
    eventually,
    load,
    plural,
    refusal,
    send,
    table,
    version_of,
)

from clusters import descriptor as descriptors
from clusters.client import ClientError, resource_path
from clusters.embedded.cluster import EmbeddedCluster
from clusters.interface import WholeNode
from clusters.process import DriverProcess
from conformance import catalogue
from conformance.cluster import manifests
from conformance.cluster.kit_driver import KitDriver

_STEP = 20.0
"""How far the clock goes at once, much less than the 50 seconds after which a node counts as lost."""
_SERIAL = itertools.count(1)


class World:
    """A namespace of one test on a whole cluster; what is made through it goes in the end."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster
        self.client = cluster.client()
        self.namespace = f"seed-{next(_SERIAL)}"
        self._made: list[tuple[str, str, str, str]] = []
        self.drivers: list[KitDriver] = []

    # Life cycle

    def begin(self, **labels: str) -> World:
        """Make the namespace; Pods can be made in it afterwards."""
        self.make_namespace(self.namespace, labels)
        return self

    def make_namespace(self, name: str, labels: Mapping[str, str] | None = None) -> None:
        """One more namespace."""
        self.create(
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": name, "labels": dict(labels or {})},
            }
        )

    def end(self) -> None:
        """Remove what the test made, workloads and Pods first, so that drivers can still clean up."""
        try:
            self._end()
        finally:
            for driver in self.drivers:
                driver.stop()

    def _end(self) -> None:
        for driver in self.drivers:
            driver.faults.block_prepare.clear()
            driver.faults.block_unprepare.clear()
        namespaces = [name for _, kind, _, name in self._made if kind == "Namespace"]
        for version, kind, namespace, name in self._made:
            if version == "apps/v1":
                self.client.delete(
                    version, plural(kind), name, namespace, {"propagationPolicy": "Foreground"}
                )
        try:
            for namespace in namespaces:
                eventually(
                    lambda: self._empty(namespace),  # noqa: B023
                    f"Pods and claims of {namespace} are gone",
                    lambda: self._left(namespace),  # noqa: B023
                )
        finally:
            # Even after a failure nothing may be left for the next test.
            for namespace in namespaces:
                for pod in self.client.list("v1", "pods", namespace):
                    name = pod["metadata"]["name"]
                    self.client.delete("v1", "pods", name, namespace, {"gracePeriodSeconds": 0})
            for version, kind, namespace, name in reversed(self._made):
                if not namespace:
                    self.client.delete(version, plural(kind), name)
        others = [name for name in namespaces if name != self.namespace]
        eventually(lambda: self._ended(others), f"namespaces {others} are gone")

    def _ended(self, namespaces: Sequence[str]) -> bool:
        """Whether namespaces are gone; else the clock goes ahead, as their controller waits for five seconds."""
        if not any(self.client.find("v1", "namespaces", name) for name in namespaces):
            return True
        self.cluster.clock.advance(1)
        return False

    def _left(self, namespace: str) -> object:
        """What is there yet, for messages."""
        claims = self.client.list(DRA, "resourceclaims", namespace)
        pods = [pod["metadata"]["name"] for pod in self.client.list("v1", "pods", namespace)]
        return claims, [(pod, self.describe(pod, namespace)) for pod in pods]

    def _empty(self, namespace: str) -> bool:
        pods = self.client.list("v1", "pods", namespace)
        for pod in pods:
            if pod["metadata"].get("deletionGracePeriodSeconds", 9) > 1:
                name = pod["metadata"]["name"]
                self.client.delete("v1", "pods", name, namespace, {"gracePeriodSeconds": 1})
        claims = self.client.list(DRA, "resourceclaims", namespace)
        for claim in claims:
            if "deletionTimestamp" not in claim["metadata"]:
                self.client.delete(DRA, "resourceclaims", claim["metadata"]["name"], namespace)
        return not pods and not claims

    # Objects

    def create(self, obj: Mapping[str, Any], *, validate: str = "Strict") -> Sent:
        """Create an object as kubectl would; without a namespace of its own in that of the test."""
        kind = obj["kind"]
        namespace = "" if kind in CLUSTER_SCOPED else self.namespace
        sent = send(self.client, obj, namespace=namespace, validate=validate)
        meta = sent["metadata"]
        self._made.append((obj["apiVersion"], kind, meta.get("namespace", ""), meta["name"]))
        if kind == "Namespace":
            name = meta["name"]
            eventually(
                lambda: self.client.find("v1", "serviceaccounts", "default", name),
                f"{name} has its default service account",
            )
        return sent

    def submit(self, *names: str) -> list[Sent]:
        """Create all documents of manifests by name."""
        return [self.create(document) for name in names for document in load(name)]

    def refused(self, obj: Mapping[str, Any], *, validate: str = "Strict") -> tuple[int, str]:
        """Code and message of the refusal to create an object."""
        return refusal(lambda: self.create(obj, validate=validate))

    def get(self, kind: str, name: str, namespace: str = "") -> Object:
        """An object as it is now."""
        return self.client.get(version_of(kind), plural(kind), name, self._space(kind, namespace))

    def find(self, kind: str, name: str, namespace: str = "") -> Object | None:
        """An object, or None."""
        return self.client.find(version_of(kind), plural(kind), name, self._space(kind, namespace))

    def all_of(self, kind: str, namespace: str = "") -> list[Object]:
        """All objects of a kind."""
        return self.client.list(version_of(kind), plural(kind), self._space(kind, namespace))

    def patch(self, kind: str, name: str, body: Any, subresource: str | None = None) -> Object:
        """Merge-patch an object."""
        space = self._space(kind, "")
        return self.client.patch(version_of(kind), plural(kind), name, body, space, subresource)

    def delete(self, kind: str, name: str, namespace: str = "", *, grace: int | None = 1) -> None:
        """Delete an object, a Pod with a grace period of a second."""
        body = {"gracePeriodSeconds": grace} if kind == "Pod" and grace is not None else None
        self.client.delete(version_of(kind), plural(kind), name, self._space(kind, namespace), body)

    def _space(self, kind: str, namespace: str) -> str | None:
        return None if kind in CLUSTER_SCOPED else namespace or self.namespace

    # Objects that tests make themselves

    def pod(self, name: str, **parts: Any) -> Sent:
        """A Pod; `parts` are those of `manifests.pod`. Its container runs on unless told otherwise."""
        if "containers" not in parts:
            claims = [*parts.get("claims", {}), *parts.get("templates", {})]
            parts["containers"] = [manifests.container(claims=claims)]
        return self.create(manifests.pod(name, **parts))

    def claim(self, name: str, *requests: Mapping[str, Any], **parts: Any) -> Sent:
        """A claim; `parts` are those of `manifests.claim_spec`."""
        return self.create(manifests.claim(name, manifests.claim_spec(requests, **parts)))

    def template(self, name: str, *requests: Mapping[str, Any], **parts: Any) -> Sent:
        """A claim template."""
        return self.create(manifests.template(name, manifests.claim_spec(requests, **parts)))

    def device_class(self, name: str, driver: str, *expressions: str) -> str:
        """A class of the devices of a driver; its name."""
        self.create(manifests.device_class(name, [f'device.driver == "{driver}"', *expressions]))
        return name

    def slice_of(self, driver: str, *devices: str | Mapping[str, Any], **fields: Any) -> Sent:
        """A slice with devices of a driver, by default on the plain node."""
        entries = [manifests.device(entry) if isinstance(entry, str) else entry for entry in devices]
        if not {"node", "allNodes", "nodeSelector", "perDeviceNodeSelection"} & set(fields):
            fields["node"] = PLAIN_NODE
        name = fields.pop("name", f"{self.namespace}-{driver}")
        return self.create(manifests.resource_slice(name, driver, entries, **fields))

    # Nodes and drivers

    def node(self, name: str = PLAIN_NODE) -> WholeNode:
        """A node by name."""
        return next(node for node in self.cluster.nodes if node.name == name)

    def driver(self, name: str, node: str = PLAIN_NODE) -> KitDriver:
        """A driver of the test on a node, until the end of the test."""
        made = KitDriver(name, node, self.node(node).paths, self.client)
        self.drivers.append(made)
        made.start()
        eventually(made.notified, f"driver {name} is registered on {node}")
        return made

    def skip(self, seconds: float) -> None:
        """Let the clock go ahead at least so far, in steps that leave the kubelets the time to renew their leases."""
        left = seconds
        while left > 0:
            self.cluster.clock.advance(min(left, _STEP))
            left -= _STEP
            eventually(self._renewed, "the nodes renew their leases")

    def _renewed(self) -> bool:
        leases = self.client.list("coordination.k8s.io/v1", "leases", "kube-node-lease")
        times = [datetime.fromisoformat(lease["spec"]["renewTime"]).timestamp() for lease in leases]
        if min(times) > self.cluster.clock.now() - _STEP / 2:
            return True
        # A kubelet that was about to renew its lease before the step does so again after ten seconds.
        self.cluster.clock.advance(1)
        return False

    # Waiting

    def phase(self, pod: str, phase: str = "Running", namespace: str = "") -> Object:
        """Wait until a Pod is in a phase; the Pod."""

        def probe() -> Object | None:
            found = self.find("Pod", pod, namespace)
            return found if found and (found.get("status") or {}).get("phase") == phase else None

        found: Object = eventually(probe, f"{pod} is {phase}", lambda: self.describe(pod, namespace))
        return found

    def unschedulable(self, pod: str, namespace: str = "") -> Object:
        """Wait until the scheduler has given up for now; the condition PodScheduled."""

        def probe() -> Object | None:
            return _condition(self.find("Pod", pod, namespace) or {}, "PodScheduled")

        found: Object = eventually(probe, f"{pod} has a condition", lambda: self.describe(pod, namespace))
        assert found["status"] == "False", self.describe(pod, namespace)
        return found

    def event(self, pod: str, reason: str, text: str = "", namespace: str = "") -> Object:
        """Wait for an event about a Pod."""

        def probe() -> Object | None:
            for event in self.events(pod, namespace):
                if event["reason"] == reason and text in event.get("message", ""):
                    return event
            return None

        found: Object = eventually(probe, f"event {reason} {text}", lambda: self.describe(pod, namespace))
        return found

    def events(self, pod: str, namespace: str = "") -> list[Object]:
        """The events about a Pod, oldest first."""
        found = self.client.list("v1", "events", namespace or self.namespace)
        mine = [event for event in found if event["involvedObject"]["name"] == pod]
        return sorted(mine, key=lambda event: int(event["metadata"]["resourceVersion"]))

    def gone(self, kind: str, name: str, namespace: str = "") -> None:
        """Wait until an object is gone."""
        eventually(
            lambda: self.find(kind, name, namespace) is None,
            f"{kind} {name} is gone",
            lambda: self.find(kind, name, namespace),
        )

    def generated(self, pod: str, claim: str, namespace: str = "") -> str:
        """Wait for the claim that is made from a template for a Pod; its name."""

        def probe() -> str | None:
            status = (self.find("Pod", pod, namespace) or {}).get("status") or {}
            for entry in status.get("resourceClaimStatuses") or []:
                if entry["name"] == claim:
                    return str(entry["resourceClaimName"])
            return None

        return str(eventually(probe, f"{pod} has a claim {claim}", lambda: self.describe(pod, namespace)))

    def devices(self, claim: str, namespace: str = "") -> list[str]:
        """Wait until a claim is allocated; its devices in the order of the results."""
        return [result["device"] for result in self.results(claim, namespace)]

    def results(self, claim: str, namespace: str = "") -> list[Object]:
        """Wait until a claim is allocated; its results."""

        def probe() -> list[Object]:
            found = self.find("ResourceClaim", claim, namespace) or {}
            devices = ((found.get("status") or {}).get("allocation") or {}).get("devices") or {}
            return list(devices.get("results") or [])

        found: list[Object] = eventually(
            probe, f"claim {claim} is allocated", lambda: self.find("ResourceClaim", claim, namespace)
        )
        return found

    def log(self, pod: str, container: str = "", namespace: str = "") -> str:
        """The log of a container so far."""
        with contextlib.suppress(ClientError):
            return self.client.log(namespace or self.namespace, pod, container)
        return ""

    def logged(self, pod: str, text: str, container: str = "", namespace: str = "") -> str:
        """Wait until the log of a container has a text in it; the log."""

        def probe() -> str | None:
            log = self.log(pod, container, namespace)
            return log if text in log else None

        seen = lambda: self.log(pod, container, namespace) or self.describe(pod, namespace)  # noqa: E731
        return str(eventually(probe, f'"{text}" in the log of {pod}', seen))

    def describe(self, pod: str, namespace: str = "") -> object:
        """Status and events of a Pod, for messages."""
        found = self.find("Pod", pod, namespace) or {}
        events = [f"{event['reason']}: {event.get('message')}" for event in self.events(pod, namespace)]
        return found.get("status"), events

    def state(self, claim: str, namespace: str = "") -> str:
        """STATE of a claim, the cell of the table that kubectl prints."""
        path = resource_path(DRA, "resourceclaims", namespace or self.namespace, claim)
        return str(table(self.client, path)[1][0][1])


@contextlib.contextmanager
def nvidia_driver(cluster: EmbeddedCluster) -> Iterator[DriverProcess]:
    """The driver of seed 004 on the node of seed 004, from when its device is published."""
    node = next(node for node in cluster.nodes if node.name == GPU_NODE)
    subject = descriptors.load(Path(__file__).parent / "nvidia.yaml", catalogue.capabilities())
    process = node.run_driver(subject)
    client = cluster.client()
    selector = {"fieldSelector": f"spec.driver={NVIDIA}"}
    try:
        eventually(
            lambda: client.list(DRA, "resourceslices", **selector),
            f"{NVIDIA} publishes its device",
            lambda: process.tail(5),
        )
        yield process
    finally:
        process.stop()
        process.close()
        # Its slices go with it; a kubelet would wait for half a minute.
        client.request("DELETE", resource_path(DRA, "resourceslices"), query=selector)


def _condition(obj: Mapping[str, Any], kind: str) -> Object | None:
    conditions = (obj.get("status") or {}).get("conditions") or []
    return next((condition for condition in conditions if condition["type"] == kind), None)
