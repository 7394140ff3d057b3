"""A kubelet with a real API server, a real runtime and a small driver, for the tests of its Pod half."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from skipped_clock import SkippedClock, Wait
from small_driver import NAME, SmallDriver

from clusters.client import ClientError
from clusters.containers.runtime.runtime import Runtime
from clusters.embedded.apiserver.auth.tokens import StaticTokens
from clusters.embedded.apiserver.auth.users import MASTERS, User
from clusters.embedded.apiserver.config import ServerConfig
from clusters.embedded.apiserver.thread import ServerThread
from clusters.embedded.components.client import ApiClient
from clusters.embedded.components.component import Context
from clusters.embedded.kubelet.config import KubeletConfig
from clusters.embedded.kubelet.kubelet import Kubelet
from clusters.embedded.kubelet.plugins import Backoff, PluginManager, Timeouts
from clusters.tls import client_context

NODE = "n1"
SECONDS = 20.0
RESOURCE = "resource.k8s.io/v1"
Object = dict[str, Any]
Driver = TypeVar("Driver", bound=SmallDriver)


@dataclass(frozen=True)
class Folders:
    root: Path


class Bench:
    """One node. `client` is an administrator's."""

    def __init__(
        self, server: ServerThread, root: Path, gates: Mapping[str, bool], config: KubeletConfig
    ) -> None:
        self.server, self.root, self.gates, self.config = server, root, gates, config
        self.clock = SkippedClock()
        self.registry = root / "registry"
        self.cdi = root / "cdi"
        self.cdi.mkdir(exist_ok=True)
        self.runtime = Runtime([self.cdi], root / "rt", self.clock)
        self.client = self.client_of("admin", "tester")
        self.log = logging.getLogger("test-kubelet")
        self.managers: list[PluginManager] = []
        self.task: asyncio.Task[None] | None = None
        self.node_client: ApiClient | None = None

    def client_of(self, token: str, agent: str) -> ApiClient:
        return ApiClient(self.server.url, client_context(self.server.ca_pem), token, agent)

    def plugins(self) -> PluginManager:
        manager = PluginManager(
            NODE,
            self.registry,
            poll_interval=0.01,
            backoff=Backoff(0.05, 2, 1),
            timeouts=Timeouts(dial=2, call=10),
        )
        self.managers.append(manager)
        return manager

    def start(self) -> None:
        self.node_client = self.client_of("node", "kubelet")
        context = Context(self.node_client, self.clock, self.gates, self.log)
        kubelet = Kubelet(NODE, Folders(self.root), self.plugins, self.runtime, self.config)
        self.task = asyncio.create_task(kubelet.run(context))

    async def kill(self) -> None:
        assert self.task is not None and self.node_client is not None
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.node_client.close()
        self.task = None

    async def restart(self) -> None:
        await self.kill()
        self.start()

    async def until(self, check: Callable[[], Awaitable[Any]], what: str, seconds: float = SECONDS) -> Any:
        wait = Wait(self.clock, seconds)
        while True:
            if self.task is not None and self.task.done():
                self.task.result()
            found = await check()
            if found:
                return found
            assert not wait.over(), f"{what}; events: {await self.events()}"
            await asyncio.sleep(0.02)

    async def pod(self, name: str) -> Object | None:
        return await self.client.find("v1", "pods", name, "default")

    async def create(self, name: str, *containers: Object, **spec: Any) -> Object:
        return await self.client.create("v1", "pods", pod(name, *containers, **spec), "default")

    async def phase(self, name: str, phase: str, seconds: float = SECONDS) -> Object:
        async def check() -> Object | None:
            found = await self.pod(name)
            return found if found and found["status"].get("phase") == phase else None

        return await self.until(check, f"pod {name} is {phase}: {await self.pod(name)}", seconds)

    async def ready(self, name: str, seconds: float = SECONDS) -> Object:
        async def check() -> Object | None:
            found = await self.pod(name)
            return found if found and condition(found, "Ready")["status"] == "True" else None

        return await self.until(check, f"pod {name} is ready", seconds)

    async def waiting(self, name: str) -> Object:
        """The pod, once the kubelet has said that its containers wait; events come before that."""

        async def check() -> Object | None:
            found = await self.pod(name)
            told = (
                found and found["status"]["phase"] == "Pending" and found["status"].get("containerStatuses")
            )
            return found if told else None

        return await self.until(check, f"pod {name} waits")

    async def gone(self, name: str, seconds: float = SECONDS) -> None:
        async def check() -> bool:
            return await self.pod(name) is None

        await self.until(check, f"pod {name} is gone", seconds)

    async def delete(self, name: str, grace: int | None = None) -> None:
        body = {} if grace is None else {"gracePeriodSeconds": grace}
        await self.client.delete("v1", "pods", name, "default", body)

    async def events(self, reason: str = "") -> list[tuple[str, str]]:
        found = await self.client.list("v1", "events", "default")
        return [
            (item["reason"], item["message"])
            for item in found["items"]
            if not reason or item["reason"] == reason
        ]

    async def event(self, reason: str, text: str) -> Object:
        async def check() -> Object | None:
            found = await self.client.list("v1", "events", "default")
            for item in found["items"]:
                if item["reason"] == reason and text in item["message"]:
                    return item
            return None

        return await self.until(check, f"event {reason} {text!r}")

    async def claim(
        self, name: str, *drivers: str, requests: tuple[str, ...] = ("r",), **more: Any
    ) -> Object:
        """A claim that is allocated: one device a driver and request."""
        exactly = {"deviceClassName": "c"}
        body = {
            "apiVersion": RESOURCE,
            "kind": "ResourceClaim",
            "metadata": {"name": name},
            "spec": {"devices": {"requests": [{"name": item, "exactly": exactly} for item in requests]}},
        }
        made = await self.client.create(RESOURCE, "resourceclaims", body, "default")
        results = [
            {"request": item, "driver": driver, "pool": "p", "device": f"d{index}", **more}
            for index, item in enumerate(requests)
            for driver in (drivers or (NAME,))
        ]
        status = {"allocation": {"devices": {"results": results}}}
        return await self.client.update(RESOURCE, "resourceclaims", {**made, "status": status}, "status")

    async def reserve(self, name: str, *pods: Object) -> None:
        claim = await self.client.get(RESOURCE, "resourceclaims", name, "default")
        consumers = claim["status"].get("reservedFor") or []
        consumers += [
            {"resource": "pods", "name": item["metadata"]["name"], "uid": item["metadata"]["uid"]}
            for item in pods
        ]
        claim["status"]["reservedFor"] = consumers
        await self.client.update(RESOURCE, "resourceclaims", claim, "status")


POLITE = ("bash", "-c", "trap 'exit 0' TERM; sleep 9999 & wait")
"""Runs until it is asked to end, and ends then."""


def container(name: str = "c", *command: str, **more: Any) -> Object:
    return {"name": name, "image": "probe:1", "command": list(command or POLITE), **more}


def pod(name: str, *containers: Object, **spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "nodeName": NODE,
            "terminationGracePeriodSeconds": 30,
            "containers": list(containers) or [container()],
            **spec,
        },
    }


def condition(found: Object, kind: str) -> Object:
    conditions = found["status"].get("conditions") or []
    return next((item for item in conditions if item["type"] == kind), {"status": None})


def state(found: Object, name: str = "c") -> Object:
    statuses = [
        *(found["status"].get("containerStatuses") or []),
        *(found["status"].get("initContainerStatuses") or []),
    ]
    return next(item for item in statuses if item["name"] == name)


USERS = {
    "admin": User("admin", groups=(MASTERS,)),
    "node": User(f"system:node:{NODE}", groups=("system:nodes", "system:authenticated")),
}


@contextlib.asynccontextmanager
async def bench(
    gates: Mapping[str, bool] | None = None,
    *,
    start: bool = True,
    server: ServerThread | None = None,
    **config: Any,
) -> AsyncIterator[Bench]:
    """A node whose kubelet is started, unless told otherwise."""
    own = ServerThread(ServerConfig(tokens=StaticTokens(USERS), feature_gates=dict(gates or {})))
    await asyncio.to_thread(own.start)
    root = Path(tempfile.mkdtemp(prefix="kl", dir="/tmp"))
    made = Bench(own, root, gates or {}, KubeletConfig(**{"sync_frequency": 0.3, "api_token": "t", **config}))
    try:
        # What the controller does that publishes the authority's certificate; every Pod mounts it.
        authority = {"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": own.ca_pem.decode()}}
        await made.client.create(
            "v1", "configmaps", {"apiVersion": "v1", "kind": "ConfigMap", **authority}, "default"
        )
        if start:
            made.start()
        yield made
    finally:
        if made.task is not None:
            await made.kill()
        for manager in made.managers:
            await asyncio.to_thread(manager.stop)
        await made.client.close()
        await made.runtime.close()
        await asyncio.to_thread(own.stop)
        shutil.rmtree(root)


@contextlib.asynccontextmanager
async def driver(made: Bench, kind: type[Driver] = SmallDriver, **attributes: Any) -> AsyncIterator[Driver]:  # type: ignore[assignment]
    """A registered driver."""
    small = kind(made.root, **{key: attributes.pop(key) for key in ("name",) if key in attributes})
    for key, value in attributes.items():
        setattr(small, key, value)
    await asyncio.to_thread(small.start)
    try:

        async def check() -> bool:
            return any(manager.is_registered(small.name) for manager in made.managers)

        await made.until(check, "the driver is registered")
        yield small
    finally:
        await asyncio.to_thread(small.stop)


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


async def missing(made: Bench, name: str) -> bool:
    try:
        await made.client.get("v1", "pods", name, "default")
    except ClientError as error:
        return error.code == 404
    return False
