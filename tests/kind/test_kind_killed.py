"""What is left of a run that was killed: nothing, after the next `drakit down`."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from kind_kit import SECONDS, Drakit

from clusters.kind import failpoints
from clusters.kind.engine import Engine

pytestmark = [pytest.mark.kind, pytest.mark.timeout(600)]

BY_UP = ("engine-started", "network-created", "kind-create-running", "kubeconfig-written")
"""Points that are reached with a keeper, which is another process; the others with a run."""


@pytest.fixture
def alone(engine: Engine, tmp_path: Path) -> Iterator[Drakit]:
    with tempfile.TemporaryDirectory(prefix="dt-", dir="/tmp") as temporary:
        yield Drakit(tmp_path, Path(temporary), engine)


@pytest.mark.parametrize("point", list(failpoints.POINTS))
def test_nothing_is_left_after_a_run_that_is_killed(alone: Drakit, point: str) -> None:
    variable = {failpoints.VARIABLE: point}
    if point in BY_UP:
        process = alone.start("up", "--tier", "kind", "--nodes", "1", "--no-driver", **variable)
        _, err = process.communicate(timeout=SECONDS)
        assert process.returncode == 3, err
        assert "ended with signal SIGKILL" in err
    else:
        words = ("conformance", "driver/reference.yaml", "--tier", "kind", "--focus", "ALC-CDI-01", "--json")
        process = alone.start(*words, **variable)
        _, err = process.communicate(timeout=SECONDS)
        assert process.returncode == -signal.SIGKILL, err
    clusters = alone.clusters()
    assert len(clusters) == (point != "engine-started")
    _, err = alone.start("down").communicate(timeout=SECONDS)
    assert "Traceback" not in err
    alone.check_clean(clusters)


def test_nothing_is_left_of_a_cluster_whose_keeper_is_killed(alone: Drakit) -> None:
    alone.run("up", "--tier", "kind", "--nodes", "1", "--gpus", "1")
    lock = json.loads((alone.state / "drakit" / "clusters" / "drakit" / "lock").read_text())
    os.kill(lock["pid"], signal.SIGKILL)
    clusters = alone.clusters()
    alone.run("down")
    alone.check_clean(clusters)
