"""The clock of a whole cluster is advanced while news are on their way."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from clusters.embedded.cluster import EmbeddedCluster
from clusters.interface import ClusterSpec, NodeSpec

pytestmark = pytest.mark.process


def until(look: Callable[[], Any], what: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.02)


def test_an_advance_right_after_a_deletion_counts_for_the_grace_period() -> None:
    names = [f"p{number}" for number in range(8)]
    spec = {"containers": [{"name": "c", "image": "i:1", "command": ["sleep", "1000"]}]}
    with EmbeddedCluster(ClusterSpec(nodes=(NodeSpec(),))) as cluster:
        cluster.wait_ready()
        client = cluster.client()
        until(lambda: client.find("v1", "serviceaccounts", "default", "default"), "service account", 10)
        for name in names:
            client.create("v1", "pods", {"metadata": {"name": name}, "spec": spec}, "default")

        def running() -> bool:
            found = client.list("v1", "pods", "default")
            return all((pod.get("status") or {}).get("phase") == "Running" for pod in found)

        until(running, "all Pods run", 20)
        for name in names:
            # The kubelet hears of it some milliseconds later than this thread.
            client.delete("v1", "pods", name, "default")
        cluster.clock.advance(40)
        # The shortest time that a kubelet gives is 2 s; what would be left without the advance is 30 s.
        until(lambda: not client.list("v1", "pods", "default"), "the Pods are gone", 20)
