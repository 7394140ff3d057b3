"""A cluster for one driver process: the embedded API server, the faulting proxy before it, a kubelet's two sockets."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from driver_kit import DRIVER

from clusters.client import Client
from clusters.embedded.apiserver.auth.tokens import StaticTokens
from clusters.embedded.apiserver.auth.users import MASTERS, NODE_NAME, SERVICE_ACCOUNTS, User
from clusters.embedded.apiserver.config import ServerConfig
from clusters.embedded.apiserver.thread import ServerThread
from clusters.proxies.api_proxy import ApiProxy
from driver import inspect_state
from fake_hw import machines, tree
from node_api.gen import dra_v1_pb2, dra_v1beta1_pb2, registration_pb2
from node_api.services import DRA_V1, REGISTRATION, full_method
from node_api.sockets import channel

API = "resource.k8s.io/v1"
T = TypeVar("T")

RULES = [
    {
        "apiGroups": ["resource.k8s.io"],
        "resources": ["resourceslices"],
        "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
    },
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
]


def wait_until(look: Callable[[], T], seconds: float, what: str) -> T:
    """Poll until the result is true; the driver is another process, so there is nothing to wait on."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.02)
    return found


class Server:
    """One API server for the tests of a module; each test has a node of its own."""

    def __init__(self, directory: Path) -> None:
        self.tokens = StaticTokens({"admin": User("admin", groups=(MASTERS,))})
        self.thread = ServerThread(ServerConfig(tokens=self.tokens)).start()
        ca = directory / "ca.pem"
        ca.write_bytes(self.thread.ca_pem)
        self.admin = Client(self.thread.url, ca, "admin")
        self._nodes = 0
        self._make("rbac.authorization.k8s.io/v1", "ClusterRole", "driver", rules=RULES)
        self._make(
            "rbac.authorization.k8s.io/v1",
            "ClusterRoleBinding",
            "driver",
            roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "driver"},
            subjects=[{"kind": "ServiceAccount", "name": "driver", "namespace": "default"}],
        )
        self._make("v1", "Namespace", "ns")

    def _make(self, api_version: str, kind: str, name: str, **more: Any) -> None:
        body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **more}
        self.admin.create(api_version, f"{kind.lower()}s", body)

    def close(self) -> None:
        self.admin.close()
        self.thread.stop()

    def new_node(self) -> tuple[str, str]:
        """Make a Node; its name and a token of the driver's service account on it."""
        self._nodes += 1
        name = f"node-{self._nodes}"
        self._make("v1", "Node", name)
        user = User(
            "system:serviceaccount:default:driver",
            groups=(SERVICE_ACCOUNTS, "system:serviceaccounts:default", "system:authenticated"),
            extra={NODE_NAME: (name,)},
        )
        self.tokens.add(f"token-{name}", user)
        return name, f"token-{name}"


class World:
    """One node with a machine and, when `start`ed, the driver."""

    def __init__(self, server: Server, base: Path, machine: str = "dual-numa-4") -> None:
        self.server, self.admin, self.base = server, server.admin, base
        self.node, token = server.new_node()
        self.proxy = ApiProxy(server.thread.url, server.thread.ca_pem, identity="driver")
        self.kubeconfig = base / "kubeconfig"
        self.proxy.write_kubeconfig(self.kubeconfig, token=token)
        self.hw = base / "hw"
        tree.create(machines.get(machine), self.hw, mknod=False)
        # Socket paths are limited to 107 bytes; pytest's directories are long.
        self._short = tempfile.TemporaryDirectory(prefix="dw")
        self.plugin, self.registry = Path(self._short.name) / "p", Path(self._short.name) / "r"
        self.registry.mkdir()
        self.cdi = base / "cdi"
        self.process: subprocess.Popen[bytes] | None = None
        self.log = base / "driver.log"
        self.log.touch()

    def close(self) -> None:
        self.kill()
        self.proxy.close()
        self._short.cleanup()

    def command(self, *more: str) -> list[str]:
        return [
            sys.executable, "-m", "driver", "--profile", "gpu", "--name", DRIVER, "--node-name", self.node,
            "--kubeconfig", str(self.kubeconfig), "--plugin-dir", str(self.plugin),
            "--registry-dir", str(self.registry), "--cdi-dir", str(self.cdi), "--hw-root", str(self.hw), *more,
        ]  # fmt: skip

    def start(self, *more: str, failpoint: str = "", register: bool = True) -> World:
        """Start the driver and register it as a kubelet does."""
        environment = {**os.environ, "DRAKIT_FAILPOINT": failpoint}
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(self.command(*more), stderr=output, env=environment)
        if register:
            wait_until(lambda: self.listening() or self._ended(), 20, "the registration socket")
            self.info = self.get_info()
            self.notify()
        return self

    def _ended(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"the driver has ended: {self.log.read_text()}"
        return False

    def dead(self) -> bool:
        """Whether the process that was started has ended."""
        return self.process is None or self.process.poll() is not None

    def listening(self) -> bool:
        """Whether somebody accepts connections on the registration socket."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            return probe.connect_ex(str(self.registration_socket)) == 0

    @property
    def registration_socket(self) -> Path:
        return self.registry / f"{DRIVER}-reg.sock"

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(20)
        self.process = None
        return code

    def wait_killed(self) -> None:
        assert self.process is not None
        assert self.process.wait(20) == -signal.SIGKILL
        self.process = None

    # The kubelet's side.

    def call(self, path: str | Path, method: str, request: Any, response: Any, timeout: float = 20) -> Any:
        with channel(path) as connection:
            call = connection.unary_unary(
                method, request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=response.FromString,
            )  # fmt: skip
            return call(request, timeout=timeout)

    def get_info(self) -> Any:
        method = full_method(REGISTRATION, "GetInfo")
        pb = registration_pb2
        return self.call(self.registration_socket, method, pb.InfoRequest(), pb.PluginInfo)

    def notify(self, error: str = "") -> None:
        pb = registration_pb2
        status = pb.RegistrationStatus(plugin_registered=not error, error=error)
        method = full_method(REGISTRATION, "NotifyRegistrationStatus")
        self.call(self.registration_socket, method, status, pb.RegistrationStatusResponse)

    def _claims(
        self, action: str, service: str, items: tuple[dict[str, Any], ...], timeout: float
    ) -> dict[str, Any]:
        pb = dra_v1_pb2 if service == DRA_V1 else dra_v1beta1_pb2
        request = getattr(pb, f"Node{action}ResourcesRequest")()
        for item in items:
            metadata = item["metadata"]
            request.claims.add(namespace=metadata["namespace"], name=metadata["name"], uid=metadata["uid"])
        response = getattr(pb, f"Node{action}ResourcesResponse")
        method = full_method(service, f"Node{action}Resources")
        return dict(self.call(self.info.endpoint, method, request, response, timeout).claims)

    def prepare(self, *items: dict[str, Any], service: str = DRA_V1, timeout: float = 20) -> dict[str, Any]:
        return self._claims("Prepare", service, items, timeout)

    def unprepare(self, *items: dict[str, Any], service: str = DRA_V1, timeout: float = 20) -> dict[str, Any]:
        return self._claims("Unprepare", service, items, timeout)

    # The API's side.

    def claim(self, name: str, *devices: str, **more: Any) -> dict[str, Any]:
        """Make a claim that is allocated these devices, as a scheduler would."""
        name = f"{name}-{self.node}"
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": max(len(devices), 1)}}
        item = self.admin.create(
            API,
            "resourceclaims",
            {
                "apiVersion": API,
                "kind": "ResourceClaim",
                "metadata": {"name": name, "namespace": "ns"},
                "spec": {"devices": {"requests": [request]}},
            },
            "ns",
        )
        if not devices:
            return item
        results = [
            {"driver": DRIVER, "pool": self.node, "device": device, "request": "gpu", **more}
            for device in devices
        ]
        allocation = {"devices": {"results": results}, "allocationTimestamp": "2026-01-01T00:00:00Z"}
        item["status"] = {"allocation": allocation}
        return self.admin.update(API, "resourceclaims", item, subresource="status")

    def slices(self) -> list[dict[str, Any]]:
        return self.admin.list(API, "resourceslices", fieldSelector=f"spec.nodeName={self.node}")

    def wait_published(self, devices: int = 4) -> list[dict[str, Any]]:
        """Slices with so many devices."""

        def look() -> list[dict[str, Any]]:
            found = self.slices()
            total = sum(len(item["spec"].get("devices") or []) for item in found)
            return found if found and total == devices else []

        return wait_until(look, 20, f"slices with {devices} devices")

    # The driver's own words.

    def not_ready(self) -> str:
        """The reasons why the driver is not ready; "" when it is."""
        return "" if (reasons := inspect_state.reasons(self.plugin)) == [] else "\n".join(reasons)

    def held(self) -> dict[str, Any]:
        """UID -> entry of the claims that the driver holds."""
        return dict(inspect_state.document(self.plugin)["claims"])

    def cdi_names(self) -> list[str]:
        return sorted(path.name for path in self.cdi.iterdir()) if self.cdi.is_dir() else []


@contextmanager
def server(directory: Path) -> Iterator[Server]:
    """An API server that is stopped at the end."""
    found = Server(directory)
    try:
        yield found
    finally:
        found.close()


__all__ = ["API", "Server", "World", "server", "wait_until"]
