"""Rules for DeviceClasses."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..equality import semantic_equal
from ..schema import load
from . import limits
from .devices import check_configuration, check_selectors
from .findings import Findings, check_list
from .formats import extended_resource_problems
from .metadata import validate_object_meta, validate_object_meta_update
from .names import BYTES, dns_subdomain_problems

Object = Mapping[str, Any]


def create(found: Findings, obj: Object, gates: Collection[str]) -> None:
    """Rules for a new class."""
    _check_meta(found, obj)
    _check_spec(found, obj.get("spec") or {}, None, gates)


def update(found: Findings, new: Object, old: Object, gates: Collection[str]) -> None:
    """Rules for a changed class: unchanged expressions and configurations are not judged again."""
    _check_meta(found, new)
    found.extend(validate_object_meta_update(new, old))
    _check_spec(found, new.get("spec") or {}, old.get("spec") or {}, gates)


def _check_meta(found: Findings, obj: Object) -> None:
    # The name is checked by a declarative rule, the prefix for generated names not at all.
    found.extend(validate_object_meta(obj, namespaced=False, name_rule=lambda name, prefix: []))
    name = (obj.get("metadata") or {}).get("name") or ""
    if name:
        found.invalid_each("metadata.name", name, dns_subdomain_problems(name, BYTES), declared=True)


def _check_spec(found: Findings, spec: Object, old: Object | None, gates: Collection[str]) -> None:
    selectors, configs = spec.get("selectors") or [], spec.get("config") or []
    check_selectors(found, selectors, "spec.selectors", gates, stored=_unchanged(spec, old, "selectors"))
    stored = _unchanged(spec, old, "config")
    check_list(
        found,
        configs,
        limits.CONFIGS,
        "spec.config",
        lambda config, path: check_configuration(found, config, path, stored=stored),
        declared=True,
    )
    name = spec.get("extendedResourceName")
    if name is not None:
        found.invalid_each("spec.extendedResourceName", name, extended_resource_problems(name), declared=True)


def _unchanged(spec: Object, old: Object | None, field: str) -> bool:
    if old is None:
        return False
    message = load().message("resource/v1.DeviceClassSpec")
    return semantic_equal({field: spec.get(field)}, {field: old.get(field)}, message)
