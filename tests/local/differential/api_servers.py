"""The two servers of the differential test, each a process of its own, with the same users and the same objects."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml
from api_play import Player
from api_sequences import EDITOR
from api_state import NAMESPACE
from api_wire import Endpoint

from clusters import binaries
from clusters.interface import ClusterSpec
from clusters.local.cluster import LocalCluster

TOKEN: Final = "differential-administrator"
ALPHA_GATES: Final = dict.fromkeys(
    (
        "DRAPartitionableDevicesType",
        "DRADeviceCompatibilityGroups",
        "DRAListTypeAttributes",
        "DRADerivedAttributes",
        "DRAFractionalCapacityRange",
        "DRANodeAllocatableResources",
        "DRAOptionalNodeOperations",
        "DRAResourcePoolStatus",
    ),
    True,
)
"""The gates of DRA fields that are off by default in 1.37."""

_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 10.0
_EVERYTHING: Final = ["create", "update", "patch", "delete", "deletecollection", "get", "list", "watch"]
# Rules of the user who may do everything but allocate, which granular authorization of claims judges by itself.
_EDITOR_RULES: Final = [
    {"apiGroups": [""], "resources": ["configmaps", "pods", "pods/status"], "verbs": _EVERYTHING},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": _EVERYTHING},
    {
        "apiGroups": ["resource.k8s.io"],
        "resources": [
            "resourceclaims", "resourceclaims/status", "resourceclaimtemplates", "resourceslices",
            "devicetaintrules",
        ],
        "verbs": _EVERYTHING,
    },
    {
        "apiGroups": ["resource.k8s.io"],
        "resources": ["resourceclaims/driver"],
        "resourceNames": ["gpu.example.com"],
        "verbs": ["arbitrary-node:update", "arbitrary-node:patch"],
    },
]  # fmt: skip


@contextmanager
def process(command: list[str], log: Path, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends with the block."""
    with log.open("wb") as output:
        started = subprocess.Popen(
            command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, start_new_session=True, **options
        )
    try:
        yield started
    finally:
        started.send_signal(signal.SIGTERM)
        try:
            started.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


def _wait_ready(endpoint: Endpoint, started: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + _START_SECONDS
    player = Player(endpoint)
    last = "no answer"
    try:
        while time.monotonic() < end:
            if started.poll() is not None:
                raise RuntimeError(f"the server ended with {started.returncode}: {log.read_text()[-2000:]}")
            try:
                code, body = player.request("GET", "/readyz")
                if code == 200:
                    return
                last = f"{code} {body}"
            except OSError as error:
                last = str(error)
            time.sleep(0.1)
    finally:
        player.close()
    raise RuntimeError(
        f"the server is not ready after {_START_SECONDS:.0f} s: {last}; {log.read_text()[-2000:]}"
    )


@contextmanager
def real(found: binaries.Binaries, gates: Mapping[str, bool]) -> Iterator[Endpoint]:
    """etcd and kube-apiserver."""
    spec = ClusterSpec(gates=tuple(gates.items()), runtime_config=(("api/all", True),), control_plane=False)
    with LocalCluster(spec, found) as cluster, tempfile.TemporaryDirectory(prefix="apidiff-") as folder:
        path = Path(folder, "kubeconfig")
        cluster.write_kubeconfig(path)
        document = yaml.safe_load(path.read_text())
        ca = base64.b64decode(document["clusters"][0]["cluster"]["certificate-authority-data"])
        url = urlsplit(document["clusters"][0]["cluster"]["server"])
        yield Endpoint(str(url.hostname), int(url.port or 0), ca, document["users"][0]["user"]["token"])


@contextmanager
def embedded(gates: Mapping[str, bool]) -> Iterator[Endpoint]:
    """The embedded API server."""
    with tempfile.TemporaryDirectory(prefix="apidiff-") as folder:
        root = Path(folder)
        settings = json.dumps({"gates": dict(gates), "token": TOKEN, "told": str(root / "told.json")})
        command = [sys.executable, __file__, settings]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        with process(command, root / "server.log", env=environment) as started:
            told = root / "told.json"
            end = time.monotonic() + _START_SECONDS
            while not told.exists():
                if started.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(
                        f"the embedded server does not start: {(root / 'server.log').read_text()}"
                    )
                time.sleep(0.02)
            said = json.loads(told.read_text())
            endpoint = Endpoint("127.0.0.1", said["port"], said["ca"].encode(), TOKEN)
            _wait_ready(endpoint, started, root / "server.log")
            yield endpoint


def furnish(endpoint: Endpoint) -> None:
    """The namespace and the users of the sequences."""
    player = Player(endpoint)
    role, labels = "differential-editor", {"resource.kubernetes.io/admin-access": "true"}
    subject = {"kind": "User", "name": EDITOR, "apiGroup": "rbac.authorization.k8s.io"}
    reference = {"kind": "ClusterRole", "name": role, "apiGroup": "rbac.authorization.k8s.io"}
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    try:
        for path, body in (
            ("/api/v1/namespaces", {"metadata": {"name": NAMESPACE, "labels": labels}}),
            (account, {"metadata": {"name": "default"}}),
            (f"{rbac}/clusterroles", {"metadata": {"name": role}, "rules": _EDITOR_RULES}),
            (
                f"{rbac}/clusterrolebindings",
                {"metadata": {"name": role}, "subjects": [subject], "roleRef": reference},
            ),
        ):
            code, answer = player.request("POST", path, body)
            if code not in (201, 409):
                raise RuntimeError(f"POST {path}: {code} {answer}")
        _wait_allowed(player)
    finally:
        player.close()


def _wait_allowed(player: Player) -> None:
    """Authorization follows its objects with a delay."""
    attributes = {"verb": "create", "resource": "configmaps", "namespace": NAMESPACE}
    review = {"spec": {"user": EDITOR, "resourceAttributes": attributes}}
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end:
        _, answer = player.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        if answer["status"]["allowed"]:
            return
        time.sleep(0.05)
    raise RuntimeError("the editor's rights do not take effect")


def _serve(settings: dict[str, Any]) -> None:
    from clusters.embedded.apiserver.auth.tokens import StaticTokens
    from clusters.embedded.apiserver.auth.users import MASTERS, User
    from clusters.embedded.apiserver.config import ServerConfig
    from clusters.embedded.apiserver.thread import ServerThread

    tokens = StaticTokens({settings["token"]: User("admin", uid="admin", groups=(MASTERS,))})
    server = ServerThread(
        ServerConfig(tokens=tokens, feature_gates=settings["gates"], runtime_config={"api/all": True})
    ).start()
    told = Path(settings["told"])
    said = {"port": int(server.url.rsplit(":", 1)[1]), "ca": server.ca_pem.decode()}
    new = told.with_suffix(".new")
    new.write_text(json.dumps(said))
    new.rename(told)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    server.stop()


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    _serve(json.loads(sys.argv[1]))
