"""Compiling expressions and evaluating them for devices."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from .. import features as gates
from .attributes import Run
from .build import Builder
from .checker import Checked, check
from .cost import worst_cost
from .deep import with_room
from .device import DeviceInput
from .environment import Environment, Kind, environment
from .errors import CelRuntimeError, CompileError, CostLimitExceededError, EvalError, InternalError
from .frame import Frame
from .meter import CostMeter
from .planner import Planner
from .reading import read
from .results import as_attribute, as_bool, derived_type_problem, selector_type_problem
from .source import Source
from .types import Type
from .validators import validate

_Result = TypeVar("_Result")
Cancelled = Callable[[], bool]
"""Whether an evaluation is to end; asked after each hundred steps of loops."""

COST_LIMIT: Final = 1_000_000
"""The cost that an evaluation must not exceed, and the estimate that a new expression must not exceed."""


@dataclass(frozen=True)
class Evaluation:
    """The result for one device: whether it matches, and the cost in CEL's units."""

    match: bool
    cost: int


@dataclass(frozen=True)
class DerivedEvaluation:
    """The derived attribute of one device as a DeviceAttribute of the API, and the cost in CEL's units."""

    attribute: dict[str, Any]
    cost: int


class _Compiled:
    """A compiled expression. It keeps nothing of an evaluation, so threads may share it."""

    def __init__(self, expression: str, checked: Checked, planner: Planner) -> None:
        self.expression = expression
        self._checked = checked
        self._step = planner.plan(checked.expr)
        self._slots = planner.slots
        self._fast: Run = self._step.compile(None)
        self._metered: Run | None = None
        self._estimate: int | None = None

    @property
    def output_type(self) -> str:
        """The static type of the result."""
        return str(self._checked.output)

    @property
    def estimated_cost(self) -> int:
        """The worst cost of an evaluation (2**64-1 without a bound), computed when it is first needed."""
        if self._estimate is None:
            self._estimate = with_room(lambda: worst_cost(self._checked))
        return self._estimate

    def _evaluate(
        self, device: DeviceInput, cancelled: Cancelled | None, limit: int, convert: Callable[[Any], _Result]
    ) -> tuple[_Result, int]:
        """The converted result, and the cost."""
        metered = self._metered
        if metered is None:
            metered = self._metered = with_room(lambda: self._step.compile(CostMeter()))

        def run() -> tuple[_Result, int]:
            frame = Frame(device.value, self._slots, limit, cancelled)
            return convert(_result(metered, frame)), frame.cost

        return with_room(run)


class Program(_Compiled):
    """A compiled selector; threads may share it."""

    def matches(self, device: DeviceInput, cancelled: Cancelled | None = None) -> bool:
        """Whether the device matches. Raises CelRuntimeError."""
        if self.estimated_cost > COST_LIMIT:
            return self.evaluate(device, cancelled).match
        # What cannot exceed the limit need not be metered.
        frame = Frame(device.value, self._slots, None, cancelled)
        try:
            return as_bool(_result(self._fast, frame))
        except RecursionError:
            return self.evaluate(device, cancelled).match

    def evaluate(
        self, device: DeviceInput, cancelled: Cancelled | None = None, *, limit: int = COST_LIMIT
    ) -> Evaluation:
        """Whether the device matches, and at what cost. Raises CelRuntimeError, also above the limit."""
        return Evaluation(*self._evaluate(device, cancelled, limit, as_bool))


class DerivedAttribute(_Compiled):
    """A compiled expression of a derived attribute; threads may share it."""

    def evaluate(
        self, device: DeviceInput, cancelled: Cancelled | None = None, *, limit: int = COST_LIMIT
    ) -> DerivedEvaluation:
        """The attribute for the device, and its cost. Raises CelRuntimeError, also above the limit."""
        return DerivedEvaluation(*self._evaluate(device, cancelled, limit, as_attribute))


def _result(run: Run, frame: Frame) -> Any:
    try:
        return run(frame)
    except (EvalError, CostLimitExceededError, InternalError) as error:
        raise CelRuntimeError(str(error)) from None


def compile_selector(
    expression: str, *, features: Collection[str] = gates.ENABLED_1_37, environment: Kind = "stored"
) -> Program:
    """Compile the expression of a selector.

    `features` are the enabled feature gates. They matter for new expressions only: stored ones may use
    everything. Raises CompileError with the text of the API server.
    """
    env = _environment(features, environment)

    def problem(output: Type) -> str | None:
        return selector_type_problem(output, env.attribute)

    return with_room(lambda: Program(expression, *_checked(expression, env, problem)))


def compile_derived_attribute(
    expression: str, *, features: Collection[str] = gates.ENABLED_1_37, environment: Kind = "stored"
) -> DerivedAttribute:
    """Compile the expression of a derived attribute; see compile_selector. Raises CompileError."""
    env = _environment(features, environment)

    def problem(output: Type) -> str | None:
        return derived_type_problem(output, lists=env.lists)

    return with_room(lambda: DerivedAttribute(expression, *_checked(expression, env, problem)))


def _environment(features: Collection[str], kind: Kind) -> Environment:
    return environment(
        kind,
        consumable_capacity=gates.CONSUMABLE_CAPACITY in features,
        list_attributes=gates.LIST_TYPE_ATTRIBUTES in features,
    )


def _checked(
    expression: str, env: Environment, type_problem: Callable[[Type], str | None]
) -> tuple[Checked, Planner]:
    source = Source(expression)
    builder = Builder(source)
    expr = read(source, builder)
    if source.problem_count or expr is None:
        raise _failed(source)
    checked = check(expr, source, builder.positions, env.names)
    if not source.problem_count:
        validate(checked, source, builder.positions)
    if source.problem_count:
        raise _failed(source)
    problem = type_problem(checked.output)
    if problem is not None:
        raise CompileError(problem)
    return checked, Planner(checked, env.functions, env.names.type_names)


def _failed(source: Source) -> CompileError:
    return CompileError(f"compilation failed: {source.display()}")
