"""Rules for the specs of pods and of pod templates.

Source: kubernetes v1.37.2 `pkg/apis/core/validation`, `ValidatePodSpec`, in its order. Not judged: the sources of
volumes except for their paths, DNS and security settings, affinity between pods, topology spreading.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from .findings import Findings
from .metadata import check_annotations, check_labels
from .names import (
    dns_label_problems,
    dns_subdomain_problems,
    label_key_problems,
    label_value_problems,
    not_supported,
)
from .node_selector import check_node_selector
from .pod_container import check_container
from .pod_paths import check_volume_paths

Object = Mapping[str, Any]

_SOURCES: Final = "`resourceClaimName`, `resourceClaimTemplateName`"
_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_TAINT_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_ONLY_SIDECARS: Final = "may not be set for init containers without restartPolicy=Always"
_MAX_INT32: Final = 2**31 - 1


def check_template(found: Findings, template: Object, path: str) -> None:
    """A pod template; its labels and annotations are reported without `metadata`, as the server does."""
    metadata = template.get("metadata") or {}
    check_labels(found, metadata.get("labels") or {}, f"{path}.labels")
    check_annotations(found, metadata.get("annotations") or {}, f"{path}.annotations")
    spec = template.get("spec") or {}
    check_spec(found, spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        found.forbidden(
            f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template"
        )


def check_spec(found: Findings, spec: Object, path: str, *, mirror: bool = False) -> None:
    """A pod's spec below `path`; `mirror` says that the pod mirrors a static one."""
    volumes = _check_volumes(found, spec.get("volumes") or [], f"{path}.volumes")
    claims = _check_claims(found, spec.get("resourceClaims") or [], f"{path}.resourceClaims", mirror)
    _check_containers(found, spec, path, claims, volumes)
    _check_choice(found, spec, f"{path}.restartPolicy", _RESTART_POLICIES)
    _check_choice(found, spec, f"{path}.dnsPolicy", _DNS_POLICIES)
    check_labels(found, spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if required is not None:
        where = f"{path}.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        check_node_selector(found, required, where)
    _check_gates(found, spec.get("schedulingGates") or [], f"{path}.schedulingGates")
    for field in ("serviceAccountName", "nodeName"):
        if spec.get(field):
            found.invalid_each(f"{path}.{field}", spec[field], dns_subdomain_problems(spec[field]))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_INT32:
        text = f"must be between 1 and {_MAX_INT32}, inclusive"
        found.invalid(f"{path}.activeDeadlineSeconds", deadline, text)
    for field in ("hostname", "subdomain"):
        if spec.get(field):
            found.invalid_each(f"{path}.{field}", spec[field], dns_label_problems(spec[field]))
    _check_tolerations(found, spec.get("tolerations") or [], f"{path}.tolerations")
    if spec.get("priorityClassName"):
        problems = dns_subdomain_problems(spec["priorityClassName"])
        found.invalid_each(f"{path}.priorityClassName", spec["priorityClassName"], problems)


def _check_choice(found: Findings, spec: Object, path: str, allowed: tuple[str, ...]) -> None:
    """A field with few values; defaults have filled in an absent one."""
    value = spec.get(path.rpartition(".")[2]) or ""
    if value and value not in allowed:
        found.add(not_supported(path, value, allowed))


def _check_volumes(found: Findings, volumes: Sequence[Object], path: str) -> set[str]:
    """`volumes`; returns the names of those without an error."""
    names: set[str] = set()
    for index, volume in enumerate(volumes):
        name, where = volume.get("name") or "", f"{path}[{index}].name"
        before = found.count
        check_volume_paths(found, volume, f"{path}[{index}]")
        if not name:
            found.required(where)
        elif problems := dns_label_problems(name):
            found.invalid_each(where, name, problems)
        elif name in names:
            found.duplicate(where, name)
        if found.count == before:
            names.add(name)
    return names


def _check_claims(found: Findings, claims: Sequence[Object], path: str, mirror: bool) -> set[str]:
    """`resourceClaims`; returns their names."""
    known: set[str] = set()
    for index, claim in enumerate(claims):
        if mirror:
            # The server prints its empty path so.
            found.forbidden("[]", "static pods do not support resource claims")
        else:
            _check_claim(found, claim, known, f"{path}[{index}]")
    return known


def _check_claim(found: Findings, claim: Object, known: set[str], path: str) -> None:
    name = claim.get("name") or ""
    if not name:
        found.required(f"{path}.name")
    elif name in known:
        found.duplicate(f"{path}.name", name)
    else:
        found.invalid_each(f"{path}.name", name, dns_label_problems(name))
        known.add(name)
    sources = [
        field for field in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(field) is not None
    ]
    if len(sources) == 2:
        both = "`resourceClaimName` or `resourceClaimTemplateName`"
        found.invalid(path, _go_claim(claim), f"at most one of {both} may be specified")
    elif not sources:
        found.invalid(path, _go_claim(claim), f"must specify one of: {_SOURCES}")
    for field in sources:
        found.invalid_each(f"{path}.{field}", claim[field], dns_subdomain_problems(claim[field]))


def _go_claim(claim: Object) -> dict[str, Any]:
    """A pod's claim as the server prints it: its internal type has no JSON names."""
    return {
        "Name": claim.get("name") or "",
        "ResourceClaimName": claim.get("resourceClaimName"),
        "ResourceClaimTemplateName": claim.get("resourceClaimTemplateName"),
    }


def _check_containers(found: Findings, spec: Object, path: str, claims: set[str], volumes: set[str]) -> None:
    containers = spec.get("containers") or []
    if not containers:
        found.required(f"{path}.containers")
    names: set[str] = set()
    for index, container in enumerate(containers):
        where = f"{path}.containers[{index}]"
        check_container(found, container, where, claims, volumes)
        _check_unique(found, container, f"{where}.name", names)
    for index, container in enumerate(spec.get("initContainers") or []):
        where = f"{path}.initContainers[{index}]"
        check_container(found, container, where, claims, volumes)
        policy = container.get("restartPolicy")
        if policy is not None and policy not in _RESTART_POLICIES:
            found.add(not_supported(f"{where}.restartPolicy", policy, _RESTART_POLICIES))
        _check_unique(found, container, f"{where}.name", names)
        if policy != "Always":
            for field in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
                if container.get(field) is not None:
                    found.forbidden(f"{where}.{field}", _ONLY_SIDECARS)


def _check_unique(found: Findings, container: Object, path: str, names: set[str]) -> None:
    name = container.get("name") or ""
    if name and name in names:
        found.duplicate(path, name)
    names.add(name)


def _check_gates(found: Findings, gates: Sequence[Object], path: str) -> None:
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name, where = gate.get("name") or "", f"{path}[{index}]"
        found.invalid_each(where, name, label_key_problems(name))
        if name in seen:
            found.duplicate(where, name)
        seen.add(name)


def _check_tolerations(found: Findings, tolerations: Sequence[Object], path: str) -> None:
    for index, toleration in enumerate(tolerations):
        where = f"{path}[{index}]"
        key, operator, value, effect = (
            toleration.get(field) or "" for field in ("key", "operator", "value", "effect")
        )
        if key:
            found.invalid_each(f"{where}.key", key, label_key_problems(key))
        elif operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            found.invalid(f"{where}.operator", operator, text)
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            found.invalid(f"{where}.effect", effect, text)
        if operator in ("Equal", ""):
            if problems := label_value_problems(value):
                found.invalid(f"{where}.operator", value, ";".join(problems))
        elif operator == "Exists":
            if value:
                found.invalid(f"{where}.operator", value, "value must be empty when `operator` is 'Exists'")
        elif operator in ("Lt", "Gt"):
            allowed = ("Equal", "Exists", "Lt", "Gt")
            found.add(not_supported(f"{where}.operator", operator, allowed))
        else:
            found.add(not_supported(f"{where}.operator", operator, ("Equal", "Exists")))
        if effect and effect not in _TAINT_EFFECTS:
            found.add(not_supported(f"{where}.effect", effect, _TAINT_EFFECTS))
