"""Mutants of the API server."""

from __future__ import annotations

from dra_api import validation
from tests.mutants.registry import component_mutant


@component_mutant("mutable-templates")
def mutable_templates() -> None:
    """The spec of a template may be changed."""
    validation._UPDATE["ResourceClaimTemplate"] = lambda found, new, old, gates: None
