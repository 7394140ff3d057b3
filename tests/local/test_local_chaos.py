"""Pods with claims on real Kubernetes live and end while kubelets and drivers die at arbitrary moments.

What must never be seen is the same as on the embedded cluster (tests/clusters/test_cluster_chaos.py). DRAKIT_SEED
repeats a run (as far as threads allow), DRAKIT_CHAOS_PODS sets the number of Pods.
"""

from __future__ import annotations

import contextlib
import random
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[1] / "clusters"))

import test_cluster_chaos as chaos
from chaos_model import judge

import driver
from clusters import binaries, device_classes
from clusters import descriptor as descriptors
from clusters.client import ClientError
from clusters.embedded.kubelet.dra import checkpoint
from clusters.interface import ClusterSpec, NodeSpec
from clusters.local.cluster import COMPONENTS, LocalCluster
from clusters.local.kubelet import FOLDER
from clusters.process import DriverProcess
from conformance import catalogue
from driver.inspect_state import document
from fake_hw import journal

pytestmark = [pytest.mark.go, pytest.mark.timeout(1800)]

STATE = "dra_manager_state"
RECOVERY = 60.0
# A real kubelet needs seconds to start, and must live long enough to run a Pod.
chaos.STANDSTILL = 20.0


@contextmanager
def whole_cluster() -> Iterator[tuple[LocalCluster, dict[str, DriverProcess], str]]:
    """A cluster with a reference driver on every node: 12 devices in all."""
    subject = descriptors.load(Path(driver.__file__).parent / "reference.yaml", catalogue.capabilities())
    nodes = tuple(NodeSpec(name=f"n{number}") for number in range(chaos.NODES))
    spec = ClusterSpec(nodes=nodes, kubelet=(("syncFrequency", "1s"),))
    with LocalCluster(spec, binaries.find("1.37", COMPONENTS)) as cluster:
        cluster.wait_ready(240.0)
        with ThreadPoolExecutor(chaos.NODES) as pool:
            started = list(pool.map(lambda node: node.run_driver(subject), cluster.nodes))
        drivers = {node.name: process for node, process in zip(cluster.nodes, started, strict=True)}
        device_class = device_classes.ensure(cluster.client(), subject)[0]
        slices = lambda: cluster.client().list(chaos.DRA, "resourceslices")  # noqa: E731
        chaos.until(lambda: [] if len(slices()) == chaos.NODES else ["slices"])
        yield cluster, drivers, device_class


class Death(chaos.Death):
    """Kills kubelets and drivers with SIGKILL."""

    def _victims(self, cluster: Any, drivers: dict[str, DriverProcess]) -> chaos.Victims:
        self._client = cluster.client()
        return chaos.node_victims(cluster, drivers)

    def _recover(self) -> None:
        # A kubelet that starts removes the slices of its node, and takes seconds to start: without a pause there would
        # be no devices at all.
        deadline = time.monotonic() + RECOVERY
        while not self._over.wait(0.2) and time.monotonic() < deadline:
            with contextlib.suppress(ClientError):
                if len(self._client.list(chaos.DRA, "resourceslices")) == chaos.NODES:
                    return


def left_on_node(node: Any, driver_name: str, alive: set[str]) -> list[str]:
    """What is prepared, written or running for a claim, or for a Pod whose UID is not in `alive`."""
    kubelet = node.paths.root / FOLDER
    found = [f"kubelet: {entry}" for entry in checkpoint.decode((kubelet / STATE).read_bytes())]
    held = document(node.paths.plugins / driver_name)
    found += [f"driver: {claim}" for claim in held["claims"].values()] + held["damage"].splitlines()
    found += [f"CDI: {file.name}" for file in node.paths.cdi.iterdir()]
    found += [
        f"volumes: {folder.name}" for folder in (kubelet / "pods").iterdir() if folder.name not in alive
    ]
    users: dict[str, set[str]] = {}
    for event in journal.read(node.paths.hardware):
        claims = users.setdefault(event.bdf, set())
        (claims.add if event.kind == "configure" else claims.discard)(event.claim)
    found += [f"hardware: {bdf} for {claims}" for bdf, claims in users.items() if claims]
    return [f"{node.name}: {text}" for text in found]


def test_whatever_dies_no_device_is_doubled_and_nothing_is_left(fresh_seed: int) -> None:
    dice = random.Random(fresh_seed)
    with whole_cluster() as (cluster, drivers, device_class), chaos.logs_of_failure(cluster, drivers):
        client = cluster.client()
        recorder = chaos.Recorder(client)
        recorder.start()
        users = chaos.Users(client, recorder, device_class)
        users.create_templates()
        death = Death(cluster, drivers, recorder, random.Random(dice.random()))
        try:
            death.start()
            with ThreadPoolExecutor(chaos.AT_ONCE) as pool:
                for life in [pool.submit(life) for life in users.lives(chaos.PODS, dice)]:
                    life.result()
        finally:
            death.stop()
            print(f"{len(death.deaths)} deaths: {', '.join(death.deaths)}")  # noqa: T201
        chaos.until(lambda: chaos.left_in_api(client))

        def on_nodes() -> list[str]:
            alive = {pod["metadata"]["uid"] for pod in client.list("v1", "pods")}
            return [text for node in cluster.nodes for text in left_on_node(node, device_class, alive)]

        # A kubelet looks once a minute for claims of Pods that went while it was away.
        chaos.until(on_nodes)
        recorder.stop()
        model = judge(recorder.history)
        assert model.problems == []
        assert model.holders == {}
        assert users.must_run <= model.ran
        for node in cluster.nodes:
            assert journal.overlaps(journal.read(node.paths.hardware)) == []
