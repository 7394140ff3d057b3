"""Schedulers that are killed at any moment, and 800 pods for 800 devices."""

from __future__ import annotations

import random
import threading
from collections import Counter

import pytest
from scheduler_harness import CLAIMS, NAMESPACE, Bench, bench


def fill(b: Bench, nodes: int, devices: int) -> int:
    """As many pods with a claim each as there are devices; returns the number."""
    b.device_class(expression='device.driver == "gpu.example.com"')
    for number in range(nodes):
        b.node(f"n{number}", cpu="64", pods="200")
        b.slice(f"n{number}", *(f"gpu-{index}" for index in range(devices)))
    for number in range(nodes * devices):
        b.claim(f"c{number}")
        b.pod(f"p{number}", f"c{number}")
    return nodes * devices


def bound(b: Bench) -> int:
    """How many pods have a node."""
    items = b.get(f"{NAMESPACE}/pods")["items"]
    return sum(bool(item["spec"].get("nodeName")) for item in items)


def check(b: Bench) -> None:
    """Every claim holds a device of its own, on the node of its pod, and is reserved for that pod."""
    nodes = {
        item["metadata"]["name"]: item["spec"]["nodeName"] for item in b.get(f"{NAMESPACE}/pods")["items"]
    }
    devices: Counter[tuple[str, str]] = Counter()
    for claim in b.get(CLAIMS)["items"]:
        results = claim["status"]["allocation"]["devices"]["results"]
        devices.update((result["pool"], result["device"]) for result in results)
        consumers = [entry["name"] for entry in claim["status"]["reservedFor"]]
        assert consumers == ["p" + claim["metadata"]["name"].removeprefix("c")]
        assert {result["pool"] for result in results} == {nodes[consumers[0]]}
    assert len(devices) == len(nodes)
    assert set(devices.values()) == {1}


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_at_random_it_doubles_no_device_and_forgets_no_pod(seed: int) -> None:
    moments = random.Random(seed)
    with bench(start=False) as b:
        total = fill(b, nodes=4, devices=15)
        b.add_scheduler()
        lives = 1
        while bound(b) < total and lives < 40:
            threading.Event().wait(moments.uniform(0.0, 0.3))
            b.host.kill("scheduler")
            b.host.start("scheduler")
            lives += 1
        b.until(lambda: bound(b) == total, lambda: f"{bound(b)} of {total} are bound", 30)
        check(b)


def test_int_29_every_device_is_used_exactly_once() -> None:
    with bench(start=False) as b:
        total = fill(b, nodes=8, devices=25)
        b.add_scheduler()
        b.until(lambda: bound(b) == total, lambda: f"{bound(b)} of {total} are bound", 60)
        check(b)
