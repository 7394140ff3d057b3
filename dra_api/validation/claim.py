"""Rules for ResourceClaims."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..equality import semantic_equal
from ..schema import load
from .claim_spec import check_claim_spec
from .claim_status import check_claim_status
from .findings import Findings
from .metadata import IMMUTABLE, validate_object_meta, validate_object_meta_update

Object = Mapping[str, Any]


def create(found: Findings, obj: Object, gates: Collection[str]) -> None:
    """Rules for a new claim."""
    found.extend(validate_object_meta(obj))
    check_claim_spec(found, obj.get("spec") or {}, "spec", gates)


def update(found: Findings, new: Object, old: Object, gates: Collection[str]) -> None:
    """Rules for a changed claim: the spec is immutable and not judged again."""
    found.extend(validate_object_meta(new))
    found.extend(validate_object_meta_update(new, old))
    message = load().message("resource/v1.ResourceClaimSpec")
    if not semantic_equal(new.get("spec") or {}, old.get("spec") or {}, message):
        found.invalid("spec", None, IMMUTABLE, declared=True)


def update_status(found: Findings, new: Object, old: Object, gates: Collection[str]) -> None:
    """Rules for a changed status; spec and metadata are those of the stored claim."""
    found.extend(validate_object_meta_update(new, old))
    check_claim_status(found, new, old)
