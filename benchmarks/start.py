"""From nothing to Running: `python -m benchmarks.start [--tier local] [--nodes 1,2,5] [--pods 20]`.

For each number of nodes one line of JSON: seconds until the API server serves and until all nodes are Ready, median and
longest time from the creation of a Pod with a claim until it is Running, one Pod after another (a watch sees it), and
resident memory of each process in MiB with those Pods. On the embedded tier all components are this process.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

import driver
from clusters import descriptor as descriptors
from clusters import device_classes
from clusters.client import Client
from clusters.interface import ClusterSpec, NodeSpec
from conformance import catalogue
from drakit import tiers
from drakit.drivers import Drivers
from drakit.tiers import RunningCluster, Tier

_API = "resource.k8s.io/v1"
_DEADLINE = 120.0


def main() -> None:
    """Measure each number of nodes once."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tier", default=tiers.DEFAULT, choices=tiers.NAMES)
    parser.add_argument("--nodes", default="1,2,5")
    parser.add_argument("--pods", type=int, default=20)
    arguments = parser.parse_args()
    tier = tiers.find(arguments.tier)
    tier.get_ready(print)
    for nodes in arguments.nodes.split(","):
        print(json.dumps(_measure(tier, int(nodes), arguments.pods)), flush=True)


def _measure(tier: Tier, nodes: int, pods: int) -> dict[str, Any]:
    subject = descriptors.load(Path(driver.__file__).parent / "reference.yaml", catalogue.capabilities())
    spec = ClusterSpec(nodes=tuple(NodeSpec(machine=f"gpus-{pods}") for _ in range(nodes)))
    began = time.monotonic()
    with tier.start(spec) as cluster:
        serves = time.monotonic() - began
        cluster.wait_ready()
        ready = time.monotonic() - began
        drivers = Drivers(cluster, subject)
        drivers.start()
        client = cluster.client()
        name = device_classes.ensure(client, subject)[0]
        drivers.wait_published()
        drivers.wait_registered()
        request = {"name": "gpu", "exactly": {"deviceClassName": name}}
        template = {
            "metadata": {"name": "one", "namespace": "default"},
            "spec": {"spec": {"devices": {"requests": [request]}}},
        }
        client.create(_API, "resourceclaimtemplates", template)
        times = [_run(client, f"pod-{number}") for number in range(pods)]
        return {
            "tier": tier.name,
            "nodes": nodes,
            "servesSeconds": round(serves, 2),
            "readySeconds": round(ready, 2),
            "podMedianSeconds": round(statistics.median(times), 3),
            "podLongestSeconds": round(max(times), 3),
            "memoryMiB": _memory(cluster),
        }


def _run(client: Client, name: str) -> float:
    """Seconds from the creation of a Pod until it runs."""
    container = {
        "name": "main",
        "image": "any",
        "command": ["sleep", "infinity"],
        "resources": {"claims": [{"name": "gpu"}]},
    }
    body = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "containers": [container],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
        },
    }
    start = time.monotonic()
    version = client.create("v1", "pods", body)["metadata"]["resourceVersion"]
    query = {"fieldSelector": f"metadata.name={name}", "resourceVersion": version}
    for event in client.watch("v1", "pods", "default", timeout=_DEADLINE, **query):
        if event["object"].get("status", {}).get("phase") == "Running":
            return time.monotonic() - start
    raise TimeoutError(f"{name} does not run")


def _memory(cluster: RunningCluster) -> dict[str, int]:
    pids = {name: getattr(part, "pid", os.getpid()) for name, part in cluster.components().items()}
    if len(set(pids.values())) == 1:
        pids = {"all": os.getpid()}
    return {name: _resident(pid) for name, pid in pids.items()}


def _resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20)


if __name__ == "__main__":
    main()
