"""Real kubelets on the CRI server: how Pods live, what is told of them, and that kubelets have nothing to complain."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters import binaries
from clusters.client import ClientError
from clusters.interface import ClusterSpec, NodeSpec
from clusters.local.cluster import COMPONENTS, LocalCluster

pytestmark = [
    pytest.mark.go,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.geteuid() != 0, reason="kubelets need root"),
]

SECONDS = 90.0
SPEC = ClusterSpec(
    nodes=(NodeSpec(),),
    kubelet=(
        ("syncFrequency", "1s"),
        ("containerLogMaxSize", "4Ki"),
        ("containerLogMonitorInterval", "3s"),
    ),
)
POLITE = ("sh", "-c", "trap 'exit 0' TERM; echo up; sleep 9999 & wait")
# Complaints of kubelets that have other causes: no CAP_SYS_RESOURCE, cgroup v1, a start before the API server knows
# the node, containers that vanish between a kubelet's list and its question.
EXPECTED = (
    "Failed to set rlimit on max file handles",
    "Failed to ensure process in container with oom score",
    "Failed to read data from checkpoint",
    "Skipping pod synchronization",
    "Error getting the current node from lister",
    "Unable to register mirror pod because node is not registered yet",
    "Failed to get node when trying to set owner ref to the node lease",
    "no imagefs label for configured runtime",
    "failed to get node info: node",
    "Error syncing pod, skipping",
    "Unhandled Error",
)


def until(probe: Callable[[], Any], what: str, seconds: float = SECONDS) -> Any:
    deadline, pause = time.monotonic() + seconds, threading.Event()
    while not (found := probe()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        pause.wait(0.05)
    return found


class Bench:
    """A cluster with one node, and what a user does with it."""

    def __init__(self, cluster: LocalCluster, kubectl: Path) -> None:
        self.cluster, self.api = cluster, cluster.client()
        self._kubectl, self._config = kubectl, cluster.root / "test.kubeconfig"
        cluster.write_kubeconfig(self._config)

    def kubectl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the administrator."""
        command = [str(self._kubectl), "--kubeconfig", str(self._config), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)

    def make(self, name: str, *containers: dict[str, Any], **spec: Any) -> None:
        """Create a Pod."""
        spec = {
            "terminationGracePeriodSeconds": 2,
            "automountServiceAccountToken": False,
            "containers": [{"image": "busybox:1", **container} for container in containers],
            **spec,
        }
        self.api.create("v1", "pods", {"metadata": {"name": name, "namespace": "default"}, "spec": spec})

    def status(self, name: str) -> dict[str, Any]:
        """The status of a Pod."""
        found: dict[str, Any] = self.api.get("v1", "pods", name, "default").get("status") or {}
        return found

    def phase(self, name: str, wanted: str) -> dict[str, Any]:
        """The status once the Pod is in a phase."""
        until(lambda: self.status(name).get("phase") == wanted, f"Pod {name} is {wanted}")
        return self.status(name)

    def state(self, name: str, index: int = 0) -> dict[str, Any]:
        """The status of a container."""
        statuses = self.status(name).get("containerStatuses") or [{}] * (index + 1)
        found: dict[str, Any] = statuses[index]
        return found

    def lines(self, name: str, count: int, container: str = "") -> list[str]:
        """The log of a container once it has so many lines."""

        def read() -> list[str]:
            try:
                lines = self.api.log("default", name, container).splitlines()
            except ClientError as error:
                # The container has not started yet.
                assert error.code == 400, error
                return []
            return lines if len(lines) >= count else []

        found: list[str] = until(read, f"{count} lines of {name}")
        return found

    def events(self, name: str) -> list[tuple[str, str, str]]:
        """Type, reason and message of what the kubelet told of a Pod."""
        query = {"fieldSelector": f"involvedObject.name={name}"}
        return [
            (event["type"], event["reason"], event["message"])
            for event in self.api.list("v1", "events", "default", **query)
            if event["reason"] != "Scheduled"
        ]

    def remove(self, name: str) -> None:
        """Delete a Pod and wait until it is gone."""
        self.api.delete("v1", "pods", name, "default")
        until(lambda: self.api.find("v1", "pods", name, "default") is None, f"Pod {name} is gone")


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    programs = binaries.find("1.37", (*COMPONENTS, "kubectl"), progress=print)
    with LocalCluster(SPEC, programs) as cluster:
        cluster.wait_ready()
        made = Bench(cluster, programs.path("kubectl"))
        # Kubelets collect what is dead once a minute: this Pod dies while the other tests run.
        made.make("fails", {"name": "main", "command": ["sh", "-c", "exit 1"]})
        yield made


def test_a_node_tells_what_its_runtime_is(bench: Bench) -> None:
    status = bench.api.get("v1", "nodes", "node-1")["status"]
    assert status["nodeInfo"]["containerRuntimeVersion"] == "containerd://2.1.4"
    assert status["features"] == {"supplementalGroupsPolicy": True}
    features = {"recursiveReadOnlyMounts": True, "userNamespaces": True}
    assert status["runtimeHandlers"] == [
        {"name": "", "features": features},
        {"name": "runc", "features": features},
    ]
    assert int(status["capacity"]["ephemeral-storage"]) > 0


def test_init_containers_sidecars_and_containers_start_in_order(bench: Bench) -> None:
    bench.make(
        "order",
        {"name": "main", "command": list(POLITE)},
        initContainers=[
            {"name": "first", "image": "busybox:1", "command": ["sh", "-c", "echo one; exit 0"]},
            {"name": "side", "image": "busybox:1", "command": list(POLITE), "restartPolicy": "Always"},
        ],
    )
    status = bench.phase("order", "Running")
    first, side = status["initContainerStatuses"]
    main = status["containerStatuses"][0]
    ended = first["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["containerID"]) == (
        0,
        "Completed",
        first["containerID"],
    )
    assert "running" in side["state"] and side["ready"]
    assert main["image"] == "docker.io/library/busybox:1"
    assert main["imageID"].startswith("docker.io/library/busybox@sha256:")
    assert main["user"] == {"linux": {"uid": 0, "gid": 0, "supplementalGroups": [0]}}
    assert re.fullmatch("containerd://[0-9a-f]{64}", main["containerID"])
    assert status["podIP"].startswith("10.244.1.")
    assert bench.lines("order", 1, "first") == ["one"]
    assert bench.lines("order", 1, "main") == ["up"]
    pulled = 'Container image "busybox:1" already present on machine and can be accessed by the pod'
    told = [("Normal", "Pulled", pulled), ("Normal", "Created", "Container created")]
    assert set(bench.events("order")) >= {*told, ("Normal", "Started", "Container started")}
    bench.remove("order")


def test_codes_messages_and_restarts(bench: Bench) -> None:
    bench.make(
        "told",
        {"name": "main", "command": ["sh", "-c", "echo why > /dev/termination-log; exit 3"]},
        {
            "name": "other",
            "command": ["sh", "-c", "echo last words; exit 4"],
            "terminationMessagePolicy": "FallbackToLogsOnError",
        },
        restartPolicy="Never",
    )
    bench.make("again", {"name": "main", "command": ["sh", "-c", "exit 1"]})
    bench.make("done", {"name": "main", "command": ["exit", "0"]}, restartPolicy="OnFailure")
    main, other = bench.phase("told", "Failed")["containerStatuses"]
    ended = main["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["message"]) == (3, "Error", "why\n")
    ended = other["state"]["terminated"]
    assert (ended["exitCode"], ended["message"]) == (4, "last words\n")
    assert bench.phase("done", "Succeeded")["containerStatuses"][0]["restartCount"] == 0
    until(lambda: bench.state("again").get("restartCount", 0) >= 2, "it is restarted")
    last = bench.state("again")["lastState"]["terminated"]
    assert (last["exitCode"], last["reason"]) == (1, "Error")
    waiting = until(lambda: bench.state("again")["state"].get("waiting"), "it waits")
    assert waiting["reason"] == "CrashLoopBackOff"
    for name in ("told", "again", "done"):
        bench.remove(name)


def test_a_command_that_is_not_there_is_told_as_by_containerd(bench: Bench) -> None:
    bench.make("absent", {"name": "main", "command": ["foo"]}, restartPolicy="Never")
    status = bench.phase("absent", "Failed")
    ended = status["containerStatuses"][0]["state"]["terminated"]
    text = (
        "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create "
        "failed: unable to start container process: error during container init: "
        'exec: "foo": executable file not found in $PATH'
    )
    assert (ended["exitCode"], ended["reason"], ended["message"]) == (128, "StartError", text)
    until(lambda: ("Warning", "Failed", f"Error: {text}") in bench.events("absent"), "the event")
    bench.remove("absent")


def test_grace_periods_are_kept(bench: Bench) -> None:
    bench.make("polite", {"name": "main", "command": list(POLITE)}, terminationGracePeriodSeconds=60)
    bench.make("deaf", {"name": "main", "command": ["sleep", "infinity"]}, terminationGracePeriodSeconds=3)
    bench.lines("polite", 1)
    bench.phase("deaf", "Running")
    began = time.monotonic()
    bench.remove("polite")
    assert time.monotonic() - began < 50
    began = time.monotonic()
    bench.remove("deaf")
    assert time.monotonic() - began > 2.5


def test_commands_of_probes_and_hooks_run(bench: Bench) -> None:
    def exec_(*command: str) -> dict[str, Any]:
        return {"exec": {"command": list(command)}}

    bench.make(
        "probed",
        {
            "name": "main",
            "command": list(POLITE),
            "lifecycle": {"postStart": exec_("sh", "-c", "echo x > /tmp/started")},
            "readinessProbe": {**exec_("cat", "/tmp/started"), "periodSeconds": 1},
            "livenessProbe": {**exec_("sh", "-c", "exit 1"), "periodSeconds": 1, "failureThreshold": 8},
        },
    )
    until(lambda: bench.state("probed").get("ready"), "it is ready")
    until(lambda: bench.state("probed").get("restartCount", 0) == 1, "it is restarted")
    killing = "Container main failed liveness probe, will be restarted"
    assert ("Normal", "Killing", killing) in bench.events("probed")
    bench.remove("probed")


def test_a_program_sees_the_volumes_of_the_kubelet(bench: Bench) -> None:
    body = {"metadata": {"name": "settings", "namespace": "default"}, "data": {"color": "red\n"}}
    bench.api.create("v1", "configmaps", body)
    token = {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}
    volumes = [
        {"name": "settings", "configMap": {"name": "settings"}},
        {"name": "token", "projected": {"sources": [token]}},
        {"name": "shared", "emptyDir": {}},
    ]
    mounts = [{"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in volumes]
    script = "cat /settings/color; cat /shared/from-init; ls /token; probe --exit 0"
    bench.make(
        "sees",
        {
            "name": "main",
            "command": ["sh", "-c", script],
            "volumeMounts": mounts,
            "resources": {"limits": {"cpu": "500m", "memory": "64Mi"}},
            "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
            "securityContext": {"runAsUser": 1000, "runAsGroup": 2000},
        },
        initContainers=[
            {
                "name": "init",
                "image": "busybox:1",
                "command": ["sh", "-c", "echo here > /shared/from-init"],
                "volumeMounts": mounts,
            }
        ],
        volumes=volumes,
        securityContext={"fsGroup": 3000},
        hostname="box",
        restartPolicy="Never",
    )
    bench.phase("sees", "Succeeded")
    color, shared, names, document = bench.lines("sees", 4)
    assert (color, shared, names) == ("red", "here", "token")
    seen = json.loads(document)
    assert seen["hostname"] == "box"
    assert re.fullmatch(r"10\.244\.1\.\d+", seen["environment"]["IP"])
    assert seen["user"] == {"uid": 1000, "gid": 2000, "groups": [2000, 3000]}
    limits = {"cpuPeriod": 100_000, "cpuQuota": 50_000, "cpuShares": 512, "memory": 64 << 20}
    assert seen["limits"] == limits
    options = {mount["destination"]: mount["options"][1:] for mount in seen["mounts"]}
    assert options == {
        "/settings": ["rprivate", "ro"],
        "/token": ["rprivate", "ro"],
        "/shared": ["rprivate", "rw"],
        "/etc/hosts": ["rprivate", "rw"],
        "/dev/termination-log": ["rprivate", "rw"],
    }
    bench.remove("sees")


def test_the_network_of_the_node(bench: Bench) -> None:
    bench.make(
        "host",
        {"name": "main", "command": ["hostname"]},
        hostNetwork=True,
        hostPID=True,
        restartPolicy="Never",
    )
    status = bench.phase("host", "Succeeded")
    assert status["podIP"] == status["hostIP"]
    assert bench.lines("host", 1) == ["node-1"]
    bench.remove("host")


def test_what_needs_real_processes_is_refused_with_a_way_out(bench: Bench) -> None:
    bench.make("refuses", {"name": "main", "command": list(POLITE)})
    bench.phase("refuses", "Running")
    for command, what in (
        (("exec", "refuses", "--", "ls"), "no command can be run in them"),
        (("port-forward", "refuses", "0:80"), "no port of theirs can be reached"),
    ):
        done = bench.kubectl(*command)
        assert done.returncode != 0
        assert "this is drakit's simulated container runtime" in done.stderr
        assert what in done.stderr
        assert "kubectl logs" in done.stderr
    assert bench.kubectl("logs", "refuses").stdout == "up\n"
    bench.remove("refuses")


def test_images_are_pulled_when_the_policy_says_so(bench: Bench) -> None:
    bench.make("pulls", {"name": "main", "command": list(POLITE), "imagePullPolicy": "Always"})
    bench.phase("pulls", "Running")
    events = {reason: message for _, reason, message in bench.events("pulls")}
    assert events["Pulling"] == 'Pulling image "busybox:1"'
    assert re.fullmatch(
        r'Successfully pulled image "busybox:1" in \S+ \(\S+ including waiting\)\. Image size: 4194304 bytes\.',
        events["Pulled"],
    )

    def listed() -> bool:
        images = bench.api.get("v1", "nodes", "node-1")["status"].get("images") or []
        return any("docker.io/library/busybox:1" in image["names"] for image in images)

    until(listed, "the node lists the image")
    bench.remove("pulls")


def test_logs_are_rotated_and_followed(bench: Bench) -> None:
    script = "while true; do echo a line of a log that is rotated by the kubelet; sleep 0.01; done"
    bench.make("chatty", {"name": "main", "command": ["sh", "-c", script]})
    bench.phase("chatty", "Running")
    folder = next((bench.cluster.root / "n1" / "log").glob("default_chatty_*/main"))
    until(lambda: len(list(folder.glob("0.log.*"))) >= 2, "the log is rotated twice")
    followed = bench.kubectl("logs", "chatty", "--tail=5")
    assert set(followed.stdout.splitlines()) == {"a line of a log that is rotated by the kubelet"}
    bench.remove("chatty")


def test_a_kubelet_that_is_killed_finds_its_containers_again(bench: Bench) -> None:
    bench.make("stays", {"name": "main", "command": list(POLITE)})
    bench.make("ends", {"name": "main", "command": ["sh", "-c", "sleep 3; exit 5"]}, restartPolicy="Never")
    bench.phase("stays", "Running")
    bench.phase("ends", "Running")
    before = bench.state("stays")
    kubelet = bench.cluster.nodes[0].kubelet
    kubelet.kill()
    kubelet.start()
    ended = bench.phase("ends", "Failed")["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (5, "Error")
    after = bench.state("stays")
    assert (after["containerID"], after["restartCount"]) == (before["containerID"], 0)
    bench.remove("stays")
    bench.remove("ends")


def test_usage_is_told(bench: Bench) -> None:
    bench.make("idle", {"name": "main", "command": list(POLITE)})
    bench.phase("idle", "Running")

    def summary() -> Any:
        found = bench.api.request("GET", "/api/v1/nodes/node-1/proxy/stats/summary")
        return [pod for pod in found["pods"] if pod["podRef"]["name"] == "idle" and pod.get("containers")]

    [pod] = until(summary, "the Pod is in the summary")
    [container] = pod["containers"]
    assert container["cpu"]["usageNanoCores"] == 0
    assert container["memory"]["workingSetBytes"] == 0
    assert container["rootfs"]["capacityBytes"] > 0
    bench.remove("idle")


def test_only_the_last_dead_container_of_a_pod_is_kept(bench: Bench) -> None:
    until(lambda: bench.state("fails").get("restartCount", 0) >= 2, "it is restarted")
    pod = bench.api.get("v1", "pods", "fails", "default")
    folder = bench.cluster.root / "n1" / "log" / f"default_fails_{pod['metadata']['uid']}" / "main"
    until(lambda: len(list(folder.iterdir())) <= 2, "logs of containers before the last are removed")
    bench.remove("fails")


def test_the_kubelet_has_nothing_to_complain_about_the_runtime(bench: Bench) -> None:
    """Last in this file, after all that the tests before did."""
    log = bench.cluster.nodes[0].kubelet.log.read_text()
    found: dict[str, int] = {}
    for line in log.splitlines():
        # E0102 03:04:05.000000   123 file.go:7] "what" err="why"
        match = re.match(r"E\d{4} \S+ +\d+ (?P<place>\S+)\] (?P<text>.*)", line)
        if match and not any(words in line for words in EXPECTED):
            kind = f"{match['place']} {match['text'][:120]}"
            found[kind] = found.get(kind, 0) + 1
    quarrels = {
        kind: count
        for kind, count in found.items()
        if re.match(r"(remote_|cri_stats|eviction|generic|kuberuntime|log|container_log)", kind)
        and "Exec" not in kind
        and "PortForward" not in kind
        and "StartContainer" not in kind
        and "code = NotFound" not in kind
    }
    assert quarrels == {}
    assert not (bench.cluster.root / "logs" / "runtime.log").read_text().replace("ready", "").strip()
