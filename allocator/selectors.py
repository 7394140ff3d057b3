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
from .requests import Request


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

    def selects(self, request: Request, device: Device, *, sharing: bool = True) -> bool:
        """Whether the selectors of the request's class, and then its own, are all true for the device.

        See `all_match`.
        """
        key = (request.class_selectors, request.selectors, sharing)
        known = device.outcomes.get(key)
        if known is None:
            class_name = request.class_["metadata"]["name"]
            known = self.all_match(
                request.class_selectors, device, f"class {class_name}", sharing
            ) and self.all_match(request.selectors, device, f"claim {request.claim}", sharing)
            device.remember(key, known)
        return bool(known)

    def compiled(self, expression: str) -> bool:
        """Compile a selector before it is needed; whether that was possible."""
        return not isinstance(self._selectors.get(expression), _Failure)

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
                outcome = _evaluate(program, device, sharing)
                device.remember(key, outcome)
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
        outcome: Mapping[str, Any] | _Failure | None = device.outcomes.get(program)
        if outcome is None:
            outcome = _derive(program, device)
            device.remember(program, outcome)
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
