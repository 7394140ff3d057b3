"""Compiling expressions and evaluating them for devices."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from .. import features as gates
from .deep import with_room
from .device import DeviceInput
from .errors import CelRuntimeError, CostLimitExceededError, EvalError, InternalError
from .frame import Frame
from .results import as_attribute, as_bool

if TYPE_CHECKING:
    # The compiler with its libraries is imported when the first expression is compiled: programs that never do
    # should not wait for it.
    from .compiler import Plan

Kind = Literal["new", "stored"]
"""Expressions of objects that are written, which see what gates allow, or of stored ones, which see everything."""
Run = Callable[[Frame], Any]
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

    def __init__(self, expression: str, plan: Plan) -> None:
        self.expression = expression
        self._plan = plan
        self._fast: Run = plan.step.compile(None)
        self._metered: Run | None = None
        self._estimate: int | None = None

    @property
    def output_type(self) -> str:
        """The static type of the result."""
        return str(self._plan.checked.output)

    @property
    def estimated_cost(self) -> int:
        """The worst cost of an evaluation (2**64-1 without a bound), computed when it is first needed."""
        if self._estimate is None:
            from .cost import worst_cost

            self._estimate = with_room(lambda: worst_cost(self._plan.checked))
        return self._estimate

    def _evaluate(
        self, device: DeviceInput, cancelled: Cancelled | None, limit: int, convert: Callable[[Any], _Result]
    ) -> tuple[_Result, int]:
        """The converted result, and the cost."""
        metered = self._metered
        if metered is None:
            from .meter import CostMeter

            metered = self._metered = with_room(lambda: self._plan.step.compile(CostMeter()))

        def run() -> tuple[_Result, int]:
            frame = Frame(device.value, self._plan.slots, limit, cancelled)
            try:
                return convert(_result(metered, frame)), frame.cost
            except CelRuntimeError as error:
                error.cost = frame.cost
                raise

        return with_room(run)


class Program(_Compiled):
    """A compiled selector; threads may share it."""

    def matches(self, device: DeviceInput, cancelled: Cancelled | None = None) -> bool:
        """Whether the device matches. Raises CelRuntimeError."""
        if self.estimated_cost > COST_LIMIT:
            return self.evaluate(device, cancelled).match
        # What cannot exceed the limit need not be metered.
        frame = Frame(device.value, self._plan.slots, None, cancelled)
        try:
            result = self._fast(frame)
        except (EvalError, InternalError) as error:
            raise CelRuntimeError(str(error)) from None
        except RecursionError:
            return self.evaluate(device, cancelled).match
        return result if result is True or result is False else as_bool(result)

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

        def convert(value: Any) -> dict[str, Any]:
            return as_attribute(value, device)

        return DerivedEvaluation(*self._evaluate(device, cancelled, limit, convert))


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
    from .compiler import plan_selector

    stored = environment == "stored"
    return with_room(lambda: Program(expression, plan_selector(expression, features, stored=stored)))


def compile_derived_attribute(
    expression: str, *, features: Collection[str] = gates.ENABLED_1_37, environment: Kind = "stored"
) -> DerivedAttribute:
    """Compile the expression of a derived attribute; see compile_selector. Raises CompileError."""
    from .compiler import plan_derived_attribute

    stored = environment == "stored"
    return with_room(
        lambda: DerivedAttribute(expression, plan_derived_attribute(expression, features, stored=stored))
    )
