"""Clusters of real Kubernetes processes: nodes and Pods, single components that end, and that nothing is left."""

from __future__ import annotations

import concurrent.futures
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters import binaries, descriptor, device_classes
from clusters.client import Client
from clusters.interface import ClusterError, ClusterSpec, NodeSpec
from clusters.local.cluster import COMPONENTS, LocalCluster
from clusters.local.supervisor import wait_serving
from conformance import catalogue
from drakit.up import reference_driver

pytestmark = [
    pytest.mark.go,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.geteuid() != 0, reason="kubelets need root"),
]

SECONDS = 90.0
RACK = "node-restriction.kubernetes.io/rack"
SPEC = ClusterSpec(
    nodes=(
        NodeSpec(machine="gpus-2"),
        NodeSpec(
            name="special",
            labels=(("example.com/zone", "a"), (RACK, "7")),
            taints=(("dedicated", "tests", "NoSchedule"),),
            capacity=(("example.com/widget", "3"), ("pods", "20")),
            machine="gpus-2",
        ),
    ),
    kubelet=(("syncFrequency", "1s"),),
)


def until(probe: Callable[[], Any], what: str, seconds: float = SECONDS) -> Any:
    deadline, pause = time.monotonic() + seconds, threading.Event()
    while not (found := probe()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        pause.wait(0.05)
    return found


@pytest.fixture
def programs() -> binaries.Binaries:
    return binaries.find("1.37", COMPONENTS, progress=print)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Two nodes, the reference driver on the first."""
    subject = descriptor.load(reference_driver(), catalogue.capabilities())
    with LocalCluster(SPEC, binaries.find("1.37", COMPONENTS, progress=print)) as cluster:
        cluster.wait_ready()
        cluster.nodes[0].run_driver(subject)
        device_classes.ensure(cluster.client(), subject)
        query = {"fieldSelector": f"spec.driver={subject.name}"}
        until(lambda: cluster.client().list("resource.k8s.io/v1", "resourceslices", **query), "a slice")
        yield cluster


def make_pod(api: Client, name: str, *command: str, claim: bool = False) -> None:
    """A Pod for the first node, with a claim for one GPU if asked for."""
    container: dict[str, Any] = {"name": "main", "image": "any", "command": list(command)}
    spec: dict[str, Any] = {"containers": [container], "terminationGracePeriodSeconds": 1}
    if claim:
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.drakit.dev"}}
        body = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"devices": {"requests": [request]}},
        }
        api.create("resource.k8s.io/v1", "resourceclaims", body)
        container["resources"] = {"claims": [{"name": "gpu"}]}
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
    api.create("v1", "pods", {"metadata": {"name": name, "namespace": "default"}, "spec": spec})


def phase(api: Client, name: str) -> str:
    return str((api.get("v1", "pods", name, "default").get("status") or {}).get("phase"))


def wait_phase(api: Client, name: str, wanted: str) -> None:
    until(lambda: phase(api, name) == wanted, f"Pod {name} is {wanted}")


def remove(api: Client, name: str) -> None:
    api.delete("v1", "pods", name, "default")
    until(lambda: api.find("v1", "pods", name, "default") is None, f"Pod {name} is gone")
    api.delete("resource.k8s.io/v1", "resourceclaims", name, "default")


def owned(owner: str) -> set[str]:
    """Names of the programs that carry the mark of a cluster."""
    found = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if f"DRAKIT_OWNER={owner}".encode() in (folder / "environ").read_bytes():
                    found.add((folder / "comm").read_text().strip())
            except OSError:
                continue
    return found


def test_a_pod_sees_the_device_of_its_claim_and_logs_are_read(cluster: LocalCluster) -> None:
    api = cluster.client()
    make_pod(api, "sees", "probe", claim=True)
    wait_phase(api, "sees", "Running")
    until(lambda: api.log("default", "sees"), "the container has printed")
    seen = cluster.nodes[0].observe("default", "sees", "main")
    [device] = seen.devices
    assert device.path in ("/dev/fakegpu0", "/dev/fakegpu1")
    remove(api, "sees")


def test_a_container_that_ends_gives_its_code(cluster: LocalCluster) -> None:
    api = cluster.client()
    body = {
        "metadata": {"name": "ends", "namespace": "default"},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "any", "command": ["exit", "7"]}],
        },
    }
    api.create("v1", "pods", body)
    wait_phase(api, "ends", "Failed")
    [status] = api.get("v1", "pods", "ends", "default")["status"]["containerStatuses"]
    assert (status["state"]["terminated"]["exitCode"], status["state"]["terminated"]["reason"]) == (
        7,
        "Error",
    )
    remove(api, "ends")


def test_a_node_is_as_its_spec_says(cluster: LocalCluster) -> None:
    node = cluster.client().get("v1", "nodes", "special")
    assert {"example.com/zone": "a", RACK: "7"}.items() <= node["metadata"]["labels"].items()
    assert node["spec"]["taints"] == [{"key": "dedicated", "value": "tests", "effect": "NoSchedule"}]
    for field in ("capacity", "allocatable"):
        assert {"example.com/widget": "3", "pods": "20"}.items() <= node["status"][field].items()
    assert [address["type"] for address in node["status"]["addresses"]] == ["InternalIP", "Hostname"]


def test_a_driver_acts_on_its_own_node(cluster: LocalCluster) -> None:
    subject = descriptor.load(reference_driver(), catalogue.capabilities())
    config = yaml.safe_load(cluster.nodes[0].kubeconfig(subject).read_text())
    with Driver(cluster, config["users"][0]["user"]["token"]) as driver:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        user = driver.create("authentication.k8s.io/v1", "selfsubjectreviews", review)["status"]["userInfo"]
    uid = cluster.client().get("v1", "nodes", "node-1")["metadata"]["uid"]
    assert user["username"] == "system:serviceaccount:kube-system:gpu.drakit.dev"
    assert user["extra"]["authentication.kubernetes.io/node-name"] == ["node-1"]
    assert user["extra"]["authentication.kubernetes.io/node-uid"] == [uid]
    assert "authentication.kubernetes.io/pod-name" not in user["extra"]


@dataclass
class Driver:
    """A client with a driver's token, past the proxy."""

    cluster: LocalCluster
    token: str

    def __enter__(self) -> Client:
        self._client = Client(self.cluster.url, self.cluster.root / "ca.pem", self.token)
        return self._client

    def __exit__(self, *_: object) -> None:
        self._client.close()


def test_requests_without_credentials_are_refused_by_kubelets(cluster: LocalCluster) -> None:
    node = cluster.client().get("v1", "nodes", "node-1")["status"]
    address = next(entry["address"] for entry in node["addresses"] if entry["type"] == "InternalIP")
    url = f"https://{address}:{node['daemonEndpoints']['kubeletEndpoint']['Port']}/pods"
    done = subprocess.run(
        ["curl", "-sk", "-o", "/dev/null", "-w", "%{http_code}", url],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "401"


@pytest.mark.parametrize(
    "name", ["etcd", "apiserver", "controller-manager", "scheduler", "kubelet-node-1", "runtime"]
)
def test_each_component_can_be_killed_and_started(cluster: LocalCluster, name: str) -> None:
    component, api = cluster.components()[name], cluster.client()
    first = component.pid
    component.kill()
    assert (component.running, component.crashed) == (False, False)
    component.start()
    wait_serving([component])
    assert component.running and component.pid != first
    until(lambda: not cluster.missing(), "the cluster is ready again")
    pod = f"after-{name}"
    make_pod(api, pod, "sleep", "infinity", claim=True)
    wait_phase(api, pod, "Running")
    remove(api, pod)


def test_a_node_keeps_its_capacity_over_a_restart_of_its_kubelet(cluster: LocalCluster) -> None:
    kubelet = cluster.nodes[1].kubelet
    before = len(kubelet.log.read_bytes())
    kubelet.restart()
    until(lambda: b"Successfully registered node" in kubelet.log.read_bytes()[before:], "it registered anew")
    node = cluster.client().get("v1", "nodes", "special")["status"]
    assert node["capacity"]["example.com/widget"] == "3"


def test_containers_run_on_without_their_kubelet(cluster: LocalCluster) -> None:
    api = cluster.client()
    make_pod(api, "outlives", "sleep", "infinity")
    wait_phase(api, "outlives", "Running")

    def container() -> tuple[str, int]:
        [status] = api.get("v1", "pods", "outlives", "default")["status"]["containerStatuses"]
        return status["containerID"], status["restartCount"]

    before = container()
    cluster.nodes[0].kubelet.kill()
    cluster.nodes[0].kubelet.restart()
    make_pod(api, "proves", "sleep", "infinity")
    wait_phase(api, "proves", "Running")
    assert container() == before
    remove(api, "outlives")
    remove(api, "proves")


def test_a_component_that_crashes_is_told(cluster: LocalCluster) -> None:
    scheduler = cluster.components()["scheduler"]
    os.kill(scheduler.pid, signal.SIGKILL)
    until(lambda: not scheduler.running, "it has ended")
    assert list(cluster.dead()) == ["scheduler"]
    assert cluster.dead()["scheduler"].startswith(
        "scheduler ended with signal SIGKILL; the end of its log:\n"
    )
    scheduler.start()
    wait_serving([scheduler])
    assert cluster.dead() == {}


def test_the_host_stays_as_it_is(cluster: LocalCluster) -> None:
    # A kubelet sets the first two otherwise, and makes the folder.
    assert Path("/proc/sys/kernel/panic_on_oops").read_text() == HOST["panic_on_oops"]
    assert Path("/proc/sys/vm/overcommit_memory").read_text() == HOST["overcommit_memory"]
    assert Path("/var/lib/kubelet").exists() == HOST["kubelet"]
    assert Path("/var/log/containers").exists() == HOST["containers"]
    assert str(cluster.root) not in Path("/proc/self/mountinfo").read_text()
    # The cluster has mounts all the same: those of its Pods.
    make_pod(cluster.client(), "mounts", "sleep", "infinity")
    wait_phase(cluster.client(), "mounts", "Running")
    mounts = Path(f"/proc/{cluster.nodes[0].kubelet.pid}/mountinfo").read_text()
    assert f"{cluster.root}/n1/k/pods/" in mounts
    assert (
        f"{cluster.root}/n1/k/pods/"
        in Path(f"/proc/{cluster.components()['runtime'].pid}/mountinfo").read_text()
    )
    remove(cluster.client(), "mounts")


HOST: dict[str, Any] = {
    "panic_on_oops": Path("/proc/sys/kernel/panic_on_oops").read_text(),
    "overcommit_memory": Path("/proc/sys/vm/overcommit_memory").read_text(),
    "kubelet": Path("/var/lib/kubelet").exists(),
    "containers": Path("/var/log/containers").exists(),
}


def test_gates_versions_and_scheduler_settings_reach_the_components(programs: binaries.Binaries) -> None:
    config = """
profiles:
- schedulerName: mine
  pluginConfig:
  - name: DynamicResources
    args: {bindingTimeout: 20s}
"""
    spec = ClusterSpec(
        gates=(("DRADeviceTaints", False), ("DRAListTypeAttributes", True)),
        runtime_config=(("resource.k8s.io/v1beta1", True),),
        scheduler_config=config,
    )
    with LocalCluster(spec, programs) as cluster:
        cluster.wait_ready()
        api = cluster.client()
        metrics = api._send("GET", "/metrics", None, None, "text/plain", 10.0, stream=False).data.decode()
        values = {
            line.split('name="')[1].split('"')[0]: line.rsplit(" ", 1)[1]
            for line in metrics.splitlines()
            if line.startswith("kubernetes_feature_enabled{")
        }
        # The rules for taints go off with the taints.
        assert [
            values[name] for name in ("DRADeviceTaints", "DRADeviceTaintRules", "DRAListTypeAttributes")
        ] == [
            "0",
            "0",
            "1",
        ]
        versions = {entry["version"] for entry in api.request("GET", "/apis/resource.k8s.io")["versions"]}
        assert versions == {"v1", "v1beta1"}
        assert cluster.component("resourceclaim-controller") is cluster.component("controller-manager")
        with pytest.raises(ValueError, match='no component "shedular", did you mean "scheduler"'):
            cluster.component("shedular")


def test_a_wrong_scheduler_configuration_is_told(programs: binaries.Binaries) -> None:
    with (
        LocalCluster(ClusterSpec(scheduler_config="profiles: 7"), programs) as cluster,
        pytest.raises(ClusterError, match="scheduler ended with exit code 1; the end of its log:"),
    ):
        cluster.wait_ready()


def test_an_api_server_alone_takes_bare_nodes_and_drivers(programs: binaries.Binaries) -> None:
    subject = descriptor.load(reference_driver(), catalogue.capabilities())
    with LocalCluster(ClusterSpec(control_plane=False), programs) as cluster:
        assert set(cluster.components()) == {"etcd", "apiserver"}
        node = cluster.add_node(NodeSpec(name="bare"))
        node.run_driver(subject)
        assert node.kubelet.wait_registered(subject.name, SECONDS).driver == subject.name
        until(lambda: cluster.client().list("resource.k8s.io/v1", "resourceslices"), "a slice")


def test_two_clusters_start_side_by_side(programs: binaries.Binaries) -> None:
    spec = ClusterSpec(nodes=(NodeSpec(),))

    def start() -> LocalCluster:
        cluster = LocalCluster(spec, programs)
        cluster.wait_ready()
        return cluster

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        clusters = [job.result() for job in [pool.submit(start) for _ in range(2)]]
    try:
        assert len({cluster.url for cluster in clusters}) == 2
        for number, cluster in enumerate(clusters):
            make_pod(cluster.client(), f"of-{number}", "sleep", "infinity")
        for number, cluster in enumerate(clusters):
            wait_phase(cluster.client(), f"of-{number}", "Running")
            assert [pod["metadata"]["name"] for pod in cluster.client().list("v1", "pods", "default")] == [
                f"of-{number}"
            ]
    finally:
        for cluster in clusters:
            cluster.close()
    assert [owned(cluster.owner) for cluster in clusters] == [set(), set()]
    assert not any(cluster.root.exists() for cluster in clusters)


def test_a_taken_port_is_told(programs: binaries.Binaries) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(
            ClusterError, match=r"(?s)apiserver ended with exit code 1.*address already in use"
        ):
            LocalCluster(ClusterSpec(control_plane=False), programs, port=port)


def test_a_kubelet_that_cannot_run_is_told(programs: binaries.Binaries, tmp_path: Path) -> None:
    kubelet = tmp_path / "kubelet"
    kubelet.write_text("#!/bin/sh\necho no such cgroup >&2\nexit 5\n")
    kubelet.chmod(0o755)
    broken = binaries.Binaries(programs.version, {**programs.paths, "kubelet": kubelet})
    with (
        LocalCluster(ClusterSpec(nodes=(NodeSpec(),)), broken) as cluster,
        pytest.raises(
            ClusterError, match="kubelet-node-1 ended with exit code 5; the end of its log:\n  no such cgroup"
        ),
    ):
        cluster.wait_ready()
    assert owned(cluster.owner) == set()
    assert not cluster.root.exists()


OWNER = """
import sys, json
from clusters import binaries
from clusters.interface import ClusterSpec, NodeSpec
from clusters.local.cluster import COMPONENTS, LocalCluster

cluster = LocalCluster(ClusterSpec(nodes=(NodeSpec(),)), binaries.find("1.37", COMPONENTS))
cluster.wait_ready()
container = {"name": "main", "image": "any", "command": ["sleep", "infinity"]}
pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": [container]}}
cluster.client().create("v1", "pods", pod)
while cluster.client().get("v1", "pods", "p", "default")["status"].get("phase") != "Running":
    pass
print(json.dumps([cluster.owner, str(cluster.root), cluster.nodes[0].kubelet.pid]), flush=True)
sys.stdin.read()
"""


def test_nothing_is_left_when_the_owner_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        owner, root, kubelet = json.loads(process.stdout.readline())
        assert {"etcd", "kube-apiserver", "kube-controller", "kube-scheduler", "kubelet"} <= owned(owner)
        assert f"{root}/n1/k/pods/" in Path(f"/proc/{kubelet}/mountinfo").read_text()
        process.kill()
    until(lambda: not owned(owner), "no process is left")
    until(lambda: not Path(root).exists(), "no file is left")
    assert root not in Path("/proc/self/mountinfo").read_text()
    assert not any(f"{root}/" in text for text in mount_tables())


def mount_tables() -> Iterator[str]:
    """The mounts of every process of this machine."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                yield (folder / "mountinfo").read_text()
            except OSError:
                continue


ALONE = """
import ctypes, fcntl, json, socket, struct, time
from clusters import binaries
from clusters.interface import ClusterSpec, NodeSpec
from clusters.local.cluster import COMPONENTS, LocalCluster

programs = binaries.find("1.37", COMPONENTS)
assert ctypes.CDLL(None).unshare(0x40000000) == 0  # a network of its own, which is loopback alone
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
    fcntl.ioctl(control, 0x8914, struct.pack("16sh14x", b"lo", 0x41))  # up and running

kubelet = (("nodeStatusUpdateFrequency", "1s"), ("nodeStatusReportFrequency", "1s"))
with LocalCluster(ClusterSpec(nodes=(NodeSpec(),), kubelet=kubelet), programs) as cluster:
    cluster.wait_ready()
    api = cluster.client()
    container = {"name": "main", "image": "any", "command": ["probe"]}
    pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": [container]}}
    api.create("v1", "pods", pod)
    while api.get("v1", "pods", "p", "default")["status"].get("phase") != "Running":
        time.sleep(0.05)

    def beat():
        conditions = api.get("v1", "nodes", "node-1")["status"]["conditions"]
        return next(entry["lastHeartbeatTime"] for entry in conditions if entry["type"] == "Ready")

    first = beat()
    while beat() == first:
        time.sleep(0.05)
    while not api.log("default", "p"):
        time.sleep(0.05)
    print(json.dumps(api.get("v1", "nodes", "node-1")["status"]["addresses"]))
"""


def test_a_machine_without_a_network_is_enough() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ALONE], capture_output=True, text=True, check=False, timeout=500
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        {"type": "InternalIP", "address": "127.0.0.1"},
        {"type": "Hostname", "address": "node-1"},
    ]
