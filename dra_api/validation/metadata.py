"""Rules for object metadata (apimachinery `api/validation/objectmeta`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..errors import FieldError
from .findings import Findings
from .names import (
    NameRule,
    byte_length,
    dns_label_problems,
    is_subdomain,
    label_key_problems,
    label_value_problems,
    not_supported,
)

ANNOTATIONS_MAX: Final = 256 * 1024
MANAGER_MAX: Final = 128
SUBRESOURCE_MAX: Final = 256
IMMUTABLE: Final = "field is immutable"

_STANDARD_FINALIZERS: Final = ("kubernetes", "orphan", "foregroundDeletion")

_SET_BY_SERVER: Final = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


def validate_object_meta(
    obj: Mapping[str, Any],
    namespaced: bool = True,
    name_rule: NameRule = is_subdomain,
    path: str = "metadata",
) -> list[FieldError]:
    """Check the metadata of a new object, after its name was generated."""
    found = Findings()
    meta = obj.get("metadata") or {}
    if meta.get("generateName"):
        found.invalid_each(
            f"{path}.generateName", meta["generateName"], name_rule(meta["generateName"], True)
        )
    name = meta.get("name") or ""
    if name:
        found.invalid_each(f"{path}.name", name, name_rule(name, False))
    else:
        found.required(f"{path}.name", "name or generateName is required")
    namespace = meta.get("namespace") or ""
    if not namespaced:
        if namespace:
            found.forbidden(f"{path}.namespace", "not allowed on this type")
    elif namespace:
        found.invalid_each(f"{path}.namespace", namespace, dns_label_problems(namespace))
    else:
        found.required(f"{path}.namespace")
    _check_common(found, meta, path)
    finalizers = meta.get("finalizers") or []
    _check_finalizers(found, finalizers, f"{path}.finalizers")
    _check_finalizer_domains(found, finalizers, f"{path}.finalizers")
    return found.errors()


def validate_object_meta_update(
    new: Mapping[str, Any], old: Mapping[str, Any], path: str = "metadata"
) -> list[FieldError]:
    """Check the metadata of a changed object against the stored one."""
    found = Findings()
    meta, before = new.get("metadata") or {}, old.get("metadata") or {}
    if before.get("deletionTimestamp"):
        added = sorted(set(meta.get("finalizers") or []) - set(before.get("finalizers") or []))
        if added:
            shown = ", ".join(f'"{name}"' for name in added)
            found.forbidden(
                f"{path}.finalizers",
                "no new finalizers can be added if the object is being deleted, found new finalizers "
                f"[]string{{{shown}}}",
            )
    if not meta.get("resourceVersion"):
        found.invalid(f"{path}.resourceVersion", "", "must be specified for an update")
    if (meta.get("generation") or 0) < (before.get("generation") or 0):
        found.invalid(f"{path}.generation", meta.get("generation") or 0, "must not be decremented")
    for field in ("name", "namespace"):
        if (meta.get(field) or "") != (before.get(field) or ""):
            found.invalid(f"{path}.{field}", meta.get(field) or "", IMMUTABLE)
    for field in _SET_BY_SERVER:
        if meta.get(field) != before.get(field):
            found.invalid(f"{path}.{field}", meta.get(field, "" if field == "uid" else None), IMMUTABLE)
    _check_common(found, meta, path)
    _check_finalizer_domains(found, meta.get("finalizers") or [], f"{path}.finalizers")
    return found.errors()


def validate_template_meta(meta: Mapping[str, Any], path: str) -> list[FieldError]:
    """Metadata inside a template: only labels and annotations may be set."""
    found = Findings()
    check_annotations(found, meta.get("annotations") or {}, f"{path}.annotations")
    check_labels(found, meta.get("labels") or {}, f"{path}.labels")
    for field, value in meta.items():
        # creationTimestamp null is what clients of old libraries send. An empty list is not what Go has for none.
        zero = value in (None, "") or (value == 0 and field == "generation")
        if field not in ("labels", "annotations") and not zero:
            # The name of the Go field with a small first letter.
            found.forbidden(f"{path}.{'uID' if field == 'uid' else field}", "cannot be set")
    return found.errors()


def check_labels(found: Findings, labels: Mapping[str, str], path: str) -> None:
    """Keys and values of labels; the path never names the key."""
    for key, value in labels.items():
        found.invalid_each(path, key, label_key_problems(key))
        found.invalid_each(path, value, label_value_problems(value))


def check_annotations(found: Findings, annotations: Mapping[str, str], path: str) -> None:
    """Keys of annotations (any case) and their total size."""
    for key in annotations:
        found.invalid_each(path, key, label_key_problems(key.lower()))
    if sum(byte_length(key) + byte_length(value) for key, value in annotations.items()) > ANNOTATIONS_MAX:
        found.longer(path, ANNOTATIONS_MAX)


def _check_common(found: Findings, meta: Mapping[str, Any], path: str) -> None:
    if (meta.get("generation") or 0) < 0:
        found.invalid(f"{path}.generation", meta["generation"], "must be greater than or equal to 0")
    check_labels(found, meta.get("labels") or {}, f"{path}.labels")
    check_annotations(found, meta.get("annotations") or {}, f"{path}.annotations")
    _check_owners(found, meta.get("ownerReferences") or [], f"{path}.ownerReferences")
    _check_managed_fields(found, meta.get("managedFields") or [], f"{path}.managedFields")


def _check_owners(found: Findings, owners: Sequence[Mapping[str, Any]], path: str) -> None:
    controller = ""
    for index, owner in enumerate(owners):
        where = f"{path}[{index}]"
        version = owner.get("apiVersion") or ""
        if version and (version.count("/") > 1 or version.endswith("/")):
            found.invalid(f"{where}.apiVersion", version, "must be <group>/<version> or <version>")
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                found.required(f"{where}.{field}", "must not be empty")
        if version == "v1" and owner.get("kind") == "Event":
            found.invalid(where, dict(owner), "/v1, Kind=Event is disallowed from being an owner")
        if owner.get("controller"):
            name = f"{owner.get('kind', '')}/{owner.get('name', '')}"
            if controller:
                found.invalid(
                    path,
                    [dict(each) for each in owners],
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller} and {name}",
                )
            else:
                controller = name


def check_finalizer(found: Findings, finalizer: str, path: str) -> None:
    """The name of a finalizer."""
    found.invalid_each(path, finalizer, label_key_problems(finalizer))
    _check_finalizer_domain(found, finalizer, path)


def _check_finalizers(found: Findings, finalizers: Sequence[str], path: str) -> None:
    for finalizer in finalizers:
        found.invalid_each(path, finalizer, label_key_problems(finalizer))
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        found.invalid(path, list(finalizers), "finalizer orphan and foregroundDeletion cannot be both set")


def _check_finalizer_domains(found: Findings, finalizers: Sequence[str], path: str) -> None:
    for index, finalizer in enumerate(finalizers):
        _check_finalizer_domain(found, finalizer, f"{path}[{index}]")


def _check_finalizer_domain(found: Findings, finalizer: str, path: str) -> None:
    if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
        found.invalid(path, finalizer, "name is neither a standard finalizer name nor is it fully qualified")


def _check_managed_fields(found: Findings, entries: Sequence[Mapping[str, Any]], path: str) -> None:
    for index, entry in enumerate(entries):
        where = f"{path}[{index}]"
        operation = entry.get("operation") or ""
        if not operation:
            found.required(f"{where}.operation", "must not be empty")
        elif operation not in ("Apply", "Update"):
            found.add(not_supported(f"{where}.operation", operation, ("Apply", "Update")))
        if entry.get("fieldsType") not in (None, "", "FieldsV1"):
            found.invalid(f"{where}.fieldsType", entry["fieldsType"], "must be `FieldsV1`")
        if byte_length(entry.get("manager") or "") > MANAGER_MAX:
            found.longer(f"{where}.manager", MANAGER_MAX)
        if byte_length(entry.get("subresource") or "") > SUBRESOURCE_MAX:
            found.longer(f"{where}.subresource", SUBRESOURCE_MAX)
