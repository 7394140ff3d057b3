"""A served API with a running scheduler, and the objects that its tests make."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from apiserver_harness import ADMIN, Http
from skipped_clock import SkippedClock, Wait

from allocator.ledger import Ledger
from clusters.embedded.apiserver.auth.tokens import StaticTokens
from clusters.embedded.apiserver.auth.users import MASTERS, User
from clusters.embedded.apiserver.config import ServerConfig
from clusters.embedded.apiserver.thread import ServerThread
from clusters.embedded.components.client import ApiClient
from clusters.embedded.components.component import Context
from clusters.embedded.components.host import ComponentHost
from clusters.embedded.scheduler.config import load_config
from clusters.embedded.scheduler.scheduler import Scheduler
from clusters.proxies.api_proxy import ApiProxy
from clusters.tls import client_context

NAMESPACE = "/api/v1/namespaces/default"
DRA = "/apis/resource.k8s.io/v1"
CLAIMS = f"{DRA}/namespaces/default/resourceclaims"
DRIVER = "gpu.example.com"
SCHEDULER = "scheduler-token"
USERS = {
    ADMIN: User("admin", groups=(MASTERS,)),
    SCHEDULER: User("system:kube-scheduler", groups=("system:authenticated",)),
}
Object = dict[str, Any]
Result = TypeVar("Result")


class Bench:
    """What a test has in its hands."""

    def __init__(self, server: ServerThread, gates: Mapping[str, bool]) -> None:
        self.server = server
        self.http = Http(server)
        self.clock = SkippedClock()
        self.host = ComponentHost()
        self._gates = gates
        self._tls = client_context(server.ca_pem)

    def add_scheduler(
        self,
        name: str = "scheduler",
        config: Any = "",
        *,
        through: ApiProxy | None = None,
        client: Callable[..., ApiClient] = ApiClient,
        ledger: Ledger | None = None,
    ) -> None:
        """Register a scheduler and start it; `through` is a proxy between it and the server."""
        loaded = load_config(config, self._gates)
        url, tls = self.server.url, self._tls
        if through is not None:
            url, tls = through.url, client_context(through.ca_pem)

        def context(log: logging.Logger) -> Context:
            requests = client(url, tls, SCHEDULER, "kube-scheduler/v1.37.2")
            return Context(requests, self.clock, self._gates, log)

        connect = None if ledger is None else lambda: ledger
        self.host.register(name, lambda: Scheduler(loaded, ledger=connect), context)
        self.host.start(name)

    # Objects.

    def node(
        self,
        name: str,
        labels: Mapping[str, str] | None = None,
        *,
        unschedulable: bool = False,
        **resources: str,
    ) -> Object:
        """A node with room for 110 pods, 4 cpus and 8Gi unless told otherwise."""
        allocatable = {"cpu": "4", "memory": "8Gi", "pods": "110", **resources}
        body = {
            "metadata": {"name": name, "labels": dict(labels or {})},
            "spec": {"unschedulable": unschedulable},
            "status": {"allocatable": allocatable, "capacity": allocatable},
        }
        self.http.created("/api/v1/nodes", body)
        # The server taints new nodes until somebody says that they are ready.
        answer = self.http.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})
        assert answer.code == 200, answer.body
        return dict(answer.json)

    def device_class(self, name: str = "gpu", expression: str = "true") -> Object:
        """A class with one selector."""
        body = {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}
        return dict(self.http.created(f"{DRA}/deviceclasses", body))

    def slice(
        self, node: str, *devices: Any, name: str = "", pool: str = "", slices: int = 1, **spec: Any
    ) -> Object:
        """A slice of a pool of that many slices; devices are names or whole entries."""
        body = {
            "metadata": {"name": name or f"{node}-{pool or node}"},
            "spec": {
                "driver": DRIVER,
                "nodeName": node,
                "pool": {"name": pool or node, "generation": 1, "resourceSliceCount": slices},
                "devices": [{"name": entry} if isinstance(entry, str) else entry for entry in devices],
                **spec,
            },
        }
        return dict(self.http.created(f"{DRA}/resourceslices", body))

    def claim(self, name: str, *, device_class: str = "gpu", **exactly: Any) -> Object:
        """A claim of one device."""
        request = {"name": "r", "exactly": {"deviceClassName": device_class, **exactly}}
        body = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
        return dict(self.http.created(CLAIMS, body))

    def pod(self, name: str, *claims: str, requests: Mapping[str, str] | None = None, **spec: Any) -> Object:
        """A pod of one container with existing claims."""
        resources = {"requests": dict(requests or {})}
        container = {"name": "a", "image": "probe:1", "resources": resources}
        listed = [{"name": f"c{number}", "resourceClaimName": claim} for number, claim in enumerate(claims)]
        if listed:
            resources["claims"] = [{"name": entry["name"]} for entry in listed]
        body = {
            "metadata": {"name": name},
            "spec": {"containers": [container], "resourceClaims": listed, **spec},
        }
        return dict(self.http.created(f"{NAMESPACE}/pods", body))

    # Observations.

    def get(self, path: str) -> Object:
        """An object."""
        answer = self.http.get(path)
        assert answer.code == 200, answer.body
        return dict(answer.json)

    def get_pod(self, name: str) -> Object:
        """A pod."""
        return self.get(f"{NAMESPACE}/pods/{name}")

    def get_claim(self, name: str) -> Object:
        """A claim."""
        return self.get(f"{CLAIMS}/{name}")

    def node_of(self, name: str) -> str:
        """Wait until the pod is bound; the node."""
        return self.until(
            lambda: self.get_pod(name)["spec"].get("nodeName", ""),
            lambda: f"{name} is not bound: {self.condition(name)}\n" + "\n".join(self.host.logs("scheduler")),
        )

    def condition(self, name: str) -> Object:
        """The condition PodScheduled, or nothing."""
        conditions = self.get_pod(name)["status"].get("conditions", [])
        return next((entry for entry in conditions if entry["type"] == "PodScheduled"), {})

    def refusal(self, name: str, part: str = "") -> Object:
        """Wait until the pod could not be scheduled and a text with this part says why; the condition.

        A pod may be looked at before what the test wrote just before it is seen, with another text.
        """

        def failed() -> Object:
            condition = self.condition(name)
            refused = condition.get("status") == "False" and part in condition.get("message", "")
            return condition if refused else {}

        return self.until(failed, lambda: f"{name} has not failed so: {self.get_pod(name)['status']}")

    def becomes(self, name: str, message: str) -> Object:
        """Wait until the pod is refused with this text; the condition."""

        def same() -> Object:
            condition = self.condition(name)
            return condition if condition.get("message") == message else {}

        return self.until(same, lambda: str(self.condition(name)))

    def events(self, reason: str, name: str) -> list[Object]:
        """Wait for events about a pod."""

        def found() -> list[Object]:
            items = self.get("/apis/events.k8s.io/v1/namespaces/default/events")["items"]
            return [item for item in items if item["reason"] == reason and item["regarding"]["name"] == name]

        return self.until(found, lambda: f"no event {reason} of {name}")

    def refusals(self, name: str) -> list[Object]:
        """The events FailedScheduling of a pod so far."""
        items = self.get("/apis/events.k8s.io/v1/namespaces/default/events")["items"]
        about = [item for item in items if item["regarding"]["name"] == name]
        return [item for item in about if item["reason"] == "FailedScheduling"]

    def device_of(self, claim: str) -> tuple[str, str]:
        """Pool and device of an allocated claim."""
        results = self.get_claim(claim)["status"]["allocation"]["devices"]["results"]
        return results[0]["pool"], results[0]["device"]

    def until(
        self, found: Callable[[], Result], why: Callable[[], str] = lambda: "", seconds: float = 20.0
    ) -> Result:
        """Wait for something true."""
        wait = Wait(self.clock, seconds)
        while True:
            result = found()
            if result:
                return result
            assert not wait.over(), why()
            threading.Event().wait(0.01)

    def close(self) -> None:
        """End all of it."""
        self.host.close()
        self.http.close()
        self.server.stop()


@contextmanager
def bench(config: Any = "", *, start: bool = True, **gates: bool) -> Iterator[Bench]:
    """A server and a scheduler that runs (unless told otherwise) while the block does."""
    server = ServerThread(ServerConfig(tokens=StaticTokens(USERS), feature_gates=gates)).start()
    result = Bench(server, gates)
    try:
        if start:
            result.add_scheduler(config=config)
        yield result
    finally:
        result.close()
