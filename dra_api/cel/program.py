"""Compiling selectors and evaluating them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .. import features as gates
from .ast import Expr
from .attributes import Run
from .build import Builder
from .build import TooDeep as TreeTooDeep
from .checker import Checked, check
from .cost import worst_cost
from .deep import with_room
from .device import DeviceInput
from .environment import Environment, Kind, environment
from .errors import CelRuntimeError, CompileError, CostLimitExceeded, EvalError, InternalError
from .frame import Frame
from .lexer import Token, Unreadable, tokenize
from .meter import CostMeter
from .parser import NotCorrect, TooDeep, parse
from .planner import Planner
from .recovered import as_tree
from .recovery import GivenUp, Recovery
from .source import NO_LOCATION, Location, Source
from .steps import Step
from .types import BOOL
from .validators import validate
from .values import MISSING, OptionalValue, type_name

COST_LIMIT: Final = 1_000_000
"""The cost that an evaluation must not exceed, and the estimate that a new expression must not exceed."""
MAX_SYNTAX_ERRORS: Final = 100


@dataclass(frozen=True)
class Evaluation:
    """The result for one device: whether it matches, and the cost in CEL's units."""

    match: bool
    cost: int


class Program:
    """A compiled selector. It has no state of its own, so threads may share it."""

    def __init__(
        self, expression: str, step: Step, slots: int, checked: Checked, environment: Environment
    ) -> None:
        self.expression = expression
        self.output = checked.output
        self._slots = slots
        self._step = step
        self._checked = checked
        self._environment = environment
        self._fast: Run = step.compile(None)
        self._metered: Run | None = None
        self._estimate: int | None = None

    @property
    def estimated_cost(self) -> int:
        """The worst cost of an evaluation, computed when it is first needed."""
        if self._estimate is None:
            self._estimate = with_room(lambda: worst_cost(self._checked))
        return self._estimate

    def matches(self, device: DeviceInput, cancelled: Callable[[], bool] | None = None) -> bool:
        """Whether the device matches. Raises CelRuntimeError."""
        if self.estimated_cost > COST_LIMIT:
            return self.evaluate(device, cancelled).match
        # An expression that cannot exceed the limit need not be metered.
        return with_room(lambda: _decided(self._fast, Frame(device.value, self._slots, None, cancelled)))

    def evaluate(
        self, device: DeviceInput, cancelled: Callable[[], bool] | None = None, *, limit: int = COST_LIMIT
    ) -> Evaluation:
        """Whether the device matches, and at what cost. Raises CelRuntimeError."""
        if self._metered is None:
            self._metered = with_room(lambda: self._step.compile(CostMeter()))
        metered = self._metered

        def run() -> Evaluation:
            frame = Frame(device.value, self._slots, limit, cancelled)
            return Evaluation(_decided(metered, frame), frame.cost)

        return with_room(run)


def _decided(run: Run, frame: Frame) -> bool:
    return _as_bool(result(run, frame))


def result(run: Run, frame: Frame) -> Any:
    """The value of an evaluation. Raises CelRuntimeError."""
    try:
        return run(frame)
    except EvalError as error:
        raise CelRuntimeError(str(error)) from None
    except (CostLimitExceeded, InternalError) as error:
        raise CelRuntimeError(str(error)) from None


def _as_bool(value: Any) -> bool:
    if type(value) is bool:
        return value
    if type(value) is OptionalValue and value.value is not MISSING:
        # Upstream converts the value within, and only names the outer type when that fails.
        if type(value.value) is bool:
            return value.value
        reason = _no_bool(value.value)
    else:
        reason = _no_bool(value)
    raise CelRuntimeError(f"CEL result of type {type_name(value)} could not be converted to bool: {reason}")


_CONVERTED: Final = {
    "int": "unsupported type conversion from 'int' to bool",
    "uint": "unsupported type conversion from 'uint' to bool",
    "double": "type conversion error from Double to 'bool'",
    "string": "unsupported native conversion from string to 'bool'",
    "bytes": "type conversion error from Bytes to 'bool'",
    "list": "type conversion error from list to 'bool'",
    "map": "type conversion error from map to 'bool'",
    "null_type": "type conversion error from 'null_type' to 'bool'",
    "type": "type conversion not supported for 'type'",
    "optional_type": "optional.none() dereference",
}


def _no_bool(value: Any) -> str:
    """Why a value is no bool, in upstream's words."""
    name = type_name(value)
    if type(value) is OptionalValue and value.value is not MISSING:
        return _no_bool(value.value)
    return _CONVERTED.get(name) or f"type conversion error from '{_GO_SHORT.get(name, name)}' to 'bool'"


_GO_SHORT: Final = {
    "google.protobuf.Duration": "Duration",
    "google.protobuf.Timestamp": "Timestamp",
    "kubernetes.Quantity": "Quantity",
    "kubernetes.Semver": "Semver",
    "kubernetes.URL": "URL",
    "kubernetes.NamedFormat": "Format",
    "net.IP": "IP",
    "net.CIDR": "CIDR",
}


def compile_selector(
    expression: str, *, features: Collection[str] = gates.ENABLED_1_37, environment: Kind = "stored"
) -> Program:
    """Compile a device selector.

    `features` are the enabled feature gates; they matter for new expressions only. Raises CompileError with the
    text of the API server.
    """
    env = _environment(features, environment)
    return with_room(lambda: _selector(expression, env))


def _selector(expression: str, env: Environment) -> Program:
    checked, planner = _compiled(expression, env)
    output = checked.output
    if not (output.same(BOOL) or output.same(env.attribute)):
        raise CompileError(f"must evaluate to bool or the unknown type, not {output}")
    step = planner.plan(checked.expr)
    return Program(expression, step, planner.slots, checked, env)


def _environment(features: Collection[str], kind: Kind) -> Environment:
    return environment(
        kind,
        consumable_capacity=gates.CONSUMABLE_CAPACITY in features,
        list_attributes=gates.LIST_TYPE_ATTRIBUTES in features,
    )


def _compiled(expression: str, env: Environment) -> tuple[Checked, Planner]:
    source = Source(expression)
    builder = Builder(source)
    expr = _read(source, builder)
    if source.problem_count or expr is None:
        raise _failed(source)
    checked = check(expr, source, builder.positions, env.names)
    if not source.problem_count:
        validate(checked, source, builder.positions)
    if source.problem_count:
        raise _failed(source)
    return checked, Planner(checked, env.functions, env.names.type_names)


def _read(source: Source, builder: Builder) -> Expr | None:
    """The expression, as far as it can be read; problems are reported to the source."""
    tokens, problems = tokenize(source)
    try:
        try:
            return (
                builder.build(parse(tokens))
                if not problems
                else _read_wrong(source, builder, tokens, problems)
            )
        except NotCorrect:
            return _read_wrong(source, builder, tokens, problems)
    except (TooDeep, TreeTooDeep) as error:
        source.report(NO_LOCATION, str(error))
        return None


def _read_wrong(
    source: Source, builder: Builder, tokens: Sequence[Token], problems: Sequence[Unreadable]
) -> Expr | None:
    recovery = Recovery(tokens, source.text, problems)
    given_up: str | None = None
    context = None
    try:
        context = recovery.parse()
    except GivenUp as error:
        given_up = str(error)
    reports = [(problem.offset, problem.message) for problem in (*problems, *recovery.problems)]
    for offset, message in reports[:MAX_SYNTAX_ERRORS]:
        source.report(_place(source, offset), f"Syntax error: {message}")
    if len(reports) > MAX_SYNTAX_ERRORS:
        offset = reports[MAX_SYNTAX_ERRORS][0]
        source.report(_place(source, offset), f"Syntax error: More than {MAX_SYNTAX_ERRORS} syntax errors")
        return None
    if given_up:
        source.report(NO_LOCATION, given_up)
    return None if context is None else builder.build(as_tree(context))


def _place(source: Source, offset: int) -> Location:
    # Nothing at all has no first column.
    return source.location(offset) if source.text else Location(1, -1)


def _failed(source: Source) -> CompileError:
    return CompileError(f"compilation failed: {source.display()}")
