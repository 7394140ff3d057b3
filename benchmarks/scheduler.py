"""Pods a second of the embedded scheduler and of the real one: `python -m benchmarks.scheduler [--pods 1000]`.

Each schedules on a cluster of its own tier, as users have them: ours beside the embedded API server and in one process
with it, the real one beside kube-apiserver and etcd (the local tier; its binaries are needed). Both have the same Nodes
and ResourceSlices without kubelets behind them, and the same Pods, each of which names a claim of its own for one
device. A process apart creates the Pods and follows them: it measures from the first create until the last Pod is
bound. Claims are there before, and one Pod more is scheduled first, so that no side pays for its start. Rate limits of
clients are out of the way, and controllers are stopped: without heartbeats they would taint the Nodes. Rounds take
turns, on fresh clusters.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks import fleet, table
from clusters.client import Client
from clusters.existing import kubeconfig
from clusters.interface import ClusterSpec
from drakit import tiers

Object = dict[str, Any]

_API = "resource.k8s.io/v1"
_TIERS = ("local", "embedded")
_CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 100000, burst: 100000}
"""
_WRITERS = 8
_DEADLINE = 600.0


def main() -> None:
    """Play all rounds and print their row; with `--load FILE` the process that creates Pods."""
    parser = table.parser(__doc__)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--devices", type=int, default=10)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tiers", default=",".join(_TIERS), help="to look at one of them alone")
    parser.add_argument("--load", type=Path, help="a kubeconfig; used by the benchmark itself")
    given = parser.parse_args()
    if given.load is not None:
        print(json.dumps(_load(kubeconfig.load(given.load).client(), given.pods)))
        return
    if given.pods >= given.nodes * given.devices:
        parser.error("there must be more devices than Pods")
    names = given.tiers.split(",")
    rates: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(given.rounds):
        for name in names:
            rates[name].append(given.pods / _round(name, given.nodes, given.devices, given.pods))
            print(f"{name}: {rates[name][-1]:.1f} Pods a second", file=sys.stderr, flush=True)
    table.show([_row(given, rates)], given.markdown)


def _row(given: Any, rates: dict[str, list[float]]) -> Object:
    row = {"nodes": given.nodes, "devices a node": given.devices, "pods": given.pods}
    for name, found in rates.items():
        row[f"{name} Pods/s"] = round(statistics.median(found), 1)
        row[f"{name} spread"] = f"{min(found):.1f} to {max(found):.1f}"
    if all(name in rates for name in _TIERS):
        real, ours = (statistics.median(rates[name]) for name in _TIERS)
        row["times as many"] = round(ours / real, 2)
    return row


def _round(name: str, nodes: int, devices: int, pods: int) -> float:
    """The seconds of one round, on a cluster of its own."""
    tier = tiers.find(name)
    tier.get_ready(lambda text: print(text, file=sys.stderr, flush=True))
    with tier.start(ClusterSpec(scheduler_config=_CONFIG)) as cluster:
        cluster.wait_ready()
        cluster.component("controller-manager").stop()
        client = cluster.client()
        _fill(client, nodes, devices, pods)
        file = cluster.root / "load.kubeconfig"
        cluster.write_kubeconfig(file)
        command = [sys.executable, "-m", "benchmarks.scheduler", "--load", str(file), "--pods", str(pods)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=_DEADLINE)
        _check(client.list(_API, "resourceclaims", "default"), pods + 1)
        seconds: float = json.loads(done.stdout)
    return seconds


def _fill(client: Client, nodes: int, devices: int, pods: int) -> None:
    """Nodes, slices, the class and a claim for each Pod and for the one before them."""
    client.create(_API, "deviceclasses", fleet.device_class())
    _each(range(nodes), lambda number: client.create("v1", "nodes", _node(number)))
    # Admission takes no new Node for Ready.
    untainted = {"spec": {"taints": None}}
    _each(range(nodes), lambda number: client.patch("v1", "nodes", fleet.node_name(number), untainted))
    _each(range(nodes), lambda number: client.create(_API, "resourceslices", fleet.slice_(number, devices)))
    _each(range(-1, pods), lambda number: client.create(_API, "resourceclaims", _claim(number)))


def _each(numbers: Iterable[int], make: Callable[[int], object]) -> None:
    with ThreadPoolExecutor(_WRITERS) as pool:
        list(pool.map(make, numbers))


def _check(claims: list[Object], wanted: int) -> None:
    results = [
        (result["pool"], result["device"])
        for claim in claims
        for result in claim["status"]["allocation"]["devices"]["results"]
    ]
    assert len(results) == len(set(results)) == wanted, "a device was allocated twice or not at all"


def _load(client: Client, pods: int) -> float:
    """Create the Pods; the seconds from the first until all are bound."""
    bound = _Bound(client)
    client.create("v1", "pods", _pod(-1))
    bound.wait(1)
    start = time.monotonic()
    _each(range(pods), lambda number: client.create("v1", "pods", _pod(number)))
    return bound.wait(1 + pods) - start


class _Bound:
    """Counts Pods with a node, from a watch that is sent no others."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._names: set[str] = set()
        self._changed = threading.Condition()
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        for event in self._events():
            with self._changed:
                self._names.add(event["object"]["metadata"]["name"])
                self._changed.notify()

    def _events(self) -> Iterator[Object]:
        # A server ends a watch whose client is slow; a new one begins with all that there is.
        while True:
            query = {"fieldSelector": "spec.nodeName!="}
            yield from self._client.watch("v1", "pods", "default", timeout=_DEADLINE, **query)

    def wait(self, count: int) -> float:
        """The moment when so many were seen."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._names) >= count, _DEADLINE):
                raise SystemExit(f"{len(self._names)} of {count} Pods are bound after {_DEADLINE:g} s")
            return time.monotonic()


def _node(number: int) -> Object:
    resources = {"cpu": "64", "memory": "256Gi", "pods": "110", "ephemeral-storage": "1Ti"}
    return {
        **fleet.node(number),
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def _claim(number: int) -> Object:
    return {**fleet.claim(), "metadata": {"name": f"claim-{number + 1}", "namespace": "default"}}


def _pod(number: int) -> Object:
    container = {
        "name": "main",
        "image": "pause",
        "resources": {"claims": [{"name": "gpu"}], "requests": {"cpu": "100m", "memory": "64Mi"}},
    }
    return {
        "metadata": {"name": f"pod-{number + 1}", "namespace": "default"},
        "spec": {
            "containers": [container],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": f"claim-{number + 1}"}],
        },
    }


if __name__ == "__main__":
    main()
