"""The namespace controller: empties namespaces that are being deleted, then lets them go."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from clusters.client import ClientError
from clusters.clock import parse_stamp
from clusters.embedded.components.client import METADATA_LIST, Object
from clusters.embedded.components.component import Context
from clusters.embedded.components.informer import Informer
from clusters.embedded.components.workqueue import SyncError, WorkQueue
from clusters.embedded.controllers.discovery import ServedResource, discover
from clusters.embedded.controllers.namespace_conditions import merged, problems
from clusters.embedded.controllers.run import run_controller

_FINALIZER: Final = "kubernetes"
_GRACE_SECONDS: Final = 5.0
# What upstream expects other controllers to need for their finalizers, in seconds.
_FINALIZER_SECONDS: Final = 15
_WORKERS: Final = 10
_MAX_DELAY: Final = 60.0


@dataclass
class _Content:
    """What is left in a namespace; `estimate` is in seconds."""

    estimate: int = 0
    errors: list[str] = field(default_factory=list)
    remaining: dict[str, int] = field(default_factory=dict)
    finalizers: Counter[str] = field(default_factory=Counter)


class NamespaceController:
    """Deletes the content of terminating namespaces, pods first, and removes the finalizer `kubernetes`."""

    name = "namespace-controller"

    def __init__(self, grace_seconds: float = _GRACE_SECONDS) -> None:
        """`grace_seconds` pass before a deletion is acted on, so that all servers know of it; upstream's are 5."""
        self._grace = grace_seconds

    async def run(self, context: Context) -> None:
        """Work until cancelled."""
        discovery = await discover(context.client)
        resources = [one for one in discovery.preferred("delete") if one.namespaced]
        life = _Life(context, self._grace, resources)
        await run_controller(context.log, [life.namespaces], life.queue, life.sync, workers=_WORKERS)


class _Life:
    def __init__(self, context: Context, grace: float, resources: list[ServedResource]) -> None:
        self._client, self._clock, self._log = context.client, context.clock, context.log
        self._grace = grace
        self._resources = resources
        self.queue: WorkQueue[str] = WorkQueue(context.clock, max_delay=_MAX_DELAY)
        self.namespaces = Informer(context.reader, "v1", "namespaces")
        self.namespaces.add_handler(self._changed)

    def _changed(self, _old: Object | None, new: Object | None) -> None:
        if new is not None and "deletionTimestamp" in new["metadata"]:
            self.queue.add_after(new["metadata"]["name"], self._grace)

    async def sync(self, name: str) -> None:
        """Empty a namespace. Raises SyncError or ClientError when it has to be tried again."""
        namespace = await self._client.find("v1", "namespaces", name)
        if namespace is None or "deletionTimestamp" not in namespace["metadata"]:
            return
        if namespace.get("status", {}).get("phase") != "Terminating":
            status = {**namespace.get("status", {}), "phase": "Terminating"}
            namespace = await self._client.update(
                "v1", "namespaces", {**namespace, "status": status}, "status"
            )
        if not namespace["spec"].get("finalizers"):
            return
        content = await self._empty(name, parse_stamp(namespace["metadata"]["deletionTimestamp"]))
        await self._tell(namespace, content)
        if content.errors:
            raise SyncError("; ".join(content.errors))
        if content.estimate > 0:
            wait = content.estimate // 2 + 1
            self._log.info("content remains in namespace %s, looked at again in %d s", name, wait)
            self.queue.add_after(name, wait)
            return
        await self._finalize(namespace)

    async def _empty(self, namespace: str, deleted_at: float) -> _Content:
        content = _Content()
        pods = [one for one in self._resources if (one.group, one.plural) == ("", "pods")]
        for resource in pods:
            await self._delete_all(resource, namespace, deleted_at, content)
        if content.remaining:
            # What pods still use stays until they are gone.
            return content
        for resource in self._resources:
            if resource not in pods:
                await self._delete_all(resource, namespace, deleted_at, content)
        return content

    async def _delete_all(
        self, resource: ServedResource, namespace: str, deleted_at: float, content: _Content
    ) -> None:
        """Delete all objects of a resource and take down what is left."""
        where = (resource.api_version, resource.plural, namespace)
        estimate = 0
        try:
            if (resource.group, resource.plural) == ("", "pods"):
                estimate = await self._grace_of_pods(namespace, deleted_at)
            if "deletecollection" in resource.verbs:
                await self._client.delete_collection(*where, propagationPolicy="Background")
            elif "list" in resource.verbs:
                await self._delete_each(resource, namespace)
            items = (
                (await self._client.list(*where, accept=METADATA_LIST))["items"]
                if "list" in resource.verbs
                else []
            )
        except ClientError as error:
            content.errors.append(
                f"failed to delete pods for namespace: {namespace}, err: {error.message}"
                if resource.plural == "pods"
                else error.message
            )
            content.estimate = max(content.estimate, estimate)
            return
        if not items:
            return
        content.remaining[f"{resource.plural}.{resource.group}"] = len(items)
        held = Counter(name for item in items for name in item["metadata"].get("finalizers") or [])
        content.finalizers.update(held)
        if not estimate and held:
            estimate = _FINALIZER_SECONDS
        if not estimate:
            gvr = f"{resource.group}/{resource.version}, Resource={resource.plural}"
            content.errors.append(f"unexpected items still remain in namespace: {namespace} for gvr: {gvr}")
        content.estimate = max(content.estimate, estimate)

    async def _delete_each(self, resource: ServedResource, namespace: str) -> None:
        listed = await self._client.list(
            resource.api_version, resource.plural, namespace, accept=METADATA_LIST
        )
        for item in listed["items"]:
            try:
                await self._client.delete(
                    resource.api_version,
                    resource.plural,
                    item["metadata"]["name"],
                    namespace,
                    {"propagationPolicy": "Background"},
                )
            except ClientError as error:
                if error.code not in (404, 405):
                    raise

    async def _grace_of_pods(self, namespace: str, deleted_at: float) -> int:
        """The longest time, in seconds, that running pods may take to end; 0 when it has passed."""
        pods = (await self._client.list("v1", "pods", namespace))["items"]
        graces = [
            int(pod["spec"].get("terminationGracePeriodSeconds", 0))
            for pod in pods
            if pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")
        ]
        longest = max(graces, default=0)
        return longest if self._clock.now() - deleted_at < longest else 0

    async def _tell(self, namespace: Object, content: _Content) -> None:
        # With pods left nothing else was tried, and upstream then reports errors only.
        pods_only = "pods." in content.remaining
        wrong = problems(
            content.errors,
            {} if pods_only else content.remaining,
            {} if pods_only else content.finalizers,
        )
        status = namespace.get("status", {})
        conditions = merged(status.get("conditions") or [], wrong, self._clock.timestamp())
        if conditions is None:
            return
        body = {**namespace, "status": {**status, "conditions": conditions}}
        try:
            await self._client.update("v1", "namespaces", body, "status")
        except ClientError as error:
            self._log.info("conditions of namespace %s not written: %s", namespace["metadata"]["name"], error)

    async def _finalize(self, namespace: Object) -> None:
        name, uid = namespace["metadata"]["name"], namespace["metadata"]["uid"]
        while True:
            rest = sorted(one for one in namespace["spec"]["finalizers"] if one != _FINALIZER)
            body = {**namespace, "spec": {**namespace["spec"], "finalizers": rest}}
            try:
                await self._client.update("v1", "namespaces", body, "finalize")
            except ClientError as error:
                if error.code == 404:
                    return
                if error.code != 409:
                    raise
            else:
                self._log.info("namespace %s is empty", name)
                return
            latest = await self._client.find("v1", "namespaces", name)
            if latest is None:
                return
            if latest["metadata"]["uid"] != uid:
                raise SyncError("namespace uid has changed across retries")
            namespace = latest
