"""Pods, claims, classes and slices of tests, as plain API objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

RESOURCE_API = "resource.k8s.io/v1"
IMAGE = "busybox"
Object = dict[str, Any]


def request(
    device_class: str,
    name: str = "device",
    *,
    count: int | None = None,
    every: bool = False,
    selectors: Sequence[str] = (),
    admin_access: bool = False,
) -> Object:
    """A device request with `exactly`; `every` asks for all devices."""
    exactly: Object = {"deviceClassName": device_class}
    if every:
        exactly["allocationMode"] = "All"
    elif count is not None:
        exactly["count"] = count
    if selectors:
        exactly["selectors"] = [{"cel": {"expression": expression}} for expression in selectors]
    if admin_access:
        exactly["adminAccess"] = True
    return {"name": name, "exactly": exactly}


def opaque(driver: str, parameters: Mapping[str, Any], requests: Sequence[str] = ()) -> Object:
    """A configuration for a driver, for some requests or all."""
    config: Object = {"opaque": {"driver": driver, "parameters": dict(parameters)}}
    if requests:
        config["requests"] = list(requests)
    return config


def claim_spec(
    requests: Sequence[Mapping[str, Any]],
    *,
    configs: Sequence[Mapping[str, Any]] = (),
    constraints: Sequence[Mapping[str, Any]] = (),
) -> Object:
    """The spec of a claim."""
    devices: Object = {"requests": [dict(entry) for entry in requests]}
    if configs:
        devices["config"] = [dict(entry) for entry in configs]
    if constraints:
        devices["constraints"] = [dict(entry) for entry in constraints]
    return {"devices": devices}


def claim(name: str, spec: Mapping[str, Any]) -> Object:
    """A ResourceClaim."""
    return {
        "apiVersion": RESOURCE_API,
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": dict(spec),
    }


def template(name: str, spec: Mapping[str, Any]) -> Object:
    """A ResourceClaimTemplate."""
    return {
        "apiVersion": RESOURCE_API,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": dict(spec)},
    }


def device_class(
    name: str, expressions: Sequence[str] = (), configs: Sequence[Mapping[str, Any]] = ()
) -> Object:
    """A DeviceClass with CEL selectors and configurations."""
    spec: Object = {}
    if expressions:
        spec["selectors"] = [{"cel": {"expression": expression}} for expression in expressions]
    if configs:
        spec["config"] = [dict(entry) for entry in configs]
    return {"apiVersion": RESOURCE_API, "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def device(name: str, attributes: Mapping[str, Any] | None = None, **further: Any) -> Object:
    """A device; attribute values are Python values: bool, int or str (`further` are fields as in the API)."""
    typed: Object = {}
    for key, value in (attributes or {}).items():
        word = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "string"
        typed[key] = value if isinstance(value, Mapping) else {word: value}
    return {"name": name, **({"attributes": typed} if typed else {}), **further}


def resource_slice(
    name: str,
    driver: str,
    devices: Sequence[Mapping[str, Any]],
    *,
    node: str = "",
    pool: str = "",
    generation: int = 1,
    count: int = 1,
    **further: Any,
) -> Object:
    """A ResourceSlice of a node, or with `allNodes`, `nodeSelector` in `further`, of several."""
    spec: Object = {
        "driver": driver,
        "pool": {"name": pool or node or name, "generation": generation, "resourceSliceCount": count},
        "devices": [dict(entry) for entry in devices],
        **further,
    }
    if node:
        spec["nodeName"] = node
    return {"apiVersion": RESOURCE_API, "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def container(
    name: str = "main",
    command: Sequence[str] = ("probe",),
    claims: Sequence[str | tuple[str, str]] = (),
    **further: Any,
) -> Object:
    """A container; `claims` are names of the Pod's claims, or pairs of name and request."""
    entries = [
        {"name": entry} if isinstance(entry, str) else {"name": entry[0], "request": entry[1]}
        for entry in claims
    ]
    # By default an image without a tag is pulled at every start.
    result: Object = {
        "name": name,
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": list(command),
        **further,
    }
    if entries:
        result["resources"] = {**result.get("resources", {}), "claims": entries}
    return result


def pod(
    name: str,
    *,
    claims: Mapping[str, str] | None = None,
    templates: Mapping[str, str] | None = None,
    containers: Sequence[Mapping[str, Any]] = (),
    node: str = "",
    restart: str = "Never",
    **further: Any,
) -> Object:
    """A Pod: `claims` and `templates` map the Pod's claim names to claims and templates.

    Without `containers` it has one that runs `probe` with every claim. `node` selects a node by its hostname label.
    `further` are fields of the spec.
    """
    names = [*(claims or {}), *(templates or {})]
    entries = [{"name": key, "resourceClaimName": value} for key, value in (claims or {}).items()]
    entries += [{"name": key, "resourceClaimTemplateName": value} for key, value in (templates or {}).items()]
    spec: Object = {
        "restartPolicy": restart,
        "terminationGracePeriodSeconds": 1,
        "containers": [dict(entry) for entry in containers] or [container(claims=names)],
        **further,
    }
    if entries:
        spec["resourceClaims"] = entries
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
