"""Mutants of the API server."""

from __future__ import annotations

from dra_api import fields, validation
from dra_api.validation import claim_spec, devices, limits
from tests.mutants.registry import component_mutant


@component_mutant("mutable-templates")
def mutable_templates() -> None:
    """The spec of a template may be changed."""
    validation._UPDATE["ResourceClaimTemplate"] = lambda found, new, old, gates: None


@component_mutant("accepts-any-cel")
def accepts_any_cel() -> None:
    """Selectors are not compiled when they are stored."""
    devices.validate_selector_expression = lambda *arguments: []  # type: ignore[attr-defined]


@component_mutant("class-name-optional")
def class_name_optional() -> None:
    """A request needs no class."""
    claim_spec.check_class_name = lambda *arguments, **options: None  # type: ignore[attr-defined]


@component_mutant("keeps-disabled-fields")
def keeps_disabled_fields() -> None:
    """Fields are stored whatever the feature gates say."""
    fields.drop_disabled = lambda obj, old, gates: None


@component_mutant("unlimited-consumers")
def unlimited_consumers() -> None:
    """A claim may have any number of consumers."""
    limits.RESERVED_FOR = 1_000_000  # type: ignore[misc]
