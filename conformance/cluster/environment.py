"""Benches on one whole cluster: drivers on its nodes, classes for them, and nodes lent to tests that want one alone."""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

from clusters import device_classes
from clusters.client import ClientError, resource_path
from clusters.descriptor import Descriptor
from clusters.existing.settings import USUAL, Settings
from clusters.interface import Cluster, ClusterSpec, NodeSpec, WholeNode
from clusters.process import DriverProcess, StartError
from conformance.cluster.bench import ClusterBench
from conformance.model import InputError, Isolation, Requirement
from conformance.waiting import poll

SHARED_NODES, LENT_NODES = 2, 3
"""Nodes that all tests use together, with the driver under test on each, and nodes that one test has alone."""
_KUBELET = (("syncFrequency", "1s"),)
_START_THREADS = 8


def cluster_spec(
    requirement: Requirement,
    version: str,
    *,
    lent_nodes: int = LENT_NODES,
    gates: Mapping[str, bool] | None = None,
) -> ClusterSpec:
    """The cluster of a Kubernetes minor that a requirement is tested on; equal ones share it.

    `gates` are those of one cluster for all requirements; without them each has what it needs.
    """
    wanted = dict.fromkeys(requirement.gates, True) if gates is None else gates
    return ClusterSpec(
        version=version,
        nodes=tuple(NodeSpec() for _ in range(SHARED_NODES + lent_nodes)),
        gates=tuple(sorted(wanted.items())),
        kubelet=_KUBELET,
    )


class ClusterEnvironment:
    """Benches for tests on one whole cluster. The driver under test is started when the first test asks for it.

    A parallel test has the shared nodes; an exclusive one a node of its own, without a driver until it starts one;
    a disruptive one has both, and no other test runs beside it. Where there are no nodes but the shared ones, the last
    of these is given to the first test that wants one alone, and to nobody else afterwards: such tests come last, one
    at a time. On a cluster of somebody else's all nodes are shared, and the driver runs there already.
    """

    def __init__(
        self,
        cluster: Cluster,
        descriptor: Descriptor,
        *,
        timeout_factor: float = 1.0,
        settings: Settings = USUAL,
        prepare_namespace: Callable[[str], None] = lambda namespace: None,
    ) -> None:
        """How long to wait at most is multiplied by `timeout_factor`; `settings` say how objects are made."""
        self._cluster = cluster
        self._descriptor = descriptor
        self._factor = timeout_factor
        self._settings = settings
        self._prepare_namespace = prepare_namespace
        self._own_nodes = "own_nodes" in cluster.capabilities
        self._processes = "process_drivers" in cluster.capabilities
        nodes = list(cluster.nodes)
        self._shared = nodes[:SHARED_NODES] if self._own_nodes else nodes
        self._turns = itertools.count()
        self._lent: queue.SimpleQueue[WholeNode] = queue.SimpleQueue()
        for node in nodes[len(self._shared) :]:
            self._lent.put(node)
        self._few = self._own_nodes and len(nodes) <= SHARED_NODES
        self._drivers: dict[str, DriverProcess] = {}
        self._lock = threading.Lock()
        self._class = ""
        self._failure: StartError | None = None

    def __enter__(self) -> ClusterEnvironment:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """The cluster ends the drivers with its nodes."""

    def _device_class(self) -> str:
        """A class of the driver's devices; starts the driver on the shared nodes and waits for its slices, once.

        Raises InputError.
        """
        with self._lock:
            if self._failure is not None:
                raise InputError(str(self._failure))
            if self._class:
                return self._class
            client = self._cluster.client("admin")
            if not self._processes:
                self._class = device_classes.ensure(client, self._descriptor, self._settings.shaped)[0]
                return self._class
            try:
                with ThreadPoolExecutor(_START_THREADS) as pool:
                    started = list(pool.map(lambda node: node.run_driver(self._descriptor), self._shared))
            except StartError as error:
                self._failure = error
                raise InputError(str(error)) from None
            self._drivers = {node.name: process for node, process in zip(self._shared, started, strict=True)}
            names = {node.name for node in self._shared}
            query = {"fieldSelector": f"spec.driver={self._descriptor.name}"}

            def published() -> bool:
                slices = client.list(device_classes.API_VERSION, "resourceslices", **query)
                return names <= {item["spec"].get("nodeName") for item in slices}

            poll(
                published,
                self._descriptor.ready_seconds * max(1.0, self._factor),
                f"{self._descriptor.name} publishes slices for {', '.join(sorted(names))}",
            )
            self._class = device_classes.ensure(client, self._descriptor)[0]
            return self._class

    def _stop_sharing(self) -> None:
        """Take the last of the shared nodes out, with the driver under test that runs there."""
        with self._lock:
            self._few = False
            node = self._shared.pop()
            process = self._drivers.pop(node.name, None)
        if process is not None:
            process.stop()
            process.close()
            # Nobody shall be given devices of a node without a driver.
            query = {"fieldSelector": f"spec.driver={self._descriptor.name},spec.nodeName={node.name}"}
            path = resource_path(device_classes.API_VERSION, "resourceslices")
            self._cluster.client("admin").request("DELETE", path, query=query)
        self._lent.put(node)

    @contextlib.contextmanager
    def bench(self, requirement: Requirement) -> Iterator[ClusterBench]:
        """A bench for one test."""
        node: WholeNode | None = None
        if requirement.isolation is not Isolation.PARALLEL and self._few:
            self._stop_sharing()
        # Most tests work with the first of their nodes, which is another in turn.
        turn = next(self._turns) % len(self._shared)
        nodes = [*self._shared[turn:], *self._shared[:turn]]
        if not self._own_nodes:
            nodes = self._nodes_of_others(requirement, nodes)
        elif requirement.isolation is not Isolation.PARALLEL:
            node = self._lent.get()
            nodes = [node] if requirement.isolation is Isolation.EXCLUSIVE else [node, *nodes]
        bench = ClusterBench(
            self._cluster, self._descriptor, self._device_class, nodes, self._factor, self._settings
        )
        try:
            with self._explained():
                bench.begin()
                self._prepare_namespace(bench.namespace)
                yield bench
        finally:
            try:
                bench.end()
            finally:
                if node is not None:
                    self._lent.put(node)

    def _nodes_of_others(self, requirement: Requirement, nodes: list[WholeNode]) -> list[WholeNode]:
        """The nodes for a test where none is the kit's: those with the driver, if that is the subject."""
        if requirement.isolation is Isolation.EXCLUSIVE:
            # Such a test compares its first node with the first of the cluster, which must be another.
            return list(reversed(self._shared))
        if requirement.subject != "driver":
            return nodes
        query = {"fieldSelector": f"spec.driver={self._descriptor.name}"}
        slices = self._cluster.client("admin").list(device_classes.API_VERSION, "resourceslices", **query)
        names = {item["spec"].get("nodeName") for item in slices}
        return [node for node in nodes if node.name in names] or nodes

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """On a cluster of somebody else's a refusal, or an API server that is away, is no fault of the kit."""
        try:
            yield
        except ClientError as error:
            if self._own_nodes or not _of_the_cluster(error):
                raise
            what = (
                "the API server cannot be reached" if error.code == 0 else "the API server refuses a request"
            )
            raise InputError(f"{what}: {error.message}", about="the cluster") from None


def _of_the_cluster(error: ClientError) -> bool:
    """Whether an error comes from rights, policies or the state of a cluster, and not from a request that is wrong."""
    denied = "admission webhook" in error.message or "ValidatingAdmissionPolicy" in error.message
    return error.code in (0, 401, 403, 429) or error.code >= 500 or denied
