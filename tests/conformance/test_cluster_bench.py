"""Waiting for Pods and claims whose status is not there yet."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clusters import descriptor as descriptors
from conformance import catalogue
from conformance.cluster.bench import ClusterBench
from conformance.model import Failed

REFERENCE = Path(__file__).parents[2] / "driver" / "reference.yaml"
UNFINISHED: list[Mapping[str, Any]] = [
    {},
    {"status": None},
    {"status": {}},
    {"status": {"conditions": None}},
    {"status": {"conditions": []}},
    {"status": {"phase": "Pending", "resourceClaimStatuses": None, "reservedFor": None, "allocation": None}},
]


class Server:
    """Answers every read with the next of some objects, and then with the last again."""

    def __init__(self, *states: Mapping[str, Any]) -> None:
        self.states: Iterator[Mapping[str, Any]] = iter(states)
        self.last: Mapping[str, Any] = {}

    def find(self, *reference: Any) -> dict[str, Any]:
        self.last = next(self.states, self.last)
        return {"metadata": {"name": "pod"}, "spec": {}, **self.last}

    get = find

    def list(self, *arguments: Any, **query: Any) -> list[dict[str, Any]]:
        return []


def bench(*states: Mapping[str, Any]) -> ClusterBench:
    server = Server(*states)
    cluster: Any = SimpleNamespace(client=lambda identity: server, nodes=())
    subject = descriptors.load(REFERENCE, catalogue.capabilities())
    return ClusterBench(cluster, subject, lambda: "class", (), 1.0)


WAITS = {
    "phase": lambda found, seconds: found.wait_phase("pod", "Running", timeout=seconds),
    "unschedulable": lambda found, seconds: found.wait_unschedulable("pod", timeout=seconds),
    "scheduled": lambda found, seconds: found.wait_scheduled("pod", timeout=seconds),
    "generated claim": lambda found, seconds: found.generated_claim("pod", "device", timeout=seconds),
}
FINISHED: dict[str, Mapping[str, Any]] = {
    "phase": {"status": {"phase": "Running"}},
    "unschedulable": {
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "message": "no device"}]}
    },
    "scheduled": {"spec": {"nodeName": "node-1"}},
    "generated claim": {"status": {"resourceClaimStatuses": [{"name": "device", "resourceClaimName": "c"}]}},
}


@pytest.mark.parametrize("wait", WAITS)
@pytest.mark.parametrize("state", UNFINISHED)
def test_what_is_absent_from_a_status_is_waited_for_until_the_deadline(
    wait: str, state: Mapping[str, Any]
) -> None:
    began = time.monotonic()
    with pytest.raises(Failed) as failure:
        WAITS[wait](bench(state), 0.1)
    assert 0.1 <= time.monotonic() - began < 5.0
    assert "within 0.1 s" in failure.value.expected


@pytest.mark.parametrize("wait", WAITS)
def test_a_status_that_comes_step_by_step_ends_the_wait(wait: str) -> None:
    assert WAITS[wait](bench(*UNFINISHED, FINISHED[wait]), 5.0)


@pytest.mark.parametrize("state", UNFINISHED)
def test_a_claim_without_status_has_no_allocation_and_no_devices(state: Mapping[str, Any]) -> None:
    assert bench(state).allocation("claim") is None
    assert bench(state).devices_of("claim") == []


def test_names_of_a_run_are_those_of_no_other_run() -> None:
    code = "import conformance.cluster.objects as objects; print(objects._RUN)"
    runs = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout for _ in range(2)
    }
    assert len(runs) == 2
    first, second = bench(), bench()
    assert len({first.namespace, second.namespace}) == 2
    assert first.driver_name == f"{first.namespace}.kit.drakit.dev"
    assert first.name("class") == f"{first.namespace}-class"
