"""The embedded and the real kubelet with the same driver in the same scenarios: the same calls, statuses and events.

DRAKIT_SCENARIOS chooses some by name, with commas between.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent / "kubelet_differential"))

from kd_allowed import unexplained
from kd_history import differences
from kd_run import SPEC, play
from kd_scenarios import PARALLEL, RESTARTS

from clusters import binaries
from clusters.embedded.cluster import EmbeddedCluster
from clusters.interface import Cluster
from clusters.local.cluster import COMPONENTS, LocalCluster

pytestmark = [pytest.mark.go, pytest.mark.timeout(1800)]

CHOSEN = [name for name in os.environ.get("DRAKIT_SCENARIOS", "").split(",") if name]
NAMES = [name for name in (*PARALLEL, *RESTARTS) if not CHOSEN or name in CHOSEN]
Records = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def records() -> tuple[Records, Records]:
    """What the real kubelet did in each scenario, and what the embedded one did."""

    def local() -> Records:
        with LocalCluster(SPEC, binaries.find("1.37", COMPONENTS)) as cluster:
            return ready(cluster)

    def embedded() -> Records:
        with EmbeddedCluster(SPEC) as cluster:
            return ready(cluster)

    def ready(cluster: LocalCluster | EmbeddedCluster) -> Records:
        cluster.wait_ready(180.0)
        found: Cluster = cluster
        return play(found, CHOSEN)

    with ThreadPoolExecutor(2) as pool:
        real, ours = pool.submit(local), pool.submit(embedded)
        return real.result(), ours.result()


@pytest.mark.parametrize("name", NAMES)
def test_both_kubelets_do_the_same(records: tuple[Records, Records], name: str) -> None:
    real, embedded = (each[name] for each in records)
    assert real["error"] == "", f"the real one: {real['error']}"
    assert embedded["error"] == "", f"the embedded one: {embedded['error']}"
    found = unexplained(differences(real, embedded))
    assert not found, "\n".join(found)
