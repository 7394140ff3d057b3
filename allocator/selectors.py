"""CEL selectors: compiled once per expression, evaluated once per device and expression."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dra_api.cel import CelRuntimeError, CompileError, DeviceInput

from .errors import AllocationError
from .model import Device

__all__ = ["CelCache", "DeviceInput", "Program", "SelectorCompiler"]


class Program(Protocol):
    """A compiled expression."""

    def matches(self, device: Any) -> bool:
        """The answer for a device. Raises CelRuntimeError."""
        ...


SelectorCompiler = Callable[[str], Program]
"""Compiles an expression or raises CompileError."""


@dataclass(frozen=True, slots=True)
class _Failure:
    text: str


class CelCache:
    """Compiled expressions and their answers.

    The answer depends on the device and the expression alone. It is kept with the device, so it goes away when
    the slice changes. Safe for use by several threads (a race only evaluates twice).
    """

    def __init__(self, compile: SelectorCompiler, limit: int = 1000) -> None:
        """`limit` is the number of expressions that are kept compiled."""
        self._compile = compile
        self._limit = limit
        self._programs: dict[str, Program | _Failure] = {}

    def first_mismatch(self, expressions: Sequence[str], device: Device, owner: str) -> int | None:
        """The index of the first expression that is not true for the device, None when all are.

        Raises AllocationError, beginning with `owner`, for an expression that does not compile or fails.
        """
        for index, expression in enumerate(expressions):
            program = self._program(expression)
            if isinstance(program, _Failure):
                raise AllocationError(f"{owner}: selector #{index}: CEL compile error: {program.text}")
            outcome = device.outcomes.get(program)
            if outcome is None:
                outcome = device.outcomes[program] = _evaluate(program, device)
            if isinstance(outcome, _Failure):
                where = f"{owner}: selector #{index} on device {device.id}"
                raise AllocationError(f"{where}: CEL runtime error: {outcome.text}")
            if not outcome:
                return index
        return None

    def _program(self, expression: str) -> Program | _Failure:
        program = self._programs.get(expression)
        if program is None:
            try:
                program = self._compile(expression)
            except CompileError as error:
                program = _Failure(str(error))
            if len(self._programs) >= self._limit:
                self._programs = {}
            self._programs[expression] = program
        return program


def _evaluate(program: Program, device: Device) -> object:
    given = DeviceInput(
        driver=device.id.driver,
        attributes=device.attributes,
        capacity=device.spec.get("capacity") or {},
        allow_multiple_allocations=device.allows_multiple,
    )
    try:
        return program.matches(given)
    except CelRuntimeError as error:
        return _Failure(str(error))
