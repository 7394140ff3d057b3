"""What has to be done so that the containers of a Pod are as its spec says."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Final

from clusters.containers.model import ContainerState, ContainerStatus
from clusters.embedded.kubelet.pods import objects
from clusters.embedded.kubelet.pods.objects import Object
from clusters.embedded.kubelet.pods.restarts import restarts_after, should_restart
from clusters.embedded.kubelet.pods.runtime_state import PodRuntime

HASH_ANNOTATION: Final = "io.kubernetes.container.hash"


@dataclass
class PodActions:
    """Steps of one look at a Pod. Indexes are those of the spec; `kill` has containers with the text of the event."""

    kill_pod: bool = False
    create_sandbox: bool = False
    sandbox_id: str = ""
    attempt: int = 0
    kill: list[tuple[ContainerStatus, str]] = field(default_factory=list)
    start_init: list[int] = field(default_factory=list)
    start: list[int] = field(default_factory=list)


def container_hash(container: Object) -> str:
    """Fingerprint of the fields whose change makes a container start anew."""
    picked = json.dumps([container["name"], container.get("image", "")])
    return hashlib.sha256(picked.encode()).hexdigest()[:8]


def compute_actions(pod: Object, runtime: PodRuntime) -> PodActions:
    """The steps for a Pod that is not being stopped."""
    need = runtime.sandbox_need(pod)
    actions = PodActions(
        kill_pod=need.needed, create_sandbox=need.needed, sandbox_id=need.sandbox_id, attempt=need.attempt
    )
    if need.needed:
        _for_new_sandbox(pod, runtime, actions)
        return actions
    if not _init_actions(pod, runtime, actions) or actions.kill_pod:
        return actions
    kept = 0
    for index, container in enumerate(objects.containers(pod)):
        found = runtime.latest(container["name"])
        if found is None or found.state is not ContainerState.RUNNING:
            if should_restart(container, pod, runtime):
                actions.start.append(index)
            continue
        if not _changed(container, found):
            kept += 1
            continue
        actions.start.append(index)
        text = f"Container {container['name']} definition changed, will be restarted"
        actions.kill.append((found, text))
    if not kept and not actions.start:
        # Sidecars alone do not keep a Pod alive.
        actions.kill_pod = True
        actions.start_init = []
    return actions


def _for_new_sandbox(pod: Object, runtime: PodRuntime, actions: PodActions) -> None:
    restarts = objects.restart_policy(pod) != "Never"
    if not restarts and actions.attempt and runtime.containers:
        actions.create_sandbox = False
        return
    start = []
    for index, container in enumerate(objects.containers(pod)):
        policy = container.get("restartPolicy") or objects.restart_policy(pod)
        if policy == "OnFailure" and _succeeded(container, runtime):
            continue
        start.append(index)
    if not start and has_regular_container(pod, runtime):
        actions.create_sandbox = False
        return
    if objects.init_containers(pod):
        actions.start_init = [0]
    else:
        actions.start = start


def _succeeded(container: Object, runtime: PodRuntime) -> bool:
    found = runtime.latest(container["name"])
    return found is not None and found.state is ContainerState.EXITED and found.exit_code == 0


def has_regular_container(pod: Object, runtime: PodRuntime) -> bool:
    """Whether a regular container was ever created, so that initialization is over."""
    return any(runtime.latest(container["name"]) is not None for container in objects.containers(pod))


def has_active_regular_container(pod: Object, runtime: PodRuntime) -> bool:
    """Whether a regular container was created in the current sandbox."""
    names = {container["name"] for container in objects.containers(pod)}
    return any(found.config.name in names for found in runtime.active)


def _changed(container: Object, found: ContainerStatus) -> bool:
    known = found.config.annotations.get(HASH_ANNOTATION)
    return known is not None and known != container_hash(container)


def _init_actions(pod: Object, runtime: PodRuntime, actions: PodActions) -> bool:
    """Add what init containers and sidecars need; return whether the regular containers may be looked at.

    Backwards, because what was initialized earlier may have been removed from the runtime.
    """
    init = objects.init_containers(pod)
    if not init:
        return True
    initialized = reached = has_active_regular_container(pod, runtime)
    last = len(init) - 1
    for index in range(last, -1, -1):
        container = init[index]
        sidecar = objects.is_sidecar(container)
        found = runtime.latest_active(container["name"])
        if found is None:
            if reached and sidecar:
                actions.start_init.append(index)
            continue
        if reached and not sidecar:
            continue
        completed = False
        if found.state is ContainerState.CREATED:
            actions.start_init.append(index)
        elif found.state is ContainerState.RUNNING:
            completed = sidecar
            if sidecar and _changed(container, found):
                text = f"Init container {container['name']} definition changed"
                actions.kill.append((found, text))
        elif sidecar:
            actions.start_init.append(index)
        elif found.exit_code != 0:
            if not restarts_after(container, pod, found.exit_code):
                actions.kill_pod = True
                actions.start_init = []
                return False
            actions.start_init.append(index)
        else:
            completed = True
        if completed:
            if index == last:
                initialized = True
            elif not reached:
                actions.start_init.append(index + 1)
            if any(killed is found for killed, _ in actions.kill):
                actions.start_init.append(index)
        reached = True
    if not reached:
        actions.start_init.append(0)
    actions.start_init.reverse()
    return initialized
