"""Pods with claims live and end while every component of a whole cluster dies at arbitrary moments.

DRAKIT_SEED repeats a run (as far as threads allow), DRAKIT_CHAOS_PODS sets the number of Pods of each of the runs.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from chaos_model import Change, judge
from urllib3.exceptions import HTTPError

import driver
from clusters import descriptor as descriptors
from clusters import device_classes
from clusters.client import Client, ClientError
from clusters.embedded.cluster import EmbeddedCluster
from clusters.embedded.controllers.catalogue import controllers
from clusters.embedded.kubelet.config import KubeletPaths
from clusters.embedded.kubelet.dra import checkpoint
from clusters.gates import effective
from clusters.interface import ClusterSpec, NodeSpec
from clusters.process import DriverProcess
from conformance import catalogue
from driver.inspect_state import document
from fake_hw import journal

DRA, NAMESPACE = "resource.k8s.io/v1", "default"
NODES, AT_ONCE = 3, 16
PODS = int(os.environ.get("DRAKIT_CHAOS_PODS", "100"))
RUNS = 2
# Within this time a Pod runs or ends, and all is clean at the end, though components die.
PATIENCE = 300.0
# Death comes at the latest after this time, even if nothing happens: a busy machine takes seconds for a new start.
STANDSTILL = 10.0


class Recorder:
    """Watches Pods and claims from the start and keeps every change; broken watches go on where they were."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._news = threading.Condition()
        self.history: list[Change] = []
        self.now: dict[tuple[str, str], dict[str, Any]] = {}
        self._ended = False
        self._threads = [
            threading.Thread(target=self._follow, args=kind, daemon=True)
            for kind in (("v1", "pods"), (DRA, "resourceclaims"))
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._ended = True
        for thread in self._threads:
            thread.join(10)
        assert not any(thread.is_alive() for thread in self._threads)

    def _follow(self, api_version: str, resource: str) -> None:
        answer = self._client.request("GET", path(api_version, resource))
        version = answer["metadata"]["resourceVersion"]
        assert not answer["items"]
        while not self._ended:
            try:
                query = {"resourceVersion": version}
                for event in self._client.watch(api_version, resource, NAMESPACE, timeout=1, **query):
                    assert event["type"] != "ERROR", event
                    version = event["object"]["metadata"]["resourceVersion"]
                    self._take(event)
            except (ClientError, OSError, HTTPError):
                time.sleep(0.05)

    def _take(self, event: dict[str, Any]) -> None:
        obj = event["object"]
        key = (obj["kind"], obj["metadata"]["name"])
        change = Change(int(obj["metadata"]["resourceVersion"]), event["type"] == "DELETED", obj)
        with self._news:
            self.history.append(change)
            if change.removed:
                self.now.pop(key, None)
            else:
                self.now[key] = obj
            self._news.notify_all()

    def wait_changes(self, number: int, over: threading.Event) -> None:
        """Wait until so many more changes have come, or for a while."""
        with self._news:
            wanted = len(self.history) + number
            self._news.wait_for(lambda: over.is_set() or len(self.history) >= wanted, STANDSTILL)

    def wait(
        self, kind: str, name: str, condition: Callable[[dict[str, Any] | None], bool], what: str
    ) -> None:
        """Wait until the object (None: it is gone) is as it should be."""
        with self._news:
            if not self._news.wait_for(lambda: condition(self.now.get((kind, name))), PATIENCE):
                state = json.dumps(self.now.get((kind, name)), indent=1)
                raise AssertionError(f"{kind} {name}: {what}: not within {PATIENCE:g} s: {state}")


def path(api_version: str, resource: str) -> str:
    return f"/{'apis' if '/' in api_version else 'api'}/{api_version}/namespaces/{NAMESPACE}/{resource}"


def phase(*wanted: str) -> Callable[[dict[str, Any] | None], bool]:
    return lambda pod: pod is not None and pod["status"].get("phase") in wanted


def gone(obj: dict[str, Any] | None) -> bool:
    return obj is None


class Users:
    """People who create and delete Pods and claims, each in a thread."""

    def __init__(self, client: Client, recorder: Recorder, device_class: str) -> None:
        self._client, self._recorder, self._class = client, recorder, device_class
        self.must_run: set[str] = set()

    def insist(self, action: Callable[[], object], *fine: int) -> None:
        """Do it, again when the API server was away; `fine` are codes that say it was done."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                action()
                return
            except ClientError as error:
                if error.code in fine:
                    return
                # 0: no answer, 429 and above: not now.
                if (error.code and error.code < 429) or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def request(self, count: int = 1) -> dict[str, Any]:
        exactly = {"deviceClassName": self._class, "count": count}
        return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}

    def create_templates(self) -> None:
        for count in (1, 2):
            body = {"metadata": {"name": f"t{count}"}, "spec": {"spec": self.request(count)}}
            self._client.create(DRA, "resourceclaimtemplates", body, NAMESPACE)

    def create_claim(self, name: str) -> None:
        body = {"metadata": {"name": name}, "spec": self.request()}
        self.insist(lambda: self._client.create(DRA, "resourceclaims", body, NAMESPACE), 409)

    def create_pod(self, name: str, source: dict[str, str], *command: str) -> None:
        container = {
            "name": "c",
            "image": "probe",
            "command": list(command),
            "resources": {"claims": [{"name": "gpu"}]},
        }
        spec = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "resourceClaims": [{"name": "gpu", **source}],
            "containers": [container],
        }
        body = {"metadata": {"name": name}, "spec": spec}
        self.insist(lambda: self._client.create("v1", "pods", body, NAMESPACE), 409)

    def delete_pod(self, name: str, *, force: bool = False) -> None:
        options = {"gracePeriodSeconds": 0} if force else None
        self.insist(lambda: self._client.delete("v1", "pods", name, NAMESPACE, options))
        self._recorder.wait("Pod", name, gone, "is gone")

    def delete_claim(self, name: str) -> None:
        self.insist(lambda: self._client.delete(DRA, "resourceclaims", name, NAMESPACE))

    # Lives. Each takes a name and the dice.

    def completes(self, name: str, dice: random.Random) -> None:
        """A Pod with a claim of its own that does its work and succeeds."""
        self.must_run.add(name)
        template = dice.choice(("t1", "t1", "t2"))
        self.create_pod(name, {"resourceClaimTemplateName": template}, "sleep", f"{dice.uniform(0, 0.5):.2f}")
        self._recorder.wait("Pod", name, phase("Succeeded"), "succeeds")
        self.delete_pod(name, force=dice.random() < 0.3)

    def serves(self, name: str, dice: random.Random) -> None:
        """A Pod that runs until it is deleted, politely or not."""
        self.must_run.add(name)
        self.create_pod(name, {"resourceClaimTemplateName": "t1"}, "sleep", "9999")
        self._recorder.wait("Pod", name, phase("Running"), "runs")
        time.sleep(dice.uniform(0, 0.5))
        self.delete_pod(name, force=dice.random() < 0.4)

    def leaves_early(self, name: str, dice: random.Random) -> None:
        """A Pod that is deleted at some moment on its way."""
        self.create_pod(name, {"resourceClaimTemplateName": dice.choice(("t1", "t2"))}, "sleep", "9999")
        time.sleep(dice.uniform(0, 1.0))
        self.delete_pod(name, force=dice.random() < 0.5)

    def brings_claim(self, name: str, dice: random.Random) -> None:
        """A Pod with a claim that somebody made, and deletes before or after the Pod."""
        self.must_run.add(name)
        self.create_claim(name)
        self.create_pod(name, {"resourceClaimName": name}, "sleep", "9999")
        self._recorder.wait("Pod", name, phase("Running"), "runs")
        if dice.random() < 0.5:
            self.delete_claim(name)
        self.delete_pod(name, force=dice.random() < 0.3)
        self.delete_claim(name)
        self._recorder.wait("ResourceClaim", name, gone, "is gone")

    def share(self, name: str, dice: random.Random) -> None:
        """Three Pods with one claim; the first one works and ends, the others run until they are deleted."""
        pods = [f"{name}-{index}" for index in range(3)]
        self.must_run.update(pods)
        self.create_claim(name)
        for index, pod in enumerate(pods):
            self.create_pod(pod, {"resourceClaimName": name}, "sleep", "9999" if index else "0.2")
        for index, pod in enumerate(pods):
            self._recorder.wait("Pod", pod, phase("Running" if index else "Succeeded"), "runs")
        dice.shuffle(pods)
        for pod in pods:
            self.delete_pod(pod, force=dice.random() < 0.3)
        self.delete_claim(name)
        self._recorder.wait("ResourceClaim", name, gone, "is gone")

    def lives(self, total: int, dice: random.Random) -> Iterator[Callable[[], None]]:
        """As many lives as have `total` Pods."""
        kinds = [self.completes] * 5 + [self.serves] * 4 + [self.leaves_early] * 3 + [self.brings_claim] * 3
        number = 0
        while number < total:
            kind = self.share if dice.random() < 0.1 and number + 3 <= total else dice.choice(kinds)
            yield partial(kind, f"p{number}", random.Random(dice.random()))
            number += 3 if kind == self.share else 1


@contextmanager
def hurry(cluster: EmbeddedCluster) -> Iterator[None]:
    """Let the cluster's time run ten times as fast.

    A kubelet looks once a minute for claims of Pods that went while it was away, and few live so long here.
    """
    over = threading.Event()

    def run() -> None:
        while not over.wait(0.25):
            cluster.clock.advance(2.25)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(10)


Victims = dict[str, list[tuple[str, Callable[[], object], Callable[[], object]]]]
"""By kind: names, and how they die and come back."""


def node_victims(cluster: Any, drivers: dict[str, DriverProcess]) -> Victims:
    """Kubelets and drivers."""
    return {
        "kubelet": [(f"kubelet {n.name}", n.kubelet.kill, n.kubelet.start) for n in cluster.nodes],
        "driver": [(f"driver {name}", one.kill, one.start) for name, one in drivers.items()],
    }


class Death:
    """Kills components at random until it is stopped; afterwards all of them live."""

    def __init__(
        self,
        cluster: EmbeddedCluster,
        drivers: dict[str, DriverProcess],
        recorder: Recorder,
        dice: random.Random,
    ) -> None:
        self._dice, self._recorder = dice, recorder
        self._kinds = self._victims(cluster, drivers)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._rage, daemon=True)
        self.deaths: list[str] = []
        self.failure: BaseException | None = None

    def _victims(self, cluster: EmbeddedCluster, drivers: dict[str, DriverProcess]) -> Victims:
        kinds = node_victims(cluster, drivers)
        for name in ("scheduler", "apiserver"):
            component = cluster.component(name)
            kinds[name] = [(name, component.kill, component.start)]
        kinds["controller"] = []
        gates = effective(dict(cluster.spec.gates))
        for entry in controllers(""):
            if entry.gate and not gates[entry.gate]:
                continue
            component = cluster.component(entry.name)
            weight = 6 if "claim" in entry.name or "garbage" in entry.name else 1
            kinds["controller"] += [(entry.name, component.kill, component.start)] * weight
        return kinds

    def _recover(self) -> None:
        """What is waited for after each death; nothing, as all comes back at once."""

    def _rage(self) -> None:
        try:
            while not self._over.is_set():
                # By changes, not by time: a machine with much else to do must get on between the deaths.
                self._recorder.wait_changes(self._dice.randrange(80), self._over)
                chosen = self._dice.sample(sorted(self._kinds), self._dice.choice((1, 1, 2)))
                victims = [self._dice.choice(self._kinds[kind]) for kind in chosen]
                for name, kill, _ in victims:
                    self.deaths.append(name)
                    kill()
                time.sleep(self._dice.uniform(0, 0.4))
                self._dice.shuffle(victims)
                for _, _, start in victims:
                    start()
                self._recover()
        except BaseException as error:  # noqa: BLE001 - told by stop
            self.failure = error

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(30)
        assert not self._thread.is_alive()
        if self.failure is not None:
            raise self.failure


@contextmanager
def whole_cluster() -> Iterator[tuple[EmbeddedCluster, dict[str, DriverProcess], str]]:
    """A cluster with a reference driver on every node: 12 devices in all."""
    subject = descriptors.load(Path(driver.__file__).parent / "reference.yaml", catalogue.capabilities())
    nodes = tuple(NodeSpec(name=f"n{number}") for number in range(NODES))
    with EmbeddedCluster(ClusterSpec(nodes=nodes, kubelet=(("syncFrequency", "1s"),))) as cluster:
        cluster.wait_ready()
        with ThreadPoolExecutor(NODES) as pool:
            started = list(pool.map(lambda node: node.run_driver(subject), cluster.nodes))
        drivers = {node.name: process for node, process in zip(cluster.nodes, started, strict=True)}
        device_class = device_classes.ensure(cluster.client(), subject)[0]
        until(lambda: [] if len(cluster.client().list(DRA, "resourceslices")) == NODES else ["slices"])
        yield cluster, drivers, device_class


@contextmanager
def logs_of_failure(cluster: Any, drivers: dict[str, DriverProcess]) -> Iterator[None]:
    """After a failure print what components said, for the report of the test."""
    try:
        yield
    except BaseException:
        for node in cluster.nodes:
            print(f"-- kubelet {node.name}", *node.kubelet.logs()[-40:], sep="\n")  # noqa: T201
            print(f"-- driver {node.name}", drivers[node.name].tail(40), sep="\n")  # noqa: T201
        for name in ("scheduler", "controller-manager"):
            print(f"-- {name}", *cluster.component(name).logs()[-40:], sep="\n")  # noqa: T201
        for event in cluster.client().list("v1", "events", NAMESPACE)[-60:]:
            about = event["involvedObject"]["name"]
            print(f"-- event {event['lastTimestamp']} {about} {event['reason']}: {event['message']}")  # noqa: T201
        raise


def until(problems: Callable[[], list[str]]) -> None:
    """Wait until there are no problems any more."""
    deadline = time.monotonic() + PATIENCE
    while found := problems():
        assert time.monotonic() < deadline, f"left after {PATIENCE:g} s: {found}"
        time.sleep(0.2)


def left_in_api(client: Client) -> list[str]:
    found = [f"pod {pod['metadata']['name']}" for pod in client.list("v1", "pods", NAMESPACE)]
    found += [json.dumps(claim) for claim in client.list(DRA, "resourceclaims", NAMESPACE)]
    return found


def left_on_node(node: Any, driver_name: str, alive: set[str]) -> list[str]:
    """What is prepared, written or running for a claim, or for a Pod whose UID is not in `alive`."""
    paths = KubeletPaths(node.paths.root)
    found = [f"kubelet: {entry}" for entry in checkpoint.decode(paths.dra_state.read_bytes())]
    held = document(node.paths.plugins / driver_name)
    found += [f"driver: {claim}" for claim in held["claims"].values()] + held["damage"].splitlines()
    found += [f"CDI: {file.name}" for file in node.paths.cdi.iterdir()]
    if paths.pods.exists():
        found += [f"volumes: {folder.name}" for folder in paths.pods.iterdir() if folder.name not in alive]
    users: dict[str, set[str]] = {}
    for event in journal.read(node.paths.hardware):
        claims = users.setdefault(event.bdf, set())
        (claims.add if event.kind == "configure" else claims.discard)(event.claim)
    found += [f"hardware: {bdf} for {claims}" for bdf, claims in users.items() if claims]
    return [f"{node.name}: {text}" for text in found]


@pytest.mark.process
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("run", range(RUNS))
def test_whatever_dies_no_device_is_doubled_and_nothing_is_left(run: int, fresh_seed: int) -> None:
    dice = random.Random(fresh_seed + run)
    with whole_cluster() as (cluster, drivers, device_class), logs_of_failure(cluster, drivers):
        client = cluster.client()
        recorder = Recorder(client)
        recorder.start()
        users = Users(client, recorder, device_class)
        users.create_templates()
        death = Death(cluster, drivers, recorder, random.Random(dice.random()))
        try:
            death.start()
            with hurry(cluster), ThreadPoolExecutor(AT_ONCE) as pool:
                for life in [pool.submit(life) for life in users.lives(PODS, dice)]:
                    life.result()
        finally:
            death.stop()
            print(f"{len(death.deaths)} deaths: {', '.join(death.deaths)}")  # noqa: T201
        until(lambda: left_in_api(client))

        def on_nodes() -> list[str]:
            cluster.clock.advance(61)
            # The drivers stand as Pods on their nodes.
            alive = {pod["metadata"]["uid"] for pod in client.list("v1", "pods")}
            return [text for node in cluster.nodes for text in left_on_node(node, device_class, alive)]

        until(on_nodes)
        recorder.stop()
        model = judge(recorder.history)
        assert model.problems == []
        assert model.holders == {}
        assert users.must_run <= model.ran
        for node in cluster.nodes:
            assert journal.overlaps(journal.read(node.paths.hardware)) == []
