"""Questions to a Pod object that many parts of a kubelet ask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

Object = dict[str, Any]
TERMINAL: Final = ("Succeeded", "Failed")
POD_NAME_LABEL: Final = "io.kubernetes.pod.name"
POD_NAMESPACE_LABEL: Final = "io.kubernetes.pod.namespace"
POD_UID_LABEL: Final = "io.kubernetes.pod.uid"
CONTAINER_NAME_LABEL: Final = "io.kubernetes.container.name"


def uid(pod: Object) -> str:
    """UID of the object."""
    return str(pod["metadata"]["uid"])


def namespace(pod: Object) -> str:
    """Namespace of the object."""
    return str(pod["metadata"]["namespace"])


def name(pod: Object) -> str:
    """Name of the object."""
    return str(pod["metadata"]["name"])


def described(pod: Object) -> str:
    """NAME_NAMESPACE(UID), as kubelets name Pods in texts."""
    return f"{name(pod)}_{namespace(pod)}({uid(pod)})"


def containers(pod: Object) -> list[Object]:
    """The regular containers."""
    return pod["spec"].get("containers") or []


def init_containers(pod: Object) -> list[Object]:
    """Init containers, sidecars among them."""
    return pod["spec"].get("initContainers") or []


def all_containers(pod: Object) -> Iterator[tuple[str, int, Object]]:
    """Field, index and container for init and regular containers."""
    for field, items in (("initContainers", init_containers(pod)), ("containers", containers(pod))):
        for index, container in enumerate(items):
            yield field, index, container


def find_container(pod: Object, container_name: str) -> Object | None:
    """A container by name."""
    return next((found for _, _, found in all_containers(pod) if found["name"] == container_name), None)


def field_path(pod: Object, container_name: str) -> str:
    """Path of a container for events: spec.containers{NAME}."""
    for field, _, container in all_containers(pod):
        if container["name"] == container_name:
            return f"spec.{field}{{{container_name}}}"
    return f"implicitly required container {container_name}"


def is_sidecar(container: Object) -> bool:
    """Whether an init container is one that keeps running."""
    return container.get("restartPolicy") == "Always"


def restart_policy(pod: Object) -> str:
    """Always, OnFailure or Never."""
    return str(pod["spec"].get("restartPolicy") or "Always")


def is_host_network(pod: Object) -> bool:
    """Whether the Pod shares the node's network."""
    return bool(pod["spec"].get("hostNetwork"))


def deleted(pod: Object) -> bool:
    """Whether deletion was asked for."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def status(pod: Object) -> Object:
    """Status as the API server has it."""
    return pod.get("status") or {}


def phase(pod: Object) -> str:
    """Phase as the API server has it."""
    return str(status(pod).get("phase") or "Pending")


def is_terminal(pod: Object) -> bool:
    """Whether the phase is Succeeded or Failed."""
    return phase(pod) in TERMINAL


def differ(old: Object, new: Object) -> bool:
    """Whether more than the status changed, so that a kubelet looks at the Pod at once."""
    if old["spec"] != new["spec"]:
        return True
    fields = ("labels", "annotations", "deletionTimestamp", "deletionGracePeriodSeconds")
    return any(old["metadata"].get(field) != new["metadata"].get(field) for field in fields)
