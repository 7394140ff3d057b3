"""What is left of a run that was killed: nothing, after the next `drakit down`."""

from __future__ import annotations

import json
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kind_kit import SECONDS, Drakit, log_of, until, wait_phase

from clusters.existing import kubeconfig
from clusters.kind import failpoints
from clusters.kind.engine import Engine
from clusters.observation import parse_observation

pytestmark = [pytest.mark.kind, pytest.mark.timeout(1200)]

UP = ("up", "--tier", "kind", "--nodes", "1", "--gpus", "1")
BY_RUN = ("record-written", "config-written", "suites-running")
"""Points at which a run of suites is killed; at the others it is the keeper of a cluster."""
AT_THE_END = ("deleting", "deleted")


@pytest.fixture
def alone(engine: Engine, tmp_path: Path) -> Iterator[Drakit]:
    with tempfile.TemporaryDirectory(prefix="", dir="/tmp") as temporary:
        yield Drakit(tmp_path, Path(temporary), engine)


@pytest.mark.parametrize("point", [point for point in failpoints.POINTS if point not in AT_THE_END])
def test_nothing_is_left_after_a_run_that_is_killed(alone: Drakit, point: str) -> None:
    variable = {failpoints.VARIABLE: point}
    if point in BY_RUN:
        words = ("conformance", "driver/reference.yaml", "--tier", "kind", "--focus", "DRV-REG-01", "--json")
        process = alone.start(*words, **variable)
        _, err = process.communicate(timeout=SECONDS)
        assert process.returncode == -signal.SIGKILL, err
    else:
        process = alone.start(*UP, **variable)
        _, err = process.communicate(timeout=SECONDS)
        assert process.returncode == 3, err
        assert "ended with signal SIGKILL" in err
    clusters = alone.clusters()
    assert len(clusters) == (point != "engine-started")
    _, err = alone.start("down").communicate(timeout=SECONDS)
    assert "Traceback" not in err
    alone.check_clean(clusters)


def run_example(record: dict[str, Any]) -> None:
    """What `drakit up` proposes to do first: the Pod of its example runs, and has a device."""
    api = kubeconfig.load(Path(record["kubeconfig"])).client()
    template, pod = yaml.safe_load_all(Path(record["example"]).read_text())
    api.create("resource.k8s.io/v1", "resourceclaimtemplates", template, "default")
    api.create("v1", "pods", pod, "default")
    wait_phase(api, "example", "Running")
    assert parse_observation(log_of(api, "example")).devices
    api.close()


def test_nothing_is_left_when_keeper_and_clean_up_are_killed_at_the_end(alone: Drakit) -> None:
    deleting, deleted = AT_THE_END
    alone.run(*UP, DRAKIT_CLUSTER_FAILPOINT=deleting)
    clusters = alone.clusters()
    [record] = json.loads(alone.run("status", "--json"))
    run_example(record)
    # The keeper kills itself when it is told to end, and this command as soon as it has done its work.
    process = alone.start("down", **{failpoints.VARIABLE: deleted})
    _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == -signal.SIGKILL, err
    assert alone.clusters() == clusters
    assert alone.left(clusters) == set()
    alone.run("down")
    alone.check_clean(clusters)


@pytest.mark.parametrize("words", [("up", "--nodes", "1"), ("conformance", "driver/reference.yaml")])
def test_nothing_is_left_of_a_start_that_is_interrupted(alone: Drakit, words: tuple[str, ...]) -> None:
    process = alone.start(*words, "--tier", "kind")
    until(lambda: any("control-plane" in name for name in alone.left(alone.clusters())), "a node is there")
    clusters = alone.clusters()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=SECONDS)
    assert process.returncode != 0
    assert "Traceback" not in err
    # Without any `drakit down`.
    alone.check_clean(clusters)
