"""CEL as DRA uses it: compile an expression once, evaluate it for many devices.

Language, libraries, error texts and costs are those of Kubernetes 1.37; the environment of selectors and derived
attributes knows one variable, `device`.
"""

from __future__ import annotations

from .cache import ProgramCache
from .device import DeviceInput
from .errors import CelRuntimeError, CompileError
from .program import (
    COST_LIMIT,
    DerivedAttribute,
    DerivedEvaluation,
    Evaluation,
    Program,
    compile_derived_attribute,
    compile_selector,
)

__all__ = [
    "COST_LIMIT",
    "CelRuntimeError",
    "CompileError",
    "DerivedAttribute",
    "DerivedEvaluation",
    "DeviceInput",
    "Evaluation",
    "Program",
    "ProgramCache",
    "compile_derived_attribute",
    "compile_selector",
]
