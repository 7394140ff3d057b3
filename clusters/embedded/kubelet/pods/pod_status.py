"""The status of a Pod as a kubelet generates it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from clusters.embedded.kubelet.pods import objects
from clusters.embedded.kubelet.pods.actions import has_active_regular_container
from clusters.embedded.kubelet.pods.conditions import OWNED, find, owned_conditions
from clusters.embedded.kubelet.pods.container_status import StartProblem, container_statuses, set_readiness
from clusters.embedded.kubelet.pods.objects import TERMINAL, Object
from clusters.embedded.kubelet.pods.phase import pod_phase
from clusters.embedded.kubelet.pods.qos import qos_class
from clusters.embedded.kubelet.pods.resources import pod_limits, pod_requests
from clusters.embedded.kubelet.pods.runtime_state import PodRuntime


@dataclass(frozen=True)
class StatusInput:
    """What a status is made from.

    Attributes:
        pod: the object, whose status is what the API server has.
        runtime: what the runtime knows.
        old: the status generated before, or the API server's.
        problems: start problems by container name.
        host_ip: address of the node.
        ips: addresses of the Pod; those of the runtime if None.
        node_allocatable: whether amounts of node-allocatable claims count.
        report_health: adds the health of devices to the statuses of regular containers.
        failure: reason and message of a Pod that the kubelet itself ends.
    """

    pod: Object
    runtime: PodRuntime
    old: Object
    problems: Mapping[str, StartProblem]
    host_ip: str
    ips: tuple[str, ...] | None = None
    node_allocatable: bool = False
    report_health: Callable[[Object, Sequence[Object]], None] | None = None
    failure: tuple[str, str] | None = None


def generate_status(source: StatusInput, *, terminal: bool) -> Object:
    """The new status; `terminal` says that no container runs or will be started again."""
    pod, old = source.pod, source.old
    init = container_statuses(
        pod, source.runtime, old.get("initContainerStatuses") or [], source.problems, init=True
    )
    regular = container_statuses(
        pod, source.runtime, old.get("containerStatuses") or [], source.problems, init=False
    )
    initialized = has_active_regular_container(pod, source.runtime)
    phase = pod_phase(pod, (*regular, *init), terminal=terminal, initialized=initialized)
    api_phase = objects.phase(pod)
    if phase not in TERMINAL:
        phase = next((known for known in (old.get("phase"), api_phase) if known in TERMINAL), phase)
    if api_phase in TERMINAL:
        phase = api_phase
    status: Object = {"phase": phase, "qosClass": objects.status(pod).get("qosClass") or qos_class(pod)}
    if source.failure is not None:
        status["phase"] = phase = "Failed"
        status["reason"], status["message"] = source.failure
    elif phase == old.get("phase"):
        for field in ("reason", "message"):
            if text := old.get(field) or objects.status(pod).get(field):
                status[field] = text
    set_readiness(pod, init, regular)
    if source.report_health is not None:
        source.report_health(pod, regular)
    ips = source.runtime.ips if source.ips is None else source.ips
    _addresses(status, pod, ips, source.host_ip)
    kept = [
        condition
        for condition in objects.status(pod).get("conditions") or []
        if condition["type"] not in OWNED
    ]
    disruption = find(old.get("conditions") or [], "DisruptionTarget")
    if disruption is not None:
        kept = [item for item in kept if item["type"] != "DisruptionTarget"] + [disruption]
    status["conditions"] = kept + owned_conditions(pod, source.runtime, init, regular, phase)
    if init:
        status["initContainerStatuses"] = init
    status["containerStatuses"] = regular
    _resources(status, source)
    return status


def _addresses(status: Object, pod: Object, ips: tuple[str, ...], host_ip: str) -> None:
    status["hostIP"] = host_ip
    status["hostIPs"] = [{"ip": host_ip}]
    if objects.is_host_network(pod):
        ips = (host_ip,)
    if ips:
        status["podIP"] = ips[0]
        status["podIPs"] = [{"ip": address} for address in ips]


def _resources(status: Object, source: StatusInput) -> None:
    """Requests and limits of the Pod as a whole."""
    requests = pod_requests(source.pod, node_allocatable=source.node_allocatable)
    limits = pod_limits(source.pod, node_allocatable=source.node_allocatable)
    if requests:
        status["allocatedResources"] = requests
    status["resources"] = {key: value for key, value in (("limits", limits), ("requests", requests)) if value}
