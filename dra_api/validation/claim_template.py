"""Rules for ResourceClaimTemplates."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..equality import semantic_equal
from ..schema import load
from .claim_spec import check_claim_spec
from .findings import Findings
from .internal_form import template_spec
from .metadata import IMMUTABLE, validate_object_meta, validate_object_meta_update, validate_template_meta

Object = Mapping[str, Any]


def create(found: Findings, obj: Object, gates: Collection[str]) -> None:
    """Rules for a new template."""
    found.extend(validate_object_meta(obj))
    spec = obj.get("spec") or {}
    found.extend(validate_template_meta(spec.get("metadata") or {}, "spec.metadata"))
    check_claim_spec(found, spec.get("spec") or {}, "spec.spec", gates)


def update(found: Findings, new: Object, old: Object, gates: Collection[str]) -> None:
    """Rules for a changed template: those of a new one, and the spec is immutable.

    It is printed with the names of Go fields.
    """
    create(found, new, gates)
    found.extend(validate_object_meta_update(new, old))
    message = load().message("resource/v1.ResourceClaimTemplateSpec")
    if not semantic_equal(new.get("spec") or {}, old.get("spec") or {}, message):
        found.invalid("spec", template_spec(new.get("spec") or {}), IMMUTABLE)
