"""Rules for the kinds beside resource.k8s.io that a cluster for DRA serves.

Metadata are not judged here (`dra_api.validation.metadata` does that, with `name_rule`). Kinds without rules
have no errors. Source: kubernetes v1.37.2 `pkg/apis/*/validation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..errors import FieldError
from . import event, pod, pod_update, rbac, service
from .findings import Findings
from .metadata import IMMUTABLE, check_finalizer
from .names import (
    NameRule,
    config_key_problems,
    is_dns1035_label,
    is_label,
    is_path_segment,
    is_subdomain,
    label_key_problems,
    label_value_problems,
    not_supported,
)

Object = Mapping[str, Any]

DATA_MAX: Final = 1024 * 1024
_NAME_RULES: Final[dict[str, NameRule]] = {
    "Namespace": is_label,
    "Service": is_dns1035_label,
    "Role": is_path_segment,
    "ClusterRole": is_path_segment,
    "RoleBinding": is_path_segment,
    "ClusterRoleBinding": is_path_segment,
}
_TAINT_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_KEEPS: Final = "field is immutable when `immutable` is set"


def name_rule(kind: str) -> NameRule:
    """The rule for the names of a kind of any group; most are DNS subdomains."""
    return _NAME_RULES.get(kind, is_subdomain)


def validate_create(obj: Object, sent_as: str = "") -> list[FieldError]:
    """All errors of a new object; `sent_as` is the apiVersion of the request, which matters for events."""
    found = Findings()
    _check(found, obj, None, sent_as)
    return found.errors()


def validate_update(new: Object, old: Object, sent_as: str = "") -> list[FieldError]:
    """All errors of a changed object."""
    found = Findings()
    _check(found, new, old, sent_as)
    return found.errors()


def validate_status_update(new: Object, old: Object) -> list[FieldError]:
    """All errors of a changed status."""
    found = Findings()
    kind = new.get("kind")
    if kind == "Pod":
        pod.update_status(found, new, old)
    elif kind == "Node":
        _check_node(found, new, old)
    elif kind == "Namespace":
        _check_phase(found, new)
    return found.errors()


def validate_finalize(namespace: Object) -> list[FieldError]:
    """All errors of a namespace whose finalizers are changed."""
    found = Findings()
    for index, finalizer in enumerate((namespace.get("spec") or {}).get("finalizers") or []):
        check_finalizer(found, finalizer, f"spec.finalizers[{index}]")
    return found.errors()


def _check(found: Findings, obj: Object, old: Object | None, sent_as: str) -> None:
    kind = obj.get("kind")
    if kind == "Pod":
        pod.create(found, obj)
        if old is not None:
            pod_update.check_changes(found, obj, old)
    elif kind == "Event":
        strict = sent_as.startswith("events.k8s.io/")
        if old is None:
            event.create(found, obj, strict=strict)
        else:
            event.update(found, obj, old, strict=strict)
    elif kind in ("Role", "ClusterRole"):
        rbac.check_role(found, obj, namespaced=kind == "Role")
    elif kind in ("RoleBinding", "ClusterRoleBinding"):
        rbac.check_binding(found, obj, old, namespaced=kind == "RoleBinding")
    elif kind == "Lease":
        _check_lease(found, obj.get("spec") or {})
    elif kind == "Namespace" and old is None:
        for finalizer in (obj.get("spec") or {}).get("finalizers") or []:
            check_finalizer(found, finalizer, "spec.finalizers")
    elif kind == "Node":
        _check_node(found, obj, old)
    elif kind == "ConfigMap":
        _check_config_map(found, obj, old)
    elif kind == "Service":
        service.check_service(found, obj, old)
    elif kind == "Secret":
        _check_secret(found, obj, old)


def _check_phase(found: Findings, namespace: Object) -> None:
    phase = (namespace.get("status") or {}).get("phase") or ""
    if "deletionTimestamp" in namespace["metadata"]:
        if phase != "Terminating":
            text = "may only be 'Terminating' if `deletionTimestamp` is not empty"
            found.invalid("status.Phase", phase, text)
    elif phase != "Active":
        found.invalid("status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty")


def _check_lease(found: Findings, spec: Object) -> None:
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        found.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0")
    if transitions is not None and transitions < 0:
        found.invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0")
    if spec.get("preferredHolder") and not spec.get("strategy"):
        found.forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined")


def _check_node(found: Findings, node: Object, old: Object | None) -> None:
    spec, status = node.get("spec") or {}, node.get("status") or {}
    seen = set()
    for index, taint in enumerate(spec.get("taints") or []):
        # The server reports taints below metadata.
        path = f"metadata.taints[{index}]"
        key, value, effect = (taint.get(field) or "" for field in ("key", "value", "effect"))
        found.invalid_each(f"{path}.key", key, label_key_problems(key))
        if problems := label_value_problems(value):
            found.invalid(f"{path}.value", value, ";".join(problems))
        if not effect:
            found.required(f"{path}.effect")
        elif effect not in _TAINT_EFFECTS:
            found.add(not_supported(f"{path}.effect", effect, _TAINT_EFFECTS))
        if (key, effect) in seen:
            text = "taints must be unique by key and effect pair"
            found.add(FieldError("Duplicate", path, text, dict(taint)))
        seen.add((key, effect))
    features = status.get("declaredFeatures") or []
    for index in range(1, len(features)):
        path = f"status.declaredFeatures[{index}]"
        if features[index] == features[index - 1]:
            found.duplicate(path, features[index])
        elif features[index] < features[index - 1]:
            found.invalid(path, features[index], "list must be sorted alphabetically")
    if old is None:
        return
    before = old.get("spec") or {}
    if before.get("podCIDRs") and spec.get("podCIDRs") != before["podCIDRs"]:
        text = 'node updates may not change podCIDR except from "" to valid'
        found.forbidden("spec.podCIDRs", text)
    if before.get("providerID") and spec.get("providerID") != before["providerID"]:
        what = "modified" if spec.get("providerID") else "cleared"
        found.invalid("spec.providerID", None, f"field cannot be {what} once set")


def _check_config_map(found: Findings, config: Object, old: Object | None) -> None:
    data, binary = config.get("data") or {}, config.get("binaryData") or {}
    if old is not None:
        _check_frozen(found, config, old, ("data", "binaryData"))
    for field, entries in (("data", data), ("binaryData", binary)):
        for key in entries:
            found.invalid_each(f"{field}[{key}]", key, config_key_problems(key))
            if field == "data" and key in binary:
                found.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    size = sum(len(value.encode()) for value in data.values()) + sum(map(_decoded_size, binary.values()))
    if size > DATA_MAX:
        found.longer("[]", DATA_MAX)


def _check_secret(found: Findings, secret: Object, old: Object | None) -> None:
    data = secret.get("data") or {}
    if old is not None:
        if secret.get("type") != old.get("type"):
            found.invalid("type", secret.get("type"), IMMUTABLE)
        _check_frozen(found, secret, old, ("data",))
    for key in data:
        found.invalid_each(f"data[{key}]", key, config_key_problems(key))
    if sum(map(_decoded_size, data.values())) > DATA_MAX:
        found.longer("data", DATA_MAX)
    annotation = "kubernetes.io/service-account.name"
    annotations = (secret.get("metadata") or {}).get("annotations") or {}
    if secret.get("type") == "kubernetes.io/service-account-token" and not annotations.get(annotation):
        found.required(f"metadata.annotations[{annotation}]")


def _check_frozen(found: Findings, new: Object, old: Object, fields: tuple[str, ...]) -> None:
    if not old.get("immutable"):
        return
    if not new.get("immutable"):
        found.forbidden("immutable", _KEEPS)
    for field in fields:
        # An empty map is a change from none, but for one whose default is an empty map.
        none: Object | None = {} if (new.get("kind"), field) == ("ConfigMap", "data") else None
        if new.get(field, none) != old.get(field, none):
            found.forbidden(field, _KEEPS)


def _decoded_size(text: str) -> int:
    """Bytes that a base64 text stands for."""
    return len(text) * 3 // 4 - text[-2:].count("=")
