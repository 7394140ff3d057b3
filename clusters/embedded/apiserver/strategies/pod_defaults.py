"""Defaults of pods (api-machinery section 20)."""

from __future__ import annotations

from typing import Any, Final

from clusters.embedded.apiserver.storage import Object

_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_FILE_MODE: Final = 420
_DEFAULT_MODES: Final = ("secret", "configMap", "downwardAPI", "projected")
_QOS_RESOURCES: Final = ("cpu", "memory")


def apply(obj: Object) -> None:
    """Set the defaults of a pod in place."""
    spec = obj.setdefault("spec", {})
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("enableServiceLinks", True)
    if spec.get("serviceAccountName"):
        spec["serviceAccount"] = spec["serviceAccountName"]
    elif spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"]
    for name in ("initContainers", "containers"):
        for container in spec.get(name) or []:
            _container(container, host_network=bool(spec.get("hostNetwork")))
    for volume in spec.get("volumes") or []:
        _volume(volume)


def _container(container: dict[str, Any], *, host_network: bool) -> None:
    image = container.get("image", "")
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = "Always" if _latest(image) else "IfNotPresent"
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    resources = container.setdefault("resources", {})
    if resources.get("limits"):
        requests = resources.setdefault("requests", {})
        for name, quantity in resources["limits"].items():
            requests.setdefault(name, quantity)
    for port in container.get("ports") or []:
        port.setdefault("protocol", "TCP")
        if host_network and not port.get("hostPort"):
            port["hostPort"] = port.get("containerPort")
    for name in _PROBES:
        if container.get(name):
            _probe(container[name])
    hooks = container.get("lifecycle") or {}
    for hook in hooks.values():
        if isinstance(hook, dict) and hook.get("httpGet"):
            _http_get(hook["httpGet"])
    for variable in container.get("env") or []:
        _field_reference((variable.get("valueFrom") or {}).get("fieldRef"))


def _latest(image: str) -> bool:
    if "@" in image:
        return False
    _, _, tag = image.rpartition("/")[2].partition(":")
    return tag in ("", "latest")


def _probe(probe: dict[str, Any]) -> None:
    for name, value in (
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ):
        if not probe.get(name):
            probe[name] = value
    if probe.get("httpGet"):
        _http_get(probe["httpGet"])
    if probe.get("grpc") is not None:
        probe["grpc"].setdefault("service", "")


def _http_get(action: dict[str, Any]) -> None:
    action.setdefault("path", "/")
    action.setdefault("scheme", "HTTP")


def _field_reference(reference: dict[str, Any] | None) -> None:
    if reference is not None and not reference.get("apiVersion"):
        reference["apiVersion"] = "v1"


def _volume(volume: dict[str, Any]) -> None:
    if not any(key != "name" for key in volume):
        volume["emptyDir"] = {}
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    for name in _DEFAULT_MODES:
        if name in volume:
            volume[name].setdefault("defaultMode", _FILE_MODE)
    for source in (volume.get("projected") or {}).get("sources") or []:
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)
        for item in (source.get("downwardAPI") or {}).get("items") or []:
            _field_reference(item.get("fieldRef"))
    for item in (volume.get("downwardAPI") or {}).get("items") or []:
        _field_reference(item.get("fieldRef"))


def qos_class(spec: dict[str, Any]) -> str:
    """Guaranteed, Burstable or BestEffort by the requests and limits of all containers."""
    containers = (spec.get("initContainers") or []) + (spec.get("containers") or [])
    guaranteed, anything = True, False
    for container in containers:
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name in _QOS_RESOURCES:
            anything = anything or name in requests or name in limits
            if name not in limits or requests.get(name, limits[name]) != limits[name]:
                guaranteed = False
    if not anything:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"
