"""Pods a second of a whole embedded cluster: `python -m benchmarks.pods [--nodes 20] [--gpus 40]`.

As many Pods as there are devices, each with a claim for one device made from a template, on fresh drivers. It checks
that every device was allocated exactly once and prints one line of JSON: seconds from the first create until the
last Pod runs and until all are gone again, Pods a second, and peak memory of this process and of all drivers in MiB.
"""

from __future__ import annotations

import argparse
import json
import resource
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import driver
from clusters import descriptor as descriptors
from clusters import device_classes
from clusters.client import Client
from clusters.embedded.cluster import EmbeddedCluster
from clusters.interface import ClusterSpec, NodeSpec
from conformance import catalogue

_API = "resource.k8s.io/v1"
_DEADLINE = 600.0
_POLL = 0.1


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--gpus", type=int, default=40)
    arguments = parser.parse_args()
    subject = descriptors.load(Path(driver.__file__).parent / "reference.yaml", catalogue.capabilities())
    nodes = tuple(NodeSpec(machine=f"gpus-{arguments.gpus}") for _ in range(arguments.nodes))
    wanted = arguments.nodes * arguments.gpus
    began = time.monotonic()
    with EmbeddedCluster(ClusterSpec(nodes=nodes)) as cluster:
        cluster.wait_ready(120)
        client = cluster.client()
        ready = time.monotonic() - began
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda node: node.run_driver(subject), cluster.nodes))
        name = device_classes.ensure(client, subject)[0]
        _wait(lambda: _devices(client) == wanted, f"{wanted} devices are published")
        published = time.monotonic() - began
        client.create(_API, "resourceclaimtemplates", _template(name), "default")
        runs = _Running(client)
        start = time.monotonic()
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda index: client.create("v1", "pods", _pod(index), "default"), range(wanted)))
        created = time.monotonic() - start
        _wait(lambda: len(runs) == wanted, f"{wanted} Pods run")
        running = time.monotonic() - start
        results = [
            (result["driver"], result["pool"], result["device"])
            for claim in client.list(_API, "resourceclaims", "default")
            for result in claim["status"]["allocation"]["devices"]["results"]
        ]
        assert len(results) == len(set(results)) == wanted, "a device was allocated twice or not at all"
        start = time.monotonic()
        client.request("DELETE", "/api/v1/namespaces/default/pods", query={"gracePeriodSeconds": "0"})
        _wait(lambda: not client.list(_API, "resourceclaims", "default", limit=1), "every claim is gone")
        gone = time.monotonic() - start
    print(
        json.dumps(
            {
                "pods": wanted,
                "nodes": arguments.nodes,
                "readySeconds": round(ready, 1),
                "publishedSeconds": round(published, 1),
                "createSeconds": round(created, 1),
                "runningSeconds": round(running, 1),
                "podsPerSecond": round(wanted / running, 1),
                "goneSeconds": round(gone, 1),
                "memoryMiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
                "driverMemoryMiB": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024,
            }
        )
    )


def _wait(condition: Any, what: str) -> None:
    deadline = time.monotonic() + _DEADLINE
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {_DEADLINE:g} s: {what}")
        time.sleep(_POLL)


def _devices(client: Client) -> int:
    return sum(len(item["spec"].get("devices") or []) for item in client.list(_API, "resourceslices"))


class _Running:
    """Counts Pods that run, from a watch: lists of 800 Pods would cost the cluster more than they tell."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._names: set[str] = set()
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        query = {"fieldSelector": "status.phase=Running"}
        for event in self._client.watch("v1", "pods", "default", timeout=_DEADLINE, **query):
            if event["type"] == "ADDED":
                self._names.add(event["object"]["metadata"]["name"])

    def __len__(self) -> int:
        return len(self._names)


def _template(device_class: str) -> dict[str, Any]:
    requests = [{"name": "device", "exactly": {"deviceClassName": device_class}}]
    return {
        "apiVersion": _API,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one"},
        "spec": {"spec": {"devices": {"requests": requests}}},
    }


def _pod(index: int) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "pause",
        "resources": {"claims": [{"name": "device"}]},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{index}"},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "resourceClaims": [{"name": "device", "resourceClaimTemplateName": "one"}],
            "containers": [container],
        },
    }


if __name__ == "__main__":
    main()
