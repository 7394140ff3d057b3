"""Three schedulers of one cluster race for devices, while they and their ledger are killed."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from clusters.client import Client
from clusters.embedded.cluster import EmbeddedCluster
from clusters.interface import ClusterSpec, NodeSpec

PODS = 60
DRA = "/apis/resource.k8s.io/v1"
CLAIMS, PODS_PATH = f"{DRA}/namespaces/default/resourceclaims", "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(ClusterSpec(nodes=(NodeSpec(name="n1"),), schedulers=3)) as running:
        running.wait_ready(60)
        client = running.client()
        client.request("POST", f"{DRA}/deviceclasses", body={"metadata": {"name": "any"}, "spec": {}})
        devices = [{"name": f"dev-{number}"} for number in range(PODS)]
        pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "d.example.com", "allNodes": True, "pool": pool, "devices": devices}
        client.request("POST", f"{DRA}/resourceslices", body={"metadata": {"name": "s"}, "spec": spec})
        yield running


def make(client: Client, name: str) -> None:
    exactly = {"name": "r", "exactly": {"deviceClassName": "any"}}
    claim = {"metadata": {"name": name}, "spec": {"devices": {"requests": [exactly]}}}
    client.request("POST", CLAIMS, body=claim)
    spec = {
        "containers": [{"name": "c", "image": "x", "command": ["sleep", "1000"]}],
        "resourceClaims": [{"name": "d", "resourceClaimName": name}],
        "terminationGracePeriodSeconds": 0,
    }
    client.request("POST", PODS_PATH, body={"metadata": {"name": name}, "spec": spec})


def bound(client: Client) -> int:
    return sum(bool(pod["spec"].get("nodeName")) for pod in client.request("GET", PODS_PATH)["items"])


def given(client: Client) -> Counter[str]:
    return Counter(
        result["device"]
        for claim in client.request("GET", CLAIMS)["items"]
        for result in ((claim.get("status") or {}).get("allocation") or {"devices": {}})["devices"].get(
            "results"
        )
        or []
    )


def wait(what: str, holds: Callable[[], Any], seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


@pytest.mark.timeout(240)
def test_every_device_is_given_away_once_whoever_is_killed(cluster: EmbeddedCluster) -> None:
    chance, client = random.Random(7), cluster.client()
    for number in range(PODS):
        make(client, f"pod-{number}")
        if number % 12 == 11:
            victim = cluster.component(chance.choice(["scheduler", "scheduler-2", "scheduler-3", "ledger"]))
            victim.kill()
            victim.start()
        assert max(given(client).values(), default=1) == 1
    wait("all pods have a node", lambda: bound(client) == PODS)
    assert given(client) == Counter(f"dev-{number}" for number in range(PODS))

    # What is in the API counts for a ledger that begins anew.
    cluster.component("ledger").stop()
    client.request("DELETE", f"{PODS_PATH}/pod-0")
    make(client, "late-0")
    make(client, "late-1")

    def messages() -> str:
        pods = client.request("GET", PODS_PATH)["items"]
        return " ".join(c.get("message", "") for pod in pods for c in pod["status"].get("conditions") or [])

    wait("a pod tells of the ledger", lambda: "ledger.sock cannot be used" in messages())
    cluster.component("ledger").start()
    wait("one of the late pods has the device that became free", lambda: bound(client) == PODS)
    assert given(client) == Counter(f"dev-{number}" for number in range(PODS))
