"""The bench of tests on a whole cluster: a namespace, names and devices of its own, and everything to wait for."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from clusters import device_classes
from clusters.client import ClientError, resource_path
from clusters.descriptor import Descriptor
from clusters.interface import Cluster, WholeNode
from clusters.observation import Observation, ObservationError
from clusters.process import DriverProcess, StartError
from conformance.cluster import manifests
from conformance.cluster.evidence import collect
from conformance.cluster.kit_driver import Faults, KitDriver
from conformance.cluster.manifests import Object
from conformance.cluster.objects import KINDS, Objects
from conformance.model import Evidence, Failed, InputError, check
from conformance.waiting import poll

START_SECONDS = 30.0
"""How long a Pod may take to run."""
END_SECONDS = 30.0
"""How long claims and Pods may take to go."""
STAYS_SECONDS = 2.0
"""How long a state that must not change is looked at."""
_WORKLOADS = ("DaemonSet", "Deployment", "Job")


class ClusterBench(Objects):
    """What a test on a whole cluster works with; everything made through it goes at its end."""

    def __init__(
        self,
        cluster: Cluster,
        descriptor: Descriptor,
        device_class: Callable[[], str],
        nodes: Sequence[WholeNode],
        factor: float,
    ) -> None:
        """`device_class` starts the driver under test; how long to wait at most is multiplied by `factor`."""
        super().__init__(cluster.client("admin"))
        self.cluster = cluster
        self.descriptor = descriptor
        self._device_class = device_class
        self.nodes = tuple(nodes)
        self._factor = factor
        self._drivers: list[KitDriver] = []
        self._processes: list[tuple[WholeNode, DriverProcess]] = []

    # Life cycle

    def begin(self, labels: Mapping[str, str] | None = None) -> None:
        """Make the namespace, and wait until Pods can be made in it."""
        body = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": self.namespace, "labels": dict(labels or {})},
        }
        self.client.create("v1", "namespaces", body)
        # Without its default service account the API server refuses Pods.
        self.wait_until(
            lambda: self.client.find("v1", "serviceaccounts", "default", self.namespace),
            f"namespace {self.namespace} has a default service account",
        )

    def end(self) -> None:
        """Remove what the test made: Pods first, so that drivers of the kit are there for their clean-up."""
        for driver in self._drivers:
            driver.faults.unprepare = driver.faults.unprepare_rpc = ""
            driver.faults.block_prepare.clear()
            driver.faults.block_unprepare.clear()
        for kind, namespace, name in self._made:
            if kind in _WORKLOADS:
                # In the foreground, so that nothing is made anew by a controller in between.
                body = {"propagationPolicy": "Foreground"}
                with contextlib.suppress(ClientError):
                    self.client.delete(*KINDS[kind], name, namespace, body)
        with contextlib.suppress(Failed, ClientError):
            self.wait_until(self._pods_gone, "every Pod of the test is gone", 10.0)
        with contextlib.suppress(ClientError):
            self.client.delete("v1", "namespaces", self.namespace)
        for kind, namespace, name in reversed(self._made):
            if not namespace:
                with contextlib.suppress(ClientError):
                    self.client.delete(*KINDS[kind], name)
        for driver in self._drivers:
            driver.stop()
        for node, process in self._processes:
            process.stop()
            process.close()
            # Nobody else shall be given devices of a node without a driver.
            selector = f"spec.driver={self.descriptor.name},spec.nodeName={node.name}"
            with contextlib.suppress(ClientError):
                path = resource_path(*KINDS["ResourceSlice"])
                self.client.request("DELETE", path, query={"fieldSelector": selector})

    def _pods_gone(self) -> bool:
        """Delete the Pods that are there; whether there were none."""
        pods = self.client.list("v1", "pods", self.namespace)
        for pod in pods:
            if "deletionTimestamp" not in pod["metadata"]:
                name = pod["metadata"]["name"]
                self.client.delete("v1", "pods", name, self.namespace, body={"gracePeriodSeconds": 1})
        return not pods

    def evidence(self) -> tuple[Evidence, ...]:
        """Objects, events and calls since the test began."""
        return collect(self.client, self.namespace, self.driver_name, self._drivers)

    # The driver under test

    def run_driver(self, node: WholeNode) -> DriverProcess:
        """Start it on a node that this test has alone, and wait for its slices; it ends with the test.

        Raises InputError when it cannot be started, Failed when it publishes nothing.
        """
        try:
            process = node.run_driver(self.descriptor)
        except StartError as error:
            raise InputError(str(error)) from None
        self._processes.append((node, process))
        self.wait_until(
            lambda: self.published(node),
            f"{self.descriptor.name} publishes devices for {node.name}",
            self.descriptor.ready_seconds,
            lambda: process.tail(5) or "it printed nothing",
        )
        return process

    def published(self, node: WholeNode) -> list[Object]:
        """The devices that it publishes for a node."""
        selector = f"spec.driver={self.descriptor.name},spec.nodeName={node.name}"
        slices = self.client.list(*KINDS["ResourceSlice"], fieldSelector=selector)
        return [device for item in slices for device in item["spec"].get("devices") or []]

    def driver_class(self) -> str:
        """A class of its devices, without starting it anywhere."""
        return device_classes.ensure(self.client, self.descriptor)[0]

    # Devices

    @property
    def device_class(self) -> str:
        """A class of all devices of the driver under test, which runs on the shared nodes. Raises InputError.

        Other tests may run it on nodes of their own for a while: a Pod that wants a device names its node.
        """
        return self._device_class()

    @property
    def drivers(self) -> Sequence[KitDriver]:
        """The drivers of the kit in this test, oldest first."""
        return tuple(self._drivers)

    def other_node(self) -> WholeNode:
        """A node that this test does not have for itself, to compare with."""
        return next(node for node in self.cluster.nodes if node is not self.nodes[0])

    def skip_ahead(self, seconds: float) -> None:
        """Let the clock of the cluster run ahead where it can; elsewhere the time has to pass."""
        if "virtual_clock" in self.cluster.capabilities:
            self.cluster.clock.advance(seconds)

    def kit_driver(
        self,
        node: WholeNode | None = None,
        *,
        name: str = "",
        instance: str = "",
        fault: Callable[[Faults], None] = lambda faults: None,
    ) -> KitDriver:
        """A running driver of the kit on a node, by default the first, under the name of the test.

        `fault` sets what it does wrong from the start.
        """
        node = node or self.nodes[0]
        driver = KitDriver(name or self.driver_name, node.name, node.paths, self.client, instance=instance)
        fault(driver.faults)
        self._drivers.append(driver)
        return driver.start()

    def publish(
        self, *devices: Mapping[str, Any] | str, node: WholeNode | None = None, **fields: Any
    ) -> Object:
        """A slice with these devices (objects or names) of the test's driver, by default on the first node.

        `fields` are those of `manifests.resource_slice`; with one that says where the devices are, no node is set.
        """
        entries = [manifests.device(entry) if isinstance(entry, str) else entry for entry in devices]
        number = len([made for made in self._made if made[0] == "ResourceSlice"]) + 1
        if not {"allNodes", "nodeSelector", "perDeviceNodeSelection"} & set(fields):
            fields.setdefault("node", (node or self.nodes[0]).name)
        name = fields.pop("name", "") or self.name(f"slice-{number}")
        driver = fields.pop("driver", "") or self.driver_name
        return self.create(manifests.resource_slice(name, driver, entries, **fields))

    def make_class(
        self, *expressions: str, name: str = "class", configs: Sequence[Mapping[str, Any]] = ()
    ) -> str:
        """A DeviceClass, by default of all devices of the test's driver; its name."""
        wanted = list(expressions) or [f'device.driver == "{self.driver_name}"']
        stored = self.create(manifests.device_class(self.name(name), wanted, configs))
        return str(stored["metadata"]["name"])

    def kit_class(self, *devices: Mapping[str, Any] | str) -> tuple[KitDriver, str]:
        """Driver, slice and class at once: what a test of the kubelet needs, on the first node."""
        driver = self.kit_driver()
        self.publish(*(devices or ("dev-0", "dev-1")))
        return driver, self.make_class()

    # Waiting

    def wait_until(
        self,
        probe: Callable[[], Any],
        expected: str,
        timeout: float = START_SECONDS,
        seen: Callable[[], object] = lambda: "it did not happen",
    ) -> Any:
        """The first truthy answer. Raises Failed with what was expected and seen."""
        return poll(probe, timeout * self._factor, expected, seen)

    def wait_phase(self, name: str, *phases: str, timeout: float = START_SECONDS) -> Object:
        """Wait until a Pod is in one of the phases; the Pod."""

        def probe() -> Object | None:
            found = self.find("Pod", name)
            return found if found is not None and _phase(found) in phases else None

        expected = f"Pod {name} is {' or '.join(phases)}"
        found: Object = self.wait_until(probe, expected, timeout, lambda: self.describe_pod(name))
        return found

    def wait_running(self, *names: str, timeout: float = START_SECONDS) -> None:
        """Wait until Pods run."""
        for name in names:
            self.wait_phase(name, "Running", timeout=timeout)

    def wait_gone(self, kind: str, name: str, timeout: float = END_SECONDS) -> None:
        """Wait until an object is gone."""
        self.wait_until(
            lambda: self.find(kind, name) is None,
            f"{kind} {name} is gone",
            timeout,
            lambda: self._why_there(kind, name),
        )

    def _why_there(self, kind: str, name: str) -> str:
        """What is known about an object that should be gone."""
        metadata = (self.find(kind, name) or {}).get("metadata", {})
        since, finalizers = metadata.get("deletionTimestamp"), ", ".join(metadata.get("finalizers") or [])
        parts = [f"deleted at {since}" if since else "not deleted"]
        if finalizers:
            parts.append(f"held by the finalizers {finalizers}")
        if kind == "Pod":
            parts.append(self.describe_pod(name))
        return f"{kind} {name} is there: " + "; ".join(parts)

    def wait_scheduled(self, name: str, timeout: float = START_SECONDS) -> str:
        """Wait until a Pod has a node; the node's name."""

        def probe() -> str | None:
            found = self.find("Pod", name)
            return found["spec"].get("nodeName") if found else None

        expected = f"Pod {name} is scheduled"
        return str(self.wait_until(probe, expected, timeout, lambda: self.describe_pod(name)))

    def wait_unschedulable(self, name: str, text: str = "", timeout: float = START_SECONDS) -> str:
        """Wait until the scheduler has said that a Pod does not fit, with `text` in its message; the message."""

        def message() -> str:
            found = self.find("Pod", name) or {}
            for entry in (found.get("status") or {}).get("conditions") or []:
                if entry["type"] == "PodScheduled" and entry["status"] == "False":
                    return str(entry.get("message", ""))
            return ""

        expected = f"Pod {name} cannot be scheduled" + (f': "{text}"' if text else "")
        self.wait_until(
            lambda: message() and text in message(), expected, timeout, lambda: self.describe_pod(name)
        )
        return message()

    def wait_event(
        self, reason: str, text: str = "", name: str = "", timeout: float = START_SECONDS
    ) -> Object:
        """Wait for an event in the namespace of the test, with this reason and text, about `name` or anything."""

        def probe() -> Object | None:
            return next(
                (
                    event
                    for event in self.events(name)
                    if event.get("reason") == reason and text in event.get("message", "")
                ),
                None,
            )

        expected = f"an event {reason}" + (f' with "{text}"' if text else "")
        found: Object = self.wait_until(
            probe,
            expected,
            timeout,
            lambda: [f"{event['reason']}: {event['message']}" for event in self.events(name)],
        )
        return found

    def stays(self, probe: Callable[[], bool], expected: str, seconds: float = STAYS_SECONDS) -> None:
        """Look at something that must hold all the time. Raises Failed as soon as it does not."""
        # Impatience must not let a late change pass, and patience does not see more.
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            check(probe(), expected, "it changed")
            time.sleep(0.05)

    # What was seen

    def generated_claim(self, pod: str, claim: str, timeout: float = START_SECONDS) -> str:
        """Wait until a Pod's claim from a template exists; its name."""

        def probe() -> str | None:
            found = self.find("Pod", pod) or {}
            for entry in (found.get("status") or {}).get("resourceClaimStatuses") or []:
                if entry["name"] == claim and entry.get("resourceClaimName"):
                    return str(entry["resourceClaimName"])
            return None

        return str(self.wait_until(probe, f"Pod {pod} has a claim made for {claim}", timeout))

    def observe(self, pod: str, container: str = "main", timeout: float = 10.0) -> Observation:
        """What a container that runs `probe` sees; waits for its log."""
        node = self.node_of(pod)
        problem = ""

        def probe() -> Observation | None:
            nonlocal problem
            try:
                return node.observe(self.namespace, pod, container)
            except (ObservationError, ClientError) as error:
                problem = str(error)
                return None

        found: Observation = self.wait_until(
            probe, f"container {container} of Pod {pod} tells what it sees", timeout, lambda: problem
        )
        return found

    def node_of(self, pod: str) -> WholeNode:
        """The node that a Pod is on."""
        name = self.get("Pod", pod)["spec"].get("nodeName")
        return next(node for node in self.cluster.nodes if node.name == name)

    def describe_pod(self, name: str) -> str:
        """Phase, conditions and waiting reasons of a Pod, for messages."""
        found = self.find("Pod", name)
        if found is None:
            return f"Pod {name} does not exist"
        status = found.get("status") or {}
        parts = [f"phase {_phase(found)}", f"on {found['spec'].get('nodeName') or 'no node'}"]
        for entry in status.get("conditions") or []:
            if entry["status"] != "True" and entry.get("message"):
                parts.append(f"{entry['type']}: {entry['message']}")
        for entry in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
            for state, detail in (entry.get("state") or {}).items():
                parts.append(
                    f"{entry['name']} {state} {detail.get('reason', '')} {detail.get('message', '')}".rstrip()
                )
        warnings = [event["message"] for event in self.events(name) if event.get("type") == "Warning"]
        return "; ".join([*parts, *warnings[-2:]])


def _phase(pod: Mapping[str, Any]) -> str:
    return str((pod.get("status") or {}).get("phase", ""))
