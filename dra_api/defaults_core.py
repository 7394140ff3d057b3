"""Defaults of the kinds beside resource.k8s.io, as set on every decoding (api-machinery section 20).

What admission adds (priority, tolerations, service account) is not here.
Source: kubernetes v1.37.2 `pkg/apis/core/v1/defaults.go`, `pkg/apis/rbac/v1/defaults.go`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any, Final

from .quantity import Quantity

Object = dict[str, Any]

RBAC_GROUP: Final = "rbac.authorization.k8s.io"
NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"
_MILLI: Final = -3
_AFFINITY_SECONDS: Final = 10800
_FILE_MODE: Final = 420  # 0644
_PROBE: Final = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_POD_SPEC: Final = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
}


def apply_core_defaults(obj: Object) -> None:
    """Fill in defaults, in place; kinds without any stay as they are."""
    defaulter = _DEFAULTERS.get(str(obj.get("kind", "")))
    if defaulter is not None:
        defaulter(obj)


def _containers(spec: Object) -> Iterator[Object]:
    for group in ("initContainers", "containers"):
        yield from spec.get(group) or []


def _pod(pod: Object) -> None:
    spec: Object = pod.setdefault("spec", {})
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    apply_pod_spec_defaults(spec)
    for container in _containers(spec):
        resources = container["resources"]
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
        if spec.get("hostNetwork"):
            for port in container.get("ports") or []:
                port["hostPort"] = port.get("hostPort") or port.get("containerPort", 0)
    if spec.get("enableServiceLinks") is None:
        spec["enableServiceLinks"] = True


def apply_pod_spec_defaults(spec: Object) -> None:
    """What the specs of pods and of pod templates have in common, in place."""
    for field, value in _POD_SPEC.items():
        if spec.get(field) in (None, ""):
            spec[field] = value
    if spec.get("securityContext") is None:
        spec["securityContext"] = {}
    # The deprecated field is an alias; the newer one wins.
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for container in _containers(spec):
        _container(container)
    for volume in spec.get("volumes") or []:
        _volume(volume)


def _container(container: Object) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = (
            "Always" if _is_latest(container.get("image") or "") else "IfNotPresent"
        )
    container["terminationMessagePath"] = container.get("terminationMessagePath") or "/dev/termination-log"
    container["terminationMessagePolicy"] = container.get("terminationMessagePolicy") or "File"
    resources = container.setdefault("resources", {})
    for field in ("limits", "requests"):
        _round_amounts(resources.get(field))
    for port in container.get("ports") or []:
        port["protocol"] = port.get("protocol") or "TCP"
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(name) is not None:
            _probe(container[name])
    for hook in (container.get("lifecycle") or {}).values():
        if isinstance(hook, dict):
            _http_get(hook.get("httpGet"))
    for variable in container.get("env") or []:
        _field_reference((variable.get("valueFrom") or {}).get("fieldRef"))


def _is_latest(image: str) -> bool:
    """Whether the image has the tag latest or neither tag nor digest."""
    if "@" in image:
        return False
    return image.rpartition("/")[2].partition(":")[2] in ("", "latest")


def _round_amounts(amounts: Object | None) -> None:
    """Amounts of resources are kept in thousandths at the finest."""
    for name, amount in (amounts or {}).items():
        amounts[name] = str(Quantity.parse(str(amount)).round_up(_MILLI))  # type: ignore[index]


def _probe(probe: Object) -> None:
    for field, value in _PROBE.items():
        probe[field] = probe.get(field) or value
    _http_get(probe.get("httpGet"))
    if probe.get("grpc") is not None:
        probe["grpc"].setdefault("service", "")


def _http_get(action: Object | None) -> None:
    if action is not None:
        action["path"] = action.get("path") or "/"
        action["scheme"] = action.get("scheme") or "HTTP"


def _field_reference(reference: Object | None) -> None:
    if reference is not None:
        reference["apiVersion"] = reference.get("apiVersion") or "v1"


def _volume(volume: Object) -> None:
    if volume.keys() <= {"name"}:
        volume["emptyDir"] = {}
    if volume.get("hostPath") is not None:
        volume["hostPath"].setdefault("type", "")
    for field in ("secret", "configMap", "downwardAPI", "projected"):
        if volume.get(field) is not None:
            volume[field].setdefault("defaultMode", _FILE_MODE)
    items = list((volume.get("downwardAPI") or {}).get("items") or [])
    for source in (volume.get("projected") or {}).get("sources") or []:
        if source.get("serviceAccountToken") is not None:
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)
        items += (source.get("downwardAPI") or {}).get("items") or []
    for item in items:
        _field_reference(item.get("fieldRef"))


def _node(node: Object) -> None:
    status: Object = node.setdefault("status", {})
    for field in ("capacity", "allocatable"):
        _round_amounts(status.get(field))
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])


def _namespace(namespace: Object) -> None:
    metadata = namespace.get("metadata") or {}
    if metadata.get("name"):
        labels = {**(metadata.get("labels") or {}), NAMESPACE_LABEL: metadata["name"]}
        namespace["metadata"] = {**metadata, "labels": labels}
    status: Object = namespace.setdefault("status", {})
    status["phase"] = status.get("phase") or "Active"


def _secret(secret: Object) -> None:
    secret["type"] = secret.get("type") or "Opaque"
    plain = secret.pop("stringData", None) or {}
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
    if encoded:
        secret["data"] = {**(secret.get("data") or {}), **encoded}


def _service(service: Object) -> None:
    spec: Object = service.setdefault("spec", {})
    spec["sessionAffinity"] = spec.get("sessionAffinity") or "None"
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        config = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        config.setdefault("timeoutSeconds", _AFFINITY_SECONDS)
    spec["type"] = spec.get("type") or "ClusterIP"
    for port in spec.get("ports") or []:
        port["protocol"] = port.get("protocol") or "TCP"
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port.get("port", 0)
    external = spec["type"] in ("NodePort", "LoadBalancer")
    if external or (spec["type"] == "ClusterIP" and spec.get("externalIPs")):
        spec["externalTrafficPolicy"] = spec.get("externalTrafficPolicy") or "Cluster"
    if spec["type"] != "ExternalName" and spec.get("internalTrafficPolicy") is None:
        spec["internalTrafficPolicy"] = "Cluster"
    if spec["type"] == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is None:
        spec["allocateLoadBalancerNodePorts"] = True


def _binding(binding: Object) -> None:
    reference = binding.setdefault("roleRef", {})
    reference["apiGroup"] = reference.get("apiGroup") or RBAC_GROUP
    for subject in binding.get("subjects") or []:
        if subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = subject.get("apiGroup") or RBAC_GROUP


_DEFAULTERS: Final[dict[str, Callable[[Object], None]]] = {
    "Pod": _pod,
    "Node": _node,
    "Namespace": _namespace,
    "Secret": _secret,
    "Service": _service,
    "RoleBinding": _binding,
    "ClusterRoleBinding": _binding,
}
