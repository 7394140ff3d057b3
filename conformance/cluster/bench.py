"""The bench of tests on a whole cluster: a namespace, nodes, the driver under test, devices of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from clusters import device_classes, gates
from clusters.client import ClientError, resource_path
from clusters.descriptor import Descriptor
from clusters.existing.settings import USUAL, Settings
from clusters.interface import Cluster, WholeNode
from clusters.observation import Observation, ObservationError
from clusters.process import DriverProcess, StartError
from conformance.cluster import manifests
from conformance.cluster.evidence import collect
from conformance.cluster.kit_driver import Faults, KitDriver
from conformance.cluster.manifests import Object
from conformance.cluster.objects import KINDS
from conformance.cluster.waits import Waits
from conformance.model import Evidence, Failed, InputError, NotTestable

_WORKLOADS = ("DaemonSet", "Deployment", "Job")


class ClusterBench(Waits):
    """What a test on a whole cluster works with; everything made through it goes at its end."""

    def __init__(
        self,
        cluster: Cluster,
        descriptor: Descriptor,
        device_class: Callable[[], str],
        nodes: Sequence[WholeNode],
        factor: float,
        settings: Settings = USUAL,
    ) -> None:
        """`device_class` starts the driver under test; how long to wait at most is multiplied by `factor`."""
        super().__init__(cluster.client("admin"), settings, factor)
        self.cluster = cluster
        self.descriptor = descriptor
        self._device_class = device_class
        self.nodes = tuple(nodes)
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
        self.client.create("v1", "namespaces", self.settings.shaped(body))
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
        return device_classes.ensure(self.client, self.descriptor, self.settings.shaped)[0]

    def free_devices(self, node: WholeNode) -> int:
        """How many of its devices on a node no claim of the cluster holds."""
        held = {
            (result["pool"], result["device"])
            for claim in self.client.list(*KINDS["ResourceClaim"])
            for result in _results(claim)
            if result["driver"] == self.descriptor.name and not result.get("adminAccess")
        }
        selector = f"spec.driver={self.descriptor.name},spec.nodeName={node.name}"
        slices = self.client.list(*KINDS["ResourceSlice"], fieldSelector=selector)
        there = {
            (item["spec"]["pool"]["name"], device["name"])
            for item in slices
            for device in item["spec"].get("devices") or []
        }
        return len(there - held)

    def node_with_free(self, count: int) -> WholeNode:
        """A node of the test with so many free devices; on a cluster that others use this may take a while.

        Raises NotTestable when there is none.
        """
        if self.runs_processes or "whole-devices" not in self.descriptor.capabilities:
            return self.nodes[0]

        def free() -> WholeNode | None:
            return next((node for node in self.nodes if self.free_devices(node) >= count), None)

        try:
            found: WholeNode = self.wait_until(free, "free devices")
        except Failed:
            name = self.descriptor.name
            raise NotTestable(f"no node has {count} free devices of {name}: others use them") from None
        return found

    # Devices

    def gate(self, name: str) -> bool | None:
        """Whether a feature gate is on; None when that cannot be known."""
        given = dict(self.cluster.spec.gates)
        if "own_nodes" not in self.cluster.capabilities:
            return given.get(name)
        return gates.effective(given, self.cluster.spec.version).get(name)

    @property
    def runs_processes(self) -> bool:
        """Whether drivers, the kit's own among them, can be started on the nodes."""
        return "process_drivers" in self.cluster.capabilities

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

    def working_class(self) -> str:
        """A class of devices that are prepared on nodes, at least one of them free: the kit's, where it can run.

        Raises InputError, NotTestable.
        """
        if self.runs_processes:
            return self.kit_class("dev-0")[1]
        self.node_with_free(1)
        return self.device_class

    def attend(self, node: WholeNode) -> None:
        """Run a driver for the test's devices where the cluster lets us: kubelets try again and again without one."""
        if self.runs_processes:
            self.kit_driver(node)

    # What was seen

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
        found = next((node for node in self.cluster.nodes if node.name == name), None)
        if found is None:
            raise NotTestable(f"Pod {pod} is on {name or 'no node'}, where none was to be")
        return found


def _results(claim: Object) -> Sequence[Object]:
    """The devices that are allocated to a claim."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    found: Sequence[Object] = (allocation.get("devices") or {}).get("results") or []
    return found
