"""Rules for pods: their spec, and the claim fields of their status.

Source: kubernetes v1.37.2 `pkg/apis/core/validation`, functions for resource claims and their statuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..quantity import Quantity
from .findings import Findings
from .metadata import IMMUTABLE
from .names import byte_length, dns_label_problems, dns_subdomain_problems, not_supported
from .node_allocatable import is_node_allocatable
from .pod_restarts import check_transitions
from .pod_spec import check_spec

Object = Mapping[str, Any]

MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
HEALTH_MESSAGE_MAX: Final = 1024
_HEALTH: Final = ("Healthy", "Unhealthy", "Unknown")
_CLAIM_STATUS_NAME: Final = (
    "must match one of the container's resource claims as 'claim:<claimName>/<requestName>' when "
    "container.resources.claims[*].request is set or 'claim:<claimName>' when it is empty"
)
_MAPPED_RESOURCE: Final = (
    "must match the extended resource name of an entry in spec.initContainers.resources.requests or "
    "spec.containers.resources.requests"
)


def create(found: Findings, pod: Object) -> None:
    """Rules for a new pod, beside its metadata."""
    mirror = MIRROR_ANNOTATION in ((pod.get("metadata") or {}).get("annotations") or {})
    check_spec(found, pod.get("spec") or {}, "spec", mirror=mirror)


def update_status(found: Findings, pod: Object, old: Object) -> None:
    """Rules for the claim fields of a pod's status, and for its QoS class, which stays."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    before = old.get("status") or {}
    _check_nomination(found, status, before, spec)
    quality = status.get("qosClass") or ""
    if quality != (before.get("qosClass") or ""):
        found.invalid("status.qosClass", quality, IMMUTABLE)
    for field, group in (("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")):
        check_transitions(found, status, before, spec, field, group)
    _check_claim_statuses(found, status, spec)
    _check_node_allocatable(found, status, spec)
    if status.get("extendedResourceClaimStatus") is not None:
        _check_extended(found, status["extendedResourceClaimStatus"], spec)
    for field, group in (("initContainerStatuses", "initContainers"), ("containerStatuses", "containers")):
        containers = {each.get("name"): each for each in spec.get(group) or []}
        for index, each in enumerate(status.get(field) or []):
            container = containers.get(each.get("name"))
            for number, resource in enumerate(each.get("allocatedResourcesStatus") or []):
                path = f"status.{field}[{index}].allocatedResourcesStatus[{number}]"
                _check_allocated(found, resource, container, status, path)


def _check_nomination(found: Findings, status: Object, before: Object, spec: Object) -> None:
    path, name = "status.nominatedNodeName", status.get("nominatedNodeName") or ""
    if not name or name == before.get("nominatedNodeName"):
        return
    found.invalid_each(path, name, dns_subdomain_problems(name))
    if spec.get("nodeName"):
        found.forbidden(path, "may not be set on pods that are already bound to a node")


def _containers(spec: Object) -> list[tuple[str, Object]]:
    return [
        (f"spec.{group}[{index}]", container)
        for group in ("containers", "initContainers")
        for index, container in enumerate(spec.get(group) or [])
    ]


def _check_claim_statuses(found: Findings, status: Object, spec: Object) -> None:
    claims = {claim.get("name") for claim in spec.get("resourceClaims") or []}
    seen: set[str] = set()
    for index, entry in enumerate(status.get("resourceClaimStatuses") or []):
        path = f"status.resourceClaimStatuses[{index}]"
        name = entry.get("name") or ""
        if name not in claims:
            text = "must match the name of an entry in `spec.resourceClaims`"
            found.invalid(f"{path}.name", name, text)
        if name in seen:
            found.duplicate(f"{path}.name", name)
        seen.add(name)
        claim = entry.get("resourceClaimName")
        if claim is not None:
            found.invalid_each(f"{path}.resourceClaimName", claim, dns_subdomain_problems(claim))


def _check_node_allocatable(found: Findings, status: Object, spec: Object) -> None:
    holders = [*(spec.get("resourceClaims") or []), *(status.get("resourceClaimStatuses") or [])]
    claims = {holder.get("resourceClaimName") for holder in holders}
    for index, entry in enumerate(status.get("nodeAllocatableResourceClaimStatuses") or []):
        path = f"status.nodeAllocatableResourceClaimStatuses[{index}]"
        name = entry.get("resourceClaimName") or ""
        if not name:
            continue
        if name not in claims:
            found.invalid(f"{path}.resourceClaimName", name, "no mapping found in pod reference")
        for field, amounts in (("mapping", ("quantity",)), ("overhead", ("perPod", "perContainer"))):
            for number, item in enumerate(entry.get(field) or []):
                where = f"{path}.{field}[{number}]"
                resource = item.get("name") or ""
                if not is_node_allocatable(resource):
                    found.invalid(f"{where}.name", resource, "must be a node allocatable resource name")
                if field == "overhead" and all(item.get(amount) is None for amount in amounts):
                    found.invalid(where, "", "at least one of perPod or perContainer must be set")
                for amount in amounts:
                    if item.get(amount) is not None:
                        quantity = Quantity.parse(str(item[amount]))
                        if quantity.sign < 0:
                            found.invalid(f"{where}.{amount}", str(quantity), "must be non-negative")


def _check_extended(found: Findings, status: Object, spec: Object) -> None:
    path = "status.extendedResourceClaimStatus"
    mappings = status.get("requestMappings") or []
    if not mappings:
        found.required(f"{path}.requestMappings", "at least one request mapping is required")
    requests = {
        each.get("name"): (each.get("resources") or {}).get("requests") or {} for _, each in _containers(spec)
    }
    seen: set[tuple[str, str, str]] = set()
    for index, mapping in enumerate(mappings):
        where = f"{path}.requestMappings[{index}]"
        fields = ("containerName", "resourceName", "requestName")
        container, resource, request = key = tuple(mapping.get(field) or "" for field in fields)
        if container not in requests:
            text = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
            found.invalid(f"{where}.containerName", container, text)
        elif resource not in requests[container]:
            found.invalid(f"{where}.resourceName", resource, _MAPPED_RESOURCE)
        # The server leaves the index out of this path.
        found.invalid_each(f"{path}.requestName", request, dns_label_problems(request))
        if key in seen:
            for field, value in zip(fields, key, strict=True):
                found.duplicate(f"{where}.{field}", value)
        seen.add((container, resource, request))
    name = status.get("resourceClaimName") or ""
    if name:
        found.invalid_each(f"{path}.resourceClaimName", name, dns_subdomain_problems(name))
    else:
        found.required(f"{path}.resourceClaimName")


def _check_allocated(
    found: Findings, resource: Object, container: Object | None, status: Object, path: str
) -> None:
    """Health of allocated resources; containers that the spec does not have are not judged."""
    name = resource.get("name") or ""
    if container is not None and not _is_allocated(name, container, status):
        claim = name.startswith("claim:")
        text = _CLAIM_STATUS_NAME if claim else "must match one of the container's resource requests"
        found.invalid(f"{path}.name", name, text)
    seen: set[str] = set()
    for index, item in enumerate(resource.get("resources") or []):
        where = f"{path}.resources[{index}]"
        health, message, identity = (
            item.get("health") or "",
            item.get("message"),
            item.get("resourceID") or "",
        )
        if health not in _HEALTH:
            found.add(not_supported(f"{where}.health", health, _HEALTH))
        if message == "":
            found.required(f"{where}.message", "must be non-empty if specified")
        elif message is not None and byte_length(message) > HEALTH_MESSAGE_MAX:
            found.longer(f"{where}.message", HEALTH_MESSAGE_MAX)
        if identity in seen:
            found.duplicate(f"{where}.resourceID", identity)
        seen.add(identity)


def _is_allocated(name: str, container: Object, status: Object) -> bool:
    resources = container.get("resources") or {}
    requests = resources.get("requests") or {}
    if not name.startswith("claim:"):
        return name in requests
    for use in resources.get("claims") or []:
        request = f"/{use['request']}" if use.get("request") else ""
        if name == f"claim:{use.get('name')}{request}":
            return True
    extended = status.get("extendedResourceClaimStatus") or {}
    return any(
        mapping.get("containerName") == container.get("name")
        and not Quantity.parse(str(requests.get(mapping.get("resourceName"), "0"))).is_zero()
        and name == f"claim:{extended.get('resourceClaimName')}/{mapping.get('requestName')}"
        for mapping in extended.get("requestMappings") or []
    )
