"""Starts containers: image, configuration, creation, start, each with its event."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from clusters.client import ClientError
from clusters.clock import Clock
from clusters.containers.images import name_problem
from clusters.containers.model import ContainerConfig, ContainerState, RuntimeServiceError
from clusters.containers.runtime.runtime import Runtime
from clusters.embedded.kubelet.dra.claims import ClaimError
from clusters.embedded.kubelet.pods import objects
from clusters.embedded.kubelet.pods.actions import HASH_ANNOTATION, container_hash
from clusters.embedded.kubelet.pods.downward import DownwardError
from clusters.embedded.kubelet.pods.environment import EnvironmentBuilder, Fetch, VariableError
from clusters.embedded.kubelet.pods.expansion import expand
from clusters.embedded.kubelet.pods.objects import Object
from clusters.embedded.kubelet.pods.qos import linux_resources
from clusters.embedded.kubelet.pods.restarts import Backoff
from clusters.embedded.kubelet.pods.runtime_state import PodRuntime
from clusters.embedded.kubelet.pods.sync_result import CRASH_LOOP, StartError
from clusters.embedded.kubelet.pods.termination_message import PATH_ANNOTATION, POLICY_ANNOTATION
from clusters.embedded.kubelet.pods.volumes import PodVolumes, SubPathError
from dra_api.quantity import Quantity

RESTART_COUNT_ANNOTATION: Final = "io.kubernetes.container.restartCount"
GRACE_ANNOTATION: Final = "io.kubernetes.pod.terminationGracePeriod"
_CONFIG_ERROR: Final = "CreateContainerConfigError"
_CREATE_ERROR: Final = "CreateContainerError"
_INVALID_IMAGE: Final = "InvalidImageName"
_RUN_ERROR: Final = "RunContainerError"
_RELIST_PERIOD: Final = 1.0


class Record(Protocol):
    """Records an event of a Pod; `container` names the container that it is about."""

    def __call__(self, pod: Object, kind: str, reason: str, message: str, container: str = "") -> None:
        """Record it."""
        ...


class CdiDevices(Protocol):
    """Gives the CDI names for a container. Raises ClaimError."""

    def __call__(self, pod: Object, container: Object) -> tuple[str, ...]:
        """Names in the order of the container's references."""
        ...


@dataclass(frozen=True)
class NodeFacts:
    """What containers are told about their node."""

    host_ip: str
    allocatable: Mapping[str, str]
    memory_capacity: int
    node_allocatable: bool


class ContainerStarter:
    """Starts the containers of all Pods of a node."""

    def __init__(
        self,
        runtime: Runtime,
        clock: Clock,
        record: Record,
        *,
        fetch: Fetch,
        services: Any,
        volumes: PodVolumes,
        cdi_devices: CdiDevices,
        node: NodeFacts,
        backoff: Backoff,
        logs: Path,
    ) -> None:
        """`services` is called without arguments and gives all Services."""
        self._runtime, self._clock, self._record = runtime, clock, record
        self._fetch, self._services, self._volumes = fetch, services, volumes
        self._cdi_devices, self._node, self._backoff, self._logs = cdi_devices, node, backoff, logs

    async def start(
        self, pod: Object, container: Object, sandbox_id: str, state: PodRuntime, ips: tuple[str, ...]
    ) -> None:
        """Start a container, unless it has failed just now. Raises StartError."""
        self._check_backoff(pod, container, state)
        name = container["name"]
        await self._ensure_image(pod, container)
        previous = state.latest(name)
        attempt = previous.config.attempt + 1 if previous is not None else self._attempt_of_logs(pod, name)
        try:
            config = await self._config(pod, container, attempt, ips)
        except (
            ClientError,
            VariableError,
            DownwardError,
            ClaimError,
            SubPathError,
            _RootError,
            OSError,
        ) as error:
            text = _text(error)
            self._failed(pod, name, text)
            raise StartError(_CONFIG_ERROR, text) from error
        try:
            container_id = await self._runtime.create_container(sandbox_id, config)
        except RuntimeServiceError as error:
            self._failed(pod, name, error.message)
            raise StartError(_CREATE_ERROR, error.message) from error
        self._record(pod, "Normal", "Created", "Container created", name)
        try:
            await self._runtime.start_container(container_id)
        except RuntimeServiceError as error:
            self._failed(pod, name, error.message)
            raise StartError(_RUN_ERROR, error.message) from error
        self._record(pod, "Normal", "Started", "Container started", name)
        if seconds := hook_sleep(container, "postStart"):
            await self._clock.sleep(seconds)
        await self._prune(name, container_id, state)

    def _failed(self, pod: Object, container: str, text: str) -> None:
        self._record(pod, "Warning", "Failed", f"Error: {text}", container)

    def _check_backoff(self, pod: Object, container: Object, state: PodRuntime) -> None:
        name = container["name"]
        ended = next(
            (
                found
                for found in state.containers
                if found.config.name == name and found.state is ContainerState.EXITED
            ),
            None,
        )
        if ended is None:
            return
        since = ended.finished_at or 0.0
        key = f"{objects.uid(pod)}/{name}/{container_hash(container)}"
        now = self._clock.now()
        if not self._backoff.is_waiting(key, since, now):
            self._backoff.next(key, since, now)
            return
        self._record(
            pod,
            "Warning",
            "BackOff",
            f"Back-off restarting failed container {name} in pod {objects.described(pod)}",
            name,
        )
        delay = self._backoff.delay(key)
        text = (
            f"back-off {_go_duration(delay)} restarting failed container={name} pod={objects.described(pod)}"
        )
        retry_at = since + delay
        if since - (ended.started_at or 0.0) < _RELIST_PERIOD and now - since < _RELIST_PERIOD:
            # Start and end of a short life are two events of one relist, and cause two looks, the second after the
            # next relist; only that one tells the API server about the loop.
            retry_at = min(retry_at, now + _RELIST_PERIOD)
        raise StartError(CRASH_LOOP, text, retry_at=retry_at)

    async def _ensure_image(self, pod: Object, container: Object) -> None:
        image, name = container.get("image", ""), container["name"]
        if problem := name_problem(image):
            text = f'Failed to apply default image tag "{image}": couldn\'t parse image name "{image}": {problem}'
            self._record(pod, "Warning", "InspectFailed", text, name)
            self._failed(pod, name, _INVALID_IMAGE)
            raise StartError(_INVALID_IMAGE, text)
        if container.get("imagePullPolicy") != "Always":
            text = f'Container image "{image}" already present on machine and can be accessed by the pod'
            self._record(pod, "Normal", "Pulled", text, name)
            return
        self._record(pod, "Normal", "Pulling", f'Pulling image "{image}"', name)
        started = time.monotonic()
        pulled = await self._runtime.pull_image(image)
        took = f"{max(1, round((time.monotonic() - started) * 1000))}ms"
        text = (
            f'Successfully pulled image "{image}" in {took} ({took} including waiting). '
            f"Image size: {pulled.size} bytes."
        )
        self._record(pod, "Normal", "Pulled", text, name)

    def log_directory(self, pod: Object) -> Path:
        """Folder of the Pod's logs."""
        return self._logs / f"{objects.namespace(pod)}_{objects.name(pod)}_{objects.uid(pod)}"

    def _attempt_of_logs(self, pod: Object, name: str) -> int:
        """A runtime that has lost its state must not have old logs overwritten."""
        numbers = [
            int(file.stem) for file in (self.log_directory(pod) / name).glob("*.log") if file.stem.isdigit()
        ]
        return max(numbers) + 1 if numbers else 0

    async def _config(
        self, pod: Object, container: Object, attempt: int, ips: tuple[str, ...]
    ) -> ContainerConfig:
        cdi = self._cdi_devices(pod, container)
        name = container["name"]
        if objects.is_host_network(pod):
            ips = (self._node.host_ip,)
        builder = EnvironmentBuilder(
            pod,
            container,
            fetch=self._fetch,
            services=self._services(),
            host_ip=self._node.host_ip,
            ips=ips,
            allocatable=self._node.allocatable,
        )
        envs = await builder.build()
        variables = dict(envs)
        grace = pod["spec"].get("terminationGracePeriodSeconds")
        user, group, groups = _identity(pod, container)
        mounts = self._volumes.mounts(pod, container, variables, attempt, ips)
        _check_not_root(pod, container, user)
        return ContainerConfig(
            name=name,
            attempt=attempt,
            image=container.get("image", ""),
            command=tuple(expand(word, variables) for word in container.get("command") or []),
            args=tuple(expand(word, variables) for word in container.get("args") or []),
            working_dir=container.get("workingDir") or "",
            envs=envs,
            mounts=mounts,
            cdi_devices=cdi,
            resources=linux_resources(
                pod,
                container,
                self._node.memory_capacity,
                node_allocatable=self._node.node_allocatable,
            ),
            log_path=f"{name}/{attempt}.log",
            labels={
                objects.POD_NAME_LABEL: objects.name(pod),
                objects.POD_NAMESPACE_LABEL: objects.namespace(pod),
                objects.POD_UID_LABEL: objects.uid(pod),
                objects.CONTAINER_NAME_LABEL: name,
            },
            annotations={
                HASH_ANNOTATION: container_hash(container),
                RESTART_COUNT_ANNOTATION: str(attempt),
                PATH_ANNOTATION: container.get("terminationMessagePath") or "",
                POLICY_ANNOTATION: container.get("terminationMessagePolicy") or "",
                **({GRACE_ANNOTATION: str(grace)} if grace is not None else {}),
            },
            run_as_user=user,
            run_as_group=group,
            supplemental_groups=groups,
            privileged=bool((container.get("securityContext") or {}).get("privileged")),
        )

    async def _prune(self, name: str, container_id: str, state: PodRuntime) -> None:
        """Of containers that ended keep the last one, for its state and its log."""
        ended = [
            found for found in state.containers if found.config.name == name and found.id != container_id
        ]
        for found in ended[1:]:
            await self._runtime.remove_container(found.id)


def hook_sleep(container: Object, hook: str) -> float:
    """Seconds that a life cycle hook sleeps. Hooks with commands or requests are not run and count as successful."""
    action = ((container.get("lifecycle") or {}).get(hook) or {}).get("sleep") or {}
    return float(action.get("seconds") or 0)


def _identity(pod: Object, container: Object) -> tuple[int | None, int | None, tuple[int, ...]]:
    whole, own = pod["spec"].get("securityContext") or {}, container.get("securityContext") or {}
    user = own.get("runAsUser", whole.get("runAsUser"))
    group = own.get("runAsGroup", whole.get("runAsGroup"))
    groups = list(whole.get("supplementalGroups") or [])
    if whole.get("fsGroup") is not None:
        groups.insert(0, whole["fsGroup"])
    return user, group, tuple(groups)


class _RootError(Exception):
    """A container that must not run as root would."""


def _check_not_root(pod: Object, container: Object, user: int | None) -> None:
    whole, own = pod["spec"].get("securityContext") or {}, container.get("securityContext") or {}
    if not own.get("runAsNonRoot", whole.get("runAsNonRoot")) or user:
        return
    # Images have no user of their own here.
    why = (
        "container has runAsNonRoot and image will run as root"
        if user is None
        else "container's runAsUser breaks non-root policy"
    )
    raise _RootError(f'{why} (pod: "{objects.described(pod)}", container: {container["name"]})')


def _go_duration(seconds: float) -> str:
    """A duration as Go prints it, for whole seconds: 10s, 1m20s, 5m0s."""
    whole = int(seconds)
    if seconds < 60:
        return f"{seconds:g}s"
    return f"{whole // 60}m{whole % 60}s"


def _text(error: Exception) -> str:
    if isinstance(error, ClientError):
        return error.message
    return str(error)


def memory_capacity(capacity: Mapping[str, str]) -> int:
    """Bytes of memory in a node's capacity."""
    return Quantity.parse(str(capacity.get("memory") or "0")).value()
