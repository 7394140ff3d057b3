"""CEL selectors: compiled once per expression, evaluated once per device and expression."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from dra_api.cel import CelRuntimeError, CompileError, DeviceInput, compile_selector

from .errors import AllocationError
from .model import Device


class Program(Protocol):
    """A compiled expression."""

    def matches(self, device: DeviceInput) -> bool:
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

    def __init__(self, compile: SelectorCompiler = compile_selector, limit: int = 1000) -> None:
        """`limit` is the number of expressions that are kept compiled."""
        self._compile = compile
        self._limit = limit
        self._programs: dict[str, Program | _Failure] = {}

    def all_match(self, expressions: Sequence[str], device: Device, owner: str, sharing: bool = True) -> bool:
        """Whether all expressions are true for the device; those behind a false one are not looked at.

        `sharing`: expressions may see that the device allows multiple allocations. Raises AllocationError,
        beginning with `owner`, for an expression that does not compile or fails.
        """
        for index, expression in enumerate(expressions):
            program = self._program(expression)
            if isinstance(program, _Failure):
                raise AllocationError(f"{owner}: selector #{index}: CEL compile error: {program.text}")
            key = (program, sharing)
            outcome = device.outcomes.get(key)
            if outcome is None:
                outcome = device.outcomes[key] = _evaluate(program, device, sharing)
            if isinstance(outcome, _Failure):
                where = f"{owner}: selector #{index} on device {device.id}"
                raise AllocationError(f"{where}: CEL runtime error: {outcome.text}")
            if not outcome:
                return False
        return True

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


def _evaluate(program: Program, device: Device, sharing: bool) -> object:
    given = device.cel_input if sharing else replace(device.cel_input, allow_multiple_allocations=False)
    try:
        return program.matches(given)
    except CelRuntimeError as error:
        return _Failure(str(error))
