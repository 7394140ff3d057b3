"""Rules for DeviceTaintRules."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from . import limits
from .conditions import check_conditions
from .devices import check_taint
from .findings import Findings
from .formats import check_driver, check_label, check_pool
from .metadata import validate_object_meta, validate_object_meta_update
from .names import too_many

Object = Mapping[str, Any]


def create(found: Findings, obj: Object, gates: Collection[str]) -> None:
    """Rules for a new rule."""
    found.extend(validate_object_meta(obj, namespaced=False))
    _check_spec(found, obj.get("spec") or {}, None)


def update(found: Findings, new: Object, old: Object, gates: Collection[str]) -> None:
    """Rules for a changed rule: everything may change; an unchanged effect is not judged again."""
    found.extend(validate_object_meta_update(new, old))
    _check_spec(found, new.get("spec") or {}, old.get("spec") or {})


def update_status(found: Findings, new: Object, old: Object, gates: Collection[str]) -> None:
    """Rules for a changed status."""
    found.extend(validate_object_meta_update(new, old))
    conditions = (new.get("status") or {}).get("conditions") or []
    check_conditions(found, conditions, "status.conditions")
    if len(conditions) > limits.TAINT_RULE_CONDITIONS:
        found.add(too_many("status.conditions", len(conditions), limits.TAINT_RULE_CONDITIONS))


def _check_spec(found: Findings, spec: Object, old: Object | None) -> None:
    # No selector matches nothing, an empty one everything; each of its fields stands alone.
    selector = spec.get("deviceSelector") or {}
    for field, check in (("driver", check_driver), ("pool", check_pool), ("device", check_label)):
        if selector.get(field) is not None:
            check(found, f"spec.deviceSelector.{field}", selector[field])
    before = None if old is None else old.get("taint") or {}
    check_taint(found, spec.get("taint") or {}, "spec.taint", before)
