"""The Go driver as it would be deployed: a DaemonSet from an image, replaced while Pods use its devices."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml
from kind_kit import GO_DRIVER, log_of, make_pod, remove_pod, until, wait_phase

from clusters.client import Client, ClientError
from clusters.kind import binary
from clusters.kind.engine import Engine
from clusters.observation import parse_observation
from drakit.state import Record

pytestmark = [pytest.mark.kind, pytest.mark.timeout(2400)]

DRIVER = "deployed.godriver.drakit.dev"
NAMESPACE = "godriver"
RESOURCE = "resource.k8s.io/v1"
IMAGES = ("drakit.test/godriver:v1", "drakit.test/godriver:v2")
RESOURCES = {
    "Namespace": ("v1", "namespaces"),
    "ServiceAccount": ("v1", "serviceaccounts"),
    "ClusterRole": ("rbac.authorization.k8s.io/v1", "clusterroles"),
    "ClusterRoleBinding": ("rbac.authorization.k8s.io/v1", "clusterrolebindings"),
    "ValidatingAdmissionPolicy": ("admissionregistration.k8s.io/v1", "validatingadmissionpolicies"),
    "ValidatingAdmissionPolicyBinding": (
        "admissionregistration.k8s.io/v1",
        "validatingadmissionpolicybindings",
    ),
    "DeviceClass": (RESOURCE, "deviceclasses"),
    "DaemonSet": ("apps/v1", "daemonsets"),
}


def load_images(engine: Engine, cluster: str, folder: Path) -> None:
    """Build the driver, put it into two images that differ in a file, and load them onto the nodes as a user would."""
    program = folder / "godriver"
    subprocess.run(
        ["go", "build", "-trimpath", "-ldflags=-s -w", "-o", str(program), "."],
        cwd=GO_DRIVER,
        env={**os.environ, "CGO_ENABLED": "0"},
        check=True,
        capture_output=True,
    )
    for image in IMAGES:
        root = folder / "root.tar"
        with tarfile.open(root, "w") as tar:
            tar.add(program, "godriver")
            version = tarfile.TarInfo("version")
            version.size = len(image)
            tar.addfile(version, io.BytesIO(image.encode()))
        engine.run("import", "--change", 'ENTRYPOINT ["/godriver"]', str(root), image)
    archive = folder / "images.tar"
    engine.run("save", "--output", str(archive), *IMAGES)
    engine.run("rmi", *IMAGES)
    subprocess.run(
        [str(binary.find(print).path), "load", "image-archive", str(archive), "--name", cluster],
        env=engine.environment(),
        check=True,
        capture_output=True,
    )


@pytest.fixture(scope="module")
def deployed(
    api: Client, record: Record, engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Record]:
    """The driver runs on both nodes."""
    cluster = record.nodes[0].removesuffix("-control-plane")
    load_images(engine, cluster, tmp_path_factory.mktemp("images"))
    objects = list(yaml.safe_load_all((Path(__file__).parent / "manifests" / "driver.yaml").read_text()))
    for obj in objects:
        api.create(*RESOURCES[obj["kind"]], obj)
    until(lambda: nodes_with_slices(api) == set(record.nodes), "both nodes have slices")
    yield record
    for obj in reversed(objects):
        api.delete(
            *RESOURCES[obj["kind"]],
            obj["metadata"]["name"],
            obj["metadata"].get("namespace"),
            body={"propagationPolicy": "Foreground"},
        )
    until(lambda: api.find("v1", "namespaces", NAMESPACE) is None, "the namespace is gone")
    for item in slices(api):
        api.delete(RESOURCE, "resourceslices", item["metadata"]["name"])


def slices(api: Client) -> list[dict[str, Any]]:
    return api.list(RESOURCE, "resourceslices", fieldSelector=f"spec.driver={DRIVER}")


def nodes_with_slices(api: Client) -> set[str]:
    return {item["spec"]["nodeName"] for item in slices(api)}


def driver_pods(api: Client) -> list[dict[str, Any]]:
    return api.list("v1", "pods", NAMESPACE, labelSelector="app=godriver")


def make_user(api: Client, name: str, node: str) -> None:
    """A Pod with a device of its own on a node, and its claim of the same name."""
    request = {"name": "device", "exactly": {"deviceClassName": DRIVER}}
    claim = {
        "apiVersion": RESOURCE,
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [request]}},
    }
    api.create(RESOURCE, "resourceclaims", claim, "default")
    spec = {
        "nodeSelector": {"kubernetes.io/hostname": node},
        "resourceClaims": [{"name": "device", "resourceClaimName": name}],
        "containers": [{"resources": {"claims": [{"name": "device"}]}}],
    }
    make_pod(api, name, spec)


def remove_user(api: Client, name: str) -> None:
    remove_pod(api, name)
    api.delete(RESOURCE, "resourceclaims", name, "default")
    until(lambda: api.find(RESOURCE, "resourceclaims", name, "default") is None, f"the end of claim {name}")


class History(threading.Thread):
    """Every state of the claims of the namespace, in order."""

    def __init__(self, api: Client, since: str) -> None:
        super().__init__(daemon=True)
        self._api = api
        self._since = since
        self.states: list[tuple[str, str, tuple[str, ...], tuple[str, ...]]] = []

    def run(self) -> None:
        # The cluster may end before the watch.
        with contextlib.suppress(urllib3.exceptions.HTTPError):
            self._follow()

    def _follow(self) -> None:
        for event in self._api.watch(
            RESOURCE, "resourceclaims", "default", timeout=300.0, resourceVersion=self._since
        ):
            claim = event["object"]
            status = claim.get("status") or {}
            results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or []
            devices = tuple(f"{result['pool']}/{result['device']}" for result in results)
            consumers = tuple(entry["name"] for entry in status.get("reservedFor") or [])
            self.states.append((event["type"], claim["metadata"]["name"], devices, consumers))

    def of(self, name: str) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
        return [
            (kind, devices, consumers) for kind, claim, devices, consumers in self.states if claim == name
        ]


def test_a_driver_is_replaced_under_running_pods_without_a_lost_claim(deployed: Record, api: Client) -> None:
    history = History(
        api, api.request("GET", "/apis/resource.k8s.io/v1/resourceclaims")["metadata"]["resourceVersion"]
    )
    history.start()
    users = {f"user-{number}": deployed.nodes[number % 2] for number in range(4)}
    for name, node in users.items():
        make_user(api, name, node)
    for name in users:
        wait_phase(api, name, "Running")
        environment = parse_observation(log_of(api, name)).environment
        assert any(key.startswith("GODRIVER_") for key in environment), environment
    before = {name: container_of(api, name) for name in users}
    old = {pod["metadata"]["uid"] for pod in driver_pods(api)}

    patch = {"spec": {"template": {"spec": {"containers": [{"name": "driver", "image": IMAGES[1]}]}}}}
    api.patch(
        "apps/v1",
        "daemonsets",
        "godriver",
        patch,
        NAMESPACE,
        content_type="application/strategic-merge-patch+json",
    )
    # Pods that come and go in the meantime wait for the driver, and nobody gets a device twice.
    late: dict[str, str] = {}

    def replaced() -> bool:
        if len(late) < 4:
            name = f"late-{len(late)}"
            late[name] = deployed.nodes[len(late) % 2]
            make_user(api, name, late[name])
        pods = driver_pods(api)
        new = [pod for pod in pods if pod["metadata"]["uid"] not in old]
        return len(pods) == len(new) == 2 and all(
            status["ready"] and status["image"].endswith(":v2")
            for pod in new
            for status in (pod["status"].get("containerStatuses") or [{"ready": False, "image": ""}])
        )

    until(replaced, "both drivers are replaced")
    for name in late:
        wait_phase(api, name, "Running")
    assert {name: container_of(api, name) for name in users} == before
    for name in [*users, *late]:
        remove_user(api, name)
    until(
        lambda: {name for kind, name, _, _ in history.states if kind == "DELETED"} == {*users, *late},
        "the watch has seen the end of all claims",
    )
    for name in [*users, *late]:
        check_history(history.of(name), name)
    assert not cdi_files(deployed, api)


def container_of(api: Client, name: str) -> tuple[str, int]:
    [status] = api.get("v1", "pods", name, "default")["status"]["containerStatuses"]
    return status["containerID"], status["restartCount"]


def check_history(states: list[tuple[str, tuple[str, ...], tuple[str, ...]]], name: str) -> None:
    """A claim was allocated once, to one device, and was its Pod's from then on until that had gone."""
    held = [(devices, consumers) for kind, devices, consumers in states if devices]
    assert len({devices for devices, _ in held}) == 1, states
    first = next(number for number, (_, devices, _) in enumerate(states) if devices)
    last = max(number for number, (_, devices, _) in enumerate(states) if devices)
    assert all(devices for _, devices, _ in states[first : last + 1]), states
    # The consumer goes at the end, in the write that takes the allocation away or in one before.
    consumers = [consumers for _, consumers in held]
    assert consumers == sorted(consumers, reverse=True) and consumers[0] == (name,), states


def cdi_files(record: Record, api: Client) -> list[str]:
    """What the driver has left for the runtime of a node."""
    root = Path(record.logs).parent
    return [str(path) for path in root.glob("n*/cdi/*") if DRIVER in path.name]


def test_a_driver_writes_slices_of_its_own_node_alone(deployed: Record, api: Client, tmp_path: Path) -> None:
    [pod] = [pod for pod in driver_pods(api) if pod["spec"]["nodeName"] == deployed.nodes[0]]
    bound = {
        "kind": "Pod",
        "apiVersion": "v1",
        "name": pod["metadata"]["name"],
        "uid": pod["metadata"]["uid"],
    }
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"boundObjectRef": bound},
    }
    token = api.create("v1", "serviceaccounts", request, NAMESPACE, "godriver", "token")["status"]["token"]
    driver = Client(deployed.server, Path(deployed.logs).parent / "ca.pem", token)

    def body(node: str) -> dict[str, Any]:
        pool = {"name": "extra", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": [{"name": "more"}]}
        return {"apiVersion": RESOURCE, "kind": "ResourceSlice", "metadata": {"name": "extra"}, "spec": spec}

    with pytest.raises(ClientError, match=f"may not write slices of node {deployed.nodes[1]}"):
        driver.create(RESOURCE, "resourceslices", body(deployed.nodes[1]))
    others = next(item for item in slices(api) if item["spec"]["nodeName"] == deployed.nodes[1])
    with pytest.raises(ClientError, match="may not write slices"):
        driver.delete(RESOURCE, "resourceslices", others["metadata"]["name"])
    driver.create(RESOURCE, "resourceslices", body(deployed.nodes[0]))
    driver.delete(RESOURCE, "resourceslices", "extra")
    driver.close()
