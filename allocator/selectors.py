"""CEL selectors and derived attributes: compiled once per expression, evaluated once per device and expression."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, Protocol, TypeVar

from dra_api.cel import (
    CelRuntimeError,
    CompileError,
    DerivedAttribute,
    DeviceInput,
    compile_derived_attribute,
    compile_selector,
)

from .errors import AllocationError
from .model import Device


class Program(Protocol):
    """A compiled expression."""

    def matches(self, device: DeviceInput) -> bool:
        """The answer for a device. Raises CelRuntimeError."""
        ...


SelectorCompiler = Callable[[str], Program]
"""Compiles an expression or raises CompileError."""


_P = TypeVar("_P")
_KEY_HINT: Final = ". consider using CEL optional chaining"


@dataclass(frozen=True, slots=True)
class _Failure:
    text: str


class CelCache:
    """Compiled expressions and their answers.

    The answer depends on the device and the expression alone. It is kept with the device, so it goes away when
    the slice changes. Safe for use by several threads (a race only evaluates twice).
    """

    def __init__(self, compile: SelectorCompiler = compile_selector, limit: int = 1000) -> None:
        """`limit` is the number of selectors, and of derived attributes, that are kept compiled."""
        self._selectors = _Programs(compile, limit)
        self._derived = _Programs(compile_derived_attribute, limit)

    def all_match(self, expressions: Sequence[str], device: Device, owner: str, sharing: bool = True) -> bool:
        """Whether all expressions are true for the device; those behind a false one are not looked at.

        `sharing`: expressions may see that the device allows multiple allocations. Raises AllocationError,
        beginning with `owner`, for an expression that does not compile or fails.
        """
        for index, expression in enumerate(expressions):
            program = self._selectors.get(expression)
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

    def derived_attribute(self, name: str, expression: str, device: Device) -> Mapping[str, Any]:
        """The attribute that a request derives from the others. Raises AllocationError."""
        program = self._derived.get(expression)
        if isinstance(program, _Failure):
            raise AllocationError(f"compile derived attribute {name} failed: {program.text}")
        outcome = device.outcomes.get(program)
        if outcome is None:
            outcome = device.outcomes[program] = _derive(program, device)
        if isinstance(outcome, _Failure):
            raise AllocationError(
                f"evaluate derived attribute {name} on device {device.id} failed: {outcome.text}"
            )
        return outcome


class _Programs(Generic[_P]):
    """Compiled expressions of one kind."""

    def __init__(self, compile: Callable[[str], _P], limit: int) -> None:
        self._compile = compile
        self._limit = limit
        self._known: dict[str, _P | _Failure] = {}

    def get(self, expression: str) -> _P | _Failure:
        """The program, or why there is none."""
        program = self._known.get(expression)
        if program is None:
            try:
                program = self._compile(expression)
            except CompileError as error:
                program = _Failure(str(error))
            if len(self._known) >= self._limit:
                self._known = {}
            self._known[expression] = program
        return program


def _evaluate(program: Program, device: Device, sharing: bool) -> bool | _Failure:
    given = device.cel_input if sharing else replace(device.cel_input, allow_multiple_allocations=False)
    try:
        return program.matches(given)
    except CelRuntimeError as error:
        return _Failure(str(error))


def _derive(program: DerivedAttribute, device: Device) -> Mapping[str, Any] | _Failure:
    try:
        return program.evaluate(device.cel_input).attribute
    except CelRuntimeError as error:
        # Upstream gives the hint that belongs to a missing key for selectors only.
        return _Failure(str(error).partition(_KEY_HINT)[0])
