"""An API server with workload controllers under their own identities, and a kubelet of the test."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from skipped_clock import SkippedClock, Wait

from clusters.client import Client, ClientError
from clusters.embedded.apiserver.auth.tokens import StaticTokens
from clusters.embedded.apiserver.auth.users import MASTERS, User
from clusters.embedded.apiserver.config import ServerConfig
from clusters.embedded.apiserver.thread import ServerThread
from clusters.embedded.components.client import ApiClient
from clusters.embedded.components.component import Context
from clusters.embedded.components.informer import Informer
from clusters.embedded.controllers.job import JobController
from clusters.embedded.controllers.workloads import WORKLOADS
from clusters.embedded.hosting import Hosting, service_account
from clusters.tls import client_context

APPS = "apps/v1"
BATCH = "batch/v1"
NAMESPACE = "default"
Found = TypeVar("Found")
Object = dict[str, Any]


class TestKubelet:
    """Binds Pods without node to `node`, makes them run and ends them when they are deleted.

    A Pod whose image starts with `done` succeeds, `fail` fails with exit code 7, `hang` is never ready.
    """

    __test__ = False

    def __init__(self, node: str) -> None:
        self._node = node

    async def run(self, context: Context) -> None:
        """Look at every change of a Pod."""
        pods = Informer(context.client, "v1", "pods")
        queue: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

        def look(old: Object | None, new: Object | None) -> None:
            if new is not None:
                queue.put_nowait((new["metadata"]["namespace"], new["metadata"]["name"]))

        pods.add_handler(look)
        async with asyncio.TaskGroup() as group:
            group.create_task(pods.run())
            while True:
                pod = pods.get(*await queue.get())
                if pod is not None:
                    with contextlib.suppress(ClientError):
                        await self._step(context, pod)

    async def _step(self, context: Context, pod: Object) -> None:
        metadata, spec = pod["metadata"], pod["spec"]
        name, namespace = metadata["name"], metadata["namespace"]
        if not spec.get("nodeName"):
            if metadata.get("deletionTimestamp") or spec.get("schedulingGates"):
                return
            node = _wanted_node(spec) or self._node
            target = {"apiVersion": "v1", "kind": "Node", "name": node}
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
            await context.client.create("v1", "pods", body, namespace, name, "binding")
            return
        status = pod.get("status") or {}
        image = spec["containers"][0]["image"]
        phase = {"done": "Succeeded", "fail": "Failed"}.get(image[:4], "Running")
        if metadata.get("deletionTimestamp"):
            if status.get("phase") not in ("Succeeded", "Failed") and metadata.get("finalizers"):
                await self._report(context, pod, "Failed")
            body = {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}}
            await context.client.delete("v1", "pods", name, namespace, body)
        elif status.get("phase") in (None, "Pending"):
            await self._report(context, pod, phase)

    async def _report(self, context: Context, pod: Object, phase: str) -> None:
        metadata, container = pod["metadata"], pod["spec"]["containers"][0]
        ready = phase == "Running" and not container["image"].startswith("hang")
        now = context.clock.timestamp()
        state: Object = {"running": {"startedAt": now}}
        if phase != "Running":
            code = 0 if phase == "Succeeded" else 7
            state = {"terminated": {"exitCode": code, "startedAt": now, "finishedAt": now}}
        condition = {
            "type": "Ready",
            "status": "True" if ready else "False",
            "lastTransitionTime": now,
        }
        # A Pod that has changed meanwhile is looked at again.
        body = {
            "metadata": {"resourceVersion": metadata["resourceVersion"]},
            "status": {
                "phase": phase,
                "startTime": now,
                "conditions": [condition],
                "containerStatuses": [
                    {
                        "name": container["name"],
                        "ready": ready,
                        "restartCount": 0,
                        "image": container["image"],
                        "imageID": "",
                        "state": state,
                    }
                ],
            },
        }
        await context.client.patch(
            "v1", "pods", metadata["name"], body, metadata["namespace"], subresource="status"
        )


def _wanted_node(spec: Object) -> str:
    """The node of a Pod of a DaemonSet."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or []:
        for field in term.get("matchFields") or []:
            return str(field["values"][0])
    return ""


class LaggingClient(ApiClient):
    """Sees changes of Pods late."""

    lag = 0.15

    async def watch(
        self, api_version: str, resource: str, namespace: str | None = None, **query: Any
    ) -> AsyncGenerator[Object, None]:
        async with contextlib.aclosing(super().watch(api_version, resource, namespace, **query)) as events:
            async for event in events:
                if resource == "pods":
                    await asyncio.sleep(self.lag)
                yield event


class Lab:
    """A control plane of which only the named workload controllers and the kubelet of the test run."""

    def __init__(self, folder: Path, *controllers: str, kubelet: bool = True) -> None:
        self.clock = SkippedClock()
        tokens = StaticTokens({"admin": User("admin", groups=(MASTERS,))})
        config = ServerConfig(tokens=tokens, clock=self.clock.now, disabled_admission=("ServiceAccount",))
        self.server = ServerThread(config).start()
        ca = folder / "ca.pem"
        ca.write_bytes(self.server.ca_pem)
        self.client = Client(self.server.url, ca, "admin")
        self.hosting = Hosting(self.server, tokens, self.clock, {})
        self.host = self.hosting.host
        for name in controllers:
            workload = WORKLOADS[name]
            account = service_account("kube-system", workload.account)
            # Tests of Jobs do not wait a second for each batch of changes.
            factory = (lambda: JobController(0.02)) if name == "job-controller" else workload.factory
            self.hosting.register(name, factory, account, "kube-controller-manager")
            self.host.start(name)
        admin = User("kubelet", groups=(MASTERS,))
        self.hosting.register("kubelet", lambda: TestKubelet("node-a"), admin, "kubelet")
        if kubelet:
            self.host.start("kubelet")

    def start_lagging(self, name: str) -> None:
        """Start a controller whose cache of Pods lags behind."""
        tls = client_context(self.server.ca_pem)

        def context(log: logging.Logger) -> Context:
            return Context(LaggingClient(self.server.url, tls, "admin", "test"), self.clock, {}, log)

        self.host.register(name, WORKLOADS[name].factory, context)
        self.host.start(name)

    def close(self) -> None:
        self.hosting.close()
        self.client.close()
        self.server.stop()

    def until(self, look: Callable[[], Found], what: str, seconds: float = 20.0) -> Found:
        """The first true answer of `look`; fails with the last one and the logs after `seconds`."""
        wait = Wait(self.clock, seconds)
        while True:
            answer = look()
            if answer:
                return answer
            if wait.over():
                logs = [line for name in self.host.names() for line in self.host.logs(name)[-15:]]
                pods = [(pod["metadata"]["name"], pod.get("status", {}).get("phase")) for pod in self.pods()]
                text = f"not within {seconds} s: {what}; last: {answer!r}; pods: {pods}"
                raise AssertionError("\n".join([text, *logs]))
            time.sleep(0.02)

    def stays(self, look: Callable[[], bool], what: str, seconds: float = 0.15) -> None:
        """Fail when `look` becomes false within `seconds`: whoever acts wrongly does so at once."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            assert look(), what
            time.sleep(0.02)

    def create(self, resource: str, body: Object, api_version: str = APPS) -> Object:
        return self.client.create(api_version, resource, body, NAMESPACE)

    def get(self, resource: str, name: str, api_version: str = APPS) -> Object:
        return self.client.get(api_version, resource, name, NAMESPACE)

    def patch(self, resource: str, name: str, body: Object, api_version: str = APPS) -> Object:
        return self.client.patch(api_version, resource, name, body, NAMESPACE)

    def delete(self, resource: str, name: str, api_version: str = APPS, **body: Any) -> None:
        self.client.delete(api_version, resource, name, NAMESPACE, body or None)

    def list(self, resource: str, api_version: str = APPS, **query: Any) -> list[Object]:
        found = self.client.list(api_version, resource, NAMESPACE, **query)
        return sorted(found, key=lambda obj: obj["metadata"]["name"])

    def pods(self, selector: str = "") -> list[Object]:
        """The Pods that are not being deleted, by name."""
        found = self.list("pods", "v1", labelSelector=selector)
        return [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]

    def names(self, selector: str = "") -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods(selector)]

    def status(
        self, resource: str, name: str, *, api_version: str = APPS, seconds: float = 10.0, **wanted: Any
    ) -> Object:
        """Wait for numbers in a status (0 stands for absent ones too); returns the object."""

        def look() -> Object | None:
            obj = self.get(resource, name, api_version)
            status = obj.get("status") or {}
            current = status.get("observedGeneration", 0) >= obj["metadata"].get("generation", 0)
            if api_version == APPS and not current:
                return None
            return obj if all(status.get(key, 0) == value for key, value in wanted.items()) else None

        return self.until(look, f"{resource} {name} with {wanted}", seconds)

    def condition(self, resource: str, name: str, kind: str, api_version: str = APPS) -> Object:
        """Type, status, reason and message of a condition; empty when there is none."""
        status = self.get(resource, name, api_version).get("status") or {}
        for condition in status.get("conditions") or []:
            if condition["type"] == kind:
                return {key: condition.get(key) for key in ("status", "reason", "message")}
        return {}

    def events(self, name: str) -> list[tuple[str, str, int]]:
        """Reason, message and count of an object's events, the oldest first."""
        found = self.list("events", "v1", fieldSelector=f"involvedObject.name={name}")
        return [(event["reason"], event["message"], event.get("count", 0)) for event in found]

    def set_pod(self, name: str, **status: Any) -> None:
        """Change a Pod's status."""
        self.client.patch(
            "v1",
            "pods",
            name,
            {"status": status},
            NAMESPACE,
            subresource="status",
            content_type="application/strategic-merge-patch+json",
        )


@contextmanager
def lab(folder: Path, *controllers: str, kubelet: bool = True) -> Iterator[Lab]:
    """A lab that lives as long as the block."""
    made = Lab(folder, *controllers, kubelet=kubelet)
    try:
        yield made
    finally:
        made.close()


def template(app: str, image: str = "run:1", **spec: Any) -> Object:
    """A Pod template with the label app."""
    container = {"name": "c", "image": image}
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [container], **spec}}


def workload(kind: str, name: str, image: str = "run:1", **spec: Any) -> Object:
    """An object of apps/v1 that selects Pods with its name as label app."""
    return {
        "apiVersion": APPS,
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": template(name, image),
            **spec,
        },
    }
