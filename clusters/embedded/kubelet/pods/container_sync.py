"""Brings the containers of a Pod in line with its spec, and stops them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from clusters.clock import Clock
from clusters.containers.model import ContainerState, ContainerStatus, RuntimeServiceError, SandboxConfig
from clusters.containers.runtime.runtime import Runtime
from clusters.embedded.kubelet.dra.claims import ClaimError
from clusters.embedded.kubelet.pods import objects
from clusters.embedded.kubelet.pods.actions import PodActions, compute_actions
from clusters.embedded.kubelet.pods.container_start import (
    GRACE_ANNOTATION,
    ContainerStarter,
    Record,
    hook_sleep,
)
from clusters.embedded.kubelet.pods.hosts_file import hostname
from clusters.embedded.kubelet.pods.objects import Object
from clusters.embedded.kubelet.pods.runtime_state import PodRuntime, runtime_of_pod
from clusters.embedded.kubelet.pods.sync_result import StartError, SyncResult
from clusters.embedded.kubelet.pods.termination_order import TerminationOrder

MINIMUM_GRACE = 2.0
"""Seconds that a container gets in any case."""


class ContainerSync:
    """Sandboxes and containers of all Pods of a node."""

    def __init__(
        self,
        runtime: Runtime,
        clock: Clock,
        record: Record,
        starter: ContainerStarter,
        prepare: Callable[[Object], Awaitable[None]],
        sandbox_ready: Callable[[Object], None],
    ) -> None:
        """`prepare` makes claims ready (ClaimError); `sandbox_ready` is told before the first container starts."""
        self._runtime, self._clock, self._record, self._starter = runtime, clock, record, starter
        self._prepare, self._sandbox_ready = prepare, sandbox_ready

    async def sync(self, pod: Object, state: PodRuntime) -> SyncResult:
        """Take the steps that the Pod needs now."""
        result = SyncResult()
        actions = compute_actions(pod, state)
        if actions.create_sandbox and actions.sandbox_id:
            text = "Pod sandbox changed, it will be killed and re-created."
            self._record(pod, "Normal", "SandboxChanged", text)
        if actions.kill_pod:
            result.errors += await self.kill_pod(pod, state, None)
            if result.errors:
                return result
            if actions.create_sandbox:
                await self._purge_init(pod, state)
        else:
            for container, text in actions.kill:
                if error := await self._kill(pod, container, text, None):
                    result.errors.append(error)
                    return result
        await self._prune_init(pod, state)
        ips = state.ips
        sandbox_id = actions.sandbox_id
        if actions.create_sandbox:
            created = await self._create_sandbox(pod, actions, result)
            if created is None:
                return result
            sandbox_id = created
            fresh = await runtime_of_pod(self._runtime, objects.uid(pod))
            ips = fresh.ips
            self._sandbox_ready(pod)
        await self._start(pod, actions, sandbox_id, state, ips, result)
        return result

    async def _create_sandbox(self, pod: Object, actions: PodActions, result: SyncResult) -> str | None:
        try:
            await self._prepare(pod)
        except ClaimError as error:
            # Without an error of the sync: the next look is at the normal time.
            text = f"Failed to prepare dynamic resources: {error}"
            self._record(pod, "Warning", "FailedPrepareDynamicResources", text)
            return None
        labels = dict(pod["metadata"].get("labels") or {})
        labels |= {
            objects.POD_NAME_LABEL: objects.name(pod),
            objects.POD_NAMESPACE_LABEL: objects.namespace(pod),
            objects.POD_UID_LABEL: objects.uid(pod),
        }
        config = SandboxConfig(
            name=objects.name(pod),
            namespace=objects.namespace(pod),
            uid=objects.uid(pod),
            attempt=actions.attempt,
            hostname="" if objects.is_host_network(pod) else hostname(pod),
            log_directory=str(self._starter.log_directory(pod)),
            labels=labels,
            annotations=dict(pod["metadata"].get("annotations") or {}),
            host_network=objects.is_host_network(pod),
        )
        try:
            return await self._runtime.run_pod_sandbox(config)
        except RuntimeServiceError as error:
            text = f"Failed to create pod sandbox: {error}"
            self._record(pod, "Warning", "FailedCreatePodSandBox", text)
            result.errors.append(
                f'failed to "CreatePodSandbox" for "{objects.described(pod)}" with CreatePodSandboxError: "{error}"'
            )
            return None

    async def _start(
        self,
        pod: Object,
        actions: PodActions,
        sandbox_id: str,
        state: PodRuntime,
        ips: tuple[str, ...],
        result: SyncResult,
    ) -> None:
        init, regular = objects.init_containers(pod), objects.containers(pod)
        for index in actions.start_init:
            if not await self._start_one(pod, init[index], sandbox_id, state, ips, result):
                if objects.is_sidecar(init[index]):
                    continue
                return
        for index in actions.start:
            await self._start_one(pod, regular[index], sandbox_id, state, ips, result)

    async def _start_one(
        self,
        pod: Object,
        container: Object,
        sandbox_id: str,
        state: PodRuntime,
        ips: tuple[str, ...],
        result: SyncResult,
    ) -> bool:
        try:
            await self._starter.start(pod, container, sandbox_id, state, ips)
        except StartError as error:
            result.failed[container["name"]] = error
            return False
        result.started.append(container["name"])
        return True

    # Stopping

    async def kill_pod(self, pod: Object | None, state: PodRuntime, grace_ends: float | None) -> list[str]:
        """Stop all containers, then the sandboxes; return the errors.

        Args:
            pod: the Pod, None when only the runtime knows it.
            state: what the runtime knows.
            grace_ends: when what still runs is killed, instead of after the containers' own grace periods.
        """
        order = TerminationOrder(pod, [found.config.name for found in state.running], self._clock)
        errors = await asyncio.gather(
            *(self._kill(pod, container, "", grace_ends, order) for container in state.running)
        )
        problems = [error for error in errors if error]
        for sandbox in state.sandboxes:
            try:
                await self._runtime.stop_pod_sandbox(sandbox.id)
            except RuntimeServiceError as error:
                problems.append(f'failed to "KillPodSandbox" with KillPodSandboxError: "{error}"')
        return problems

    async def _kill(
        self,
        pod: Object | None,
        container: ContainerStatus,
        text: str,
        grace_ends: float | None,
        order: TerminationOrder | None = None,
    ) -> str:
        name = container.config.name
        seconds = _own_grace(pod, container) if grace_ends is None else grace_ends - self._clock.now()
        known = pod if pod is not None else _restored(container)
        self._record(known, "Normal", "Killing", text or f"Stopping container {name}", name)
        spec = objects.find_container(pod, name) if pod is not None else None
        if spec is not None and seconds > 0 and (slept := min(hook_sleep(spec, "preStop"), seconds)):
            await self._clock.sleep(slept)
            seconds -= slept
        if order is not None and seconds > 0:
            seconds -= await order.wait_for_turn(name, seconds)
        try:
            await self._runtime.stop_container(container.id, max(seconds, MINIMUM_GRACE))
        except RuntimeServiceError as error:
            return f'failed to "KillContainer" for "{name}" with KillContainerError: "{error}"'
        if order is not None:
            order.ended(name)
        return ""

    async def _purge_init(self, pod: Object, state: PodRuntime) -> None:
        names = {container["name"] for container in objects.init_containers(pod)}
        for found in state.containers:
            if found.config.name in names:
                await self._runtime.remove_container(found.id)

    async def _prune_init(self, pod: Object, state: PodRuntime) -> None:
        """Of each init container keep the last that ended."""
        for container in objects.init_containers(pod):
            ended = [
                found
                for found in state.containers
                if found.config.name == container["name"] and found.state is ContainerState.EXITED
            ]
            for found in ended[1:]:
                await self._runtime.remove_container(found.id)


def _restored(container: ContainerStatus) -> Object:
    """What the labels of a container tell about its Pod, which nobody else knows any more."""
    labels = container.config.labels
    metadata = {
        "name": labels.get(objects.POD_NAME_LABEL, ""),
        "namespace": labels.get(objects.POD_NAMESPACE_LABEL, ""),
        "uid": labels.get(objects.POD_UID_LABEL, ""),
    }
    spec = {"containers": [{"name": container.config.name}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _own_grace(pod: Object | None, container: ContainerStatus) -> float:
    if pod is None:
        return float(container.config.annotations.get(GRACE_ANNOTATION, MINIMUM_GRACE))
    seconds = pod["metadata"].get("deletionGracePeriodSeconds")
    if seconds is None:
        seconds = pod["spec"].get("terminationGracePeriodSeconds")
    return MINIMUM_GRACE if seconds is None else float(seconds)
