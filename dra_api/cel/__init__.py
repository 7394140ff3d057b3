"""CEL as DRA selectors use it: compile an expression once, evaluate it for many devices."""

from __future__ import annotations

from .device import DeviceInput
from .errors import CelRuntimeError, CompileError
from .program import COST_LIMIT, Evaluation, Program, compile_selector

__all__ = [
    "COST_LIMIT",
    "CelRuntimeError",
    "CompileError",
    "DeviceInput",
    "Evaluation",
    "Program",
    "compile_selector",
]
