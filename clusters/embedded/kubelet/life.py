"""One life of a kubelet process: its parts, put together and run."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final

from clusters.containers.runtime.runtime import Runtime
from clusters.embedded.components.component import Context
from clusters.embedded.components.events import EventRecorder
from clusters.embedded.components.informer import Informer
from clusters.embedded.kubelet.config import KubeletConfig, KubeletPaths
from clusters.embedded.kubelet.dra.checkpoint import CheckpointFile
from clusters.embedded.kubelet.dra.claims import ClaimCache
from clusters.embedded.kubelet.dra.health import HealthCache
from clusters.embedded.kubelet.dra.health_monitor import HealthMonitor
from clusters.embedded.kubelet.dra.manager import HEALTH_STATUS, ClaimManager
from clusters.embedded.kubelet.dra.wiping import SliceWiper
from clusters.embedded.kubelet.node.registration import NodeRegistration
from clusters.embedded.kubelet.node.status import allocatable
from clusters.embedded.kubelet.plugins import PluginManager
from clusters.embedded.kubelet.pods import objects
from clusters.embedded.kubelet.pods.container_start import ContainerStarter, NodeFacts, memory_capacity
from clusters.embedded.kubelet.pods.container_sync import ContainerSync
from clusters.embedded.kubelet.pods.objects import Object
from clusters.embedded.kubelet.pods.restarts import Backoff
from clusters.embedded.kubelet.pods.source import PodSource
from clusters.embedded.kubelet.pods.status_manager import StatusManager
from clusters.embedded.kubelet.pods.syncer import PodSyncer
from clusters.embedded.kubelet.pods.volumes import PodVolumes
from clusters.embedded.kubelet.pods.workers import PodWorkers
from clusters.embedded.kubelet.serving.https import KubeletServer
from clusters.embedded.kubelet.serving.metrics import Metrics
from clusters.embedded.kubelet.serving.pod_resources import PodResourcesServer
from clusters.embedded.kubelet.threads import in_thread

_NODE_ALLOCATABLE: Final = "DRANodeAllocatableResources"
_CLAIMS: Final = ("resource.k8s.io/v1", "resourceclaims")
_TOKEN_SECONDS: Final = 3607


class KubeletLife:
    """Everything that dies with a kubelet process."""

    def __init__(
        self,
        node_name: str,
        paths: KubeletPaths,
        plugins: Callable[[], PluginManager],
        runtime: Runtime,
        config: KubeletConfig,
        context: Context,
    ) -> None:
        self._name, self._paths, self._runtime, self._config = node_name, paths, runtime, config
        self._context, self._client, self._clock = context, context.client, context.clock
        self._log = context.log
        self._plugins = plugins()
        self._events = EventRecorder(context.client, "kubelet", context.clock, host=node_name)
        self._metrics = Metrics(context.gates)
        self._pods = Informer(context.client, "v1", "pods", field_selector=f"spec.nodeName={node_name}")
        self._nodes = Informer(context.client, "v1", "nodes", field_selector=f"metadata.name={node_name}")
        self._services = Informer(context.client, "v1", "services")
        self._closers: list[Callable[[], Any]] = []
        self._server: KubeletServer | None = None

    # Access to the API for the parts

    async def _fetch(self, resource: str, namespace: str, name: str) -> Object:
        return await self._client.get("v1", resource, name, namespace)

    async def _fetch_claim(self, namespace: str, name: str) -> Object:
        return await self._client.get(*_CLAIMS, name, namespace)

    async def _fetch_token(self, pod: Object, projection: Object) -> str:
        spec: Object = {
            "expirationSeconds": projection.get("expirationSeconds") or _TOKEN_SECONDS,
            "boundObjectRef": {
                "kind": "Pod",
                "apiVersion": "v1",
                "name": objects.name(pod),
                "uid": objects.uid(pod),
            },
        }
        if projection.get("audience"):
            spec["audiences"] = [projection["audience"]]
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        account = pod["spec"].get("serviceAccountName") or "default"
        answer = await self._client.create(
            "v1", "serviceaccounts", body, objects.namespace(pod), account, "token"
        )
        return str(answer["status"]["token"])

    def _record(self, pod: Object, kind: str, reason: str, message: str, container: str = "") -> None:
        regarding = {"apiVersion": "v1", "kind": "Pod", **pod}
        path = objects.field_path(pod, container) if container else ""
        self._events.event(regarding, kind, reason, message, field_path=path)

    # Life

    async def run(self) -> None:
        """Start everything and work until cancelled. Raises CheckpointError."""
        cache = ClaimCache(CheckpointFile(self._paths.dra_state))
        health = HealthCache(self._paths.dra_health, self._clock, self._log)
        claims = ClaimManager(
            cache, health, self._plugins, self._fetch_claim, self._context.gates, self._metrics
        )
        node_allocatable = bool(self._context.gates.get(_NODE_ALLOCATABLE))
        facts = NodeFacts(
            self._config.node_ip,
            allocatable(self._config),
            memory_capacity(self._config.capacity),
            node_allocatable,
        )
        volumes = PodVolumes(
            self._paths,
            fetch=self._fetch,
            fetch_token=self._fetch_token,
            host_ip=self._config.node_ip,
            allocatable=facts.allocatable,
            clock=self._clock,
            refresh=self._config.sync_frequency,
        )
        starter = ContainerStarter(
            self._runtime,
            self._clock,
            self._record,
            fetch=self._fetch,
            services=self._services.items,
            volumes=volumes,
            cdi_devices=claims.cdi_devices,
            node=facts,
            backoff=Backoff(self._config.max_container_backoff),
            logs=self._paths.logs,
        )
        async with asyncio.TaskGroup() as group:
            source: PodSource

            def could_run(uid: str) -> bool:
                return source.could_run(uid) or claims.might_need_unprepare(uid)

            statuses = StatusManager(
                self._client, self._clock, self._log, could_run, lambda uid: source.pod(uid)
            )
            syncer = PodSyncer(
                self._runtime,
                self._clock,
                self._record,
                containers=lambda ready: ContainerSync(
                    self._runtime, self._clock, self._record, starter, claims.prepare, ready
                ),
                volumes=volumes,
                claims=claims,
                statuses=statuses,
                node=facts,
            )
            workers = PodWorkers(
                syncer,
                self._clock,
                self._log,
                sync_frequency=self._config.sync_frequency,
                backoff_period=self._config.backoff_period,
                group=group,
                finished=lambda uid: source.finished(uid),
            )
            source = PodSource(
                self._pods,
                self._nodes,
                self._runtime,
                workers,
                syncer,
                statuses,
                claims,
                self._record,
                group,
                self._log,
                node_allocatable=node_allocatable,
            )
            server = KubeletServer(
                self._config, self._clock, source, statuses, self._runtime, cache, self._metrics
            )
            self._server = server
            port = await server.start()
            resources = PodResourcesServer(self._paths.pod_resources, source, claims)
            self._closers.append(resources.close)
            resources.start(asyncio.get_running_loop())
            registration = NodeRegistration(
                self._name,
                self._config,
                self._client,
                self._clock,
                self._context.gates,
                self._events,
                self._log,
                port=port,
            )
            group.create_task(self._events.run(), name="events")
            self._record_start()
            node = await registration.register()
            group.create_task(registration.run_status(), name="node status")
            group.create_task(registration.run_lease(node), name="node lease")
            await self._start_informers(group)
            wiper = SliceWiper(self._name, self._client, self._clock, self._plugins, self._config.wipe_delay)
            group.create_task(wiper.run(self._log), name="slice wiper")
            group.create_task(statuses.run(), name="statuses")
            await source.start()
            if self._context.gates.get(HEALTH_STATUS, True):
                monitor = HealthMonitor(self._plugins, health, cache, workers.poke, self._log)
                group.create_task(monitor.run(), name="device health")
            # Plugins are registered when the Pods are known, as in a real kubelet.
            self._plugins.start()
            group.create_task(self._reconcile_claims(claims, source), name="claims")

    async def _start_informers(self, group: asyncio.TaskGroup) -> None:
        """Follow the Node and the Services, and wait until both are known."""
        for informer in (self._nodes, self._services):
            group.create_task(informer.run(), name=informer.resource)
        await self._nodes.wait_synced()
        await self._services.wait_synced()

    def _record_start(self) -> None:
        reference = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self._name, "uid": self._name}}
        self._events.event(reference, "Normal", "Starting", "Starting kubelet.")

    async def _reconcile_claims(self, claims: ClaimManager, source: PodSource) -> None:
        while True:
            await self._clock.sleep(self._config.reconcile_period)
            for problem in await claims.reconcile(source.active_uids()):
                self._log.info("%s", problem)

    async def close(self) -> None:
        """Close sockets and end threads."""
        if self._server is not None:
            with contextlib.suppress(Exception):
                await self._server.close()
        for closer in self._closers:
            await in_thread(closer)
        await in_thread(self._plugins.stop)
