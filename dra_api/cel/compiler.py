"""From the text of an expression to a plan of its evaluation: read, check, validate, plan."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from .. import features as gates
from .build import Builder
from .checker import Checked, Names, check
from .environment import Environment, environment
from .errors import CompileError
from .planner import Planner
from .reading import read
from .results import derived_type_problem, selector_type_problem
from .source import Source
from .steps import Step
from .types import Type
from .validators import validate


@dataclass(frozen=True)
class Plan:
    """A checked expression, the step that evaluates it and the number of slots for its variables."""

    checked: Checked
    step: Step
    slots: int


def plan_selector(expression: str, features: Collection[str], *, stored: bool) -> Plan:
    """The plan of a selector. Raises CompileError."""
    env = _environment(features, stored=stored)
    return _plan(expression, env, lambda output: selector_type_problem(output, env.attribute))


def plan_derived_attribute(expression: str, features: Collection[str], *, stored: bool) -> Plan:
    """The plan of a derived attribute. Raises CompileError."""
    env = _environment(features, stored=stored)
    return _plan(expression, env, lambda output: derived_type_problem(output, lists=env.lists))


def _environment(features: Collection[str], *, stored: bool) -> Environment:
    return environment(
        stored=stored,
        consumable_capacity=gates.CONSUMABLE_CAPACITY in features,
        list_attributes=gates.LIST_TYPE_ATTRIBUTES in features,
    )


def _plan(expression: str, env: Environment, type_problem: Callable[[Type], str | None]) -> Plan:
    return plan_in(expression, env.names, ("device",), type_problem)


def plan_in(
    expression: str, names: Names, variables: Sequence[str], type_problem: Callable[[Type], str | None]
) -> Plan:
    """The plan of an expression in any environment; `variables` are in the order of their slots.

    `type_problem` says why the type of the result does not fit. Raises CompileError.
    """
    source = Source(expression)
    builder = Builder(source)
    expr = read(source, builder)
    if source.problem_count or expr is None:
        raise _failed(source)
    checked = check(expr, source, builder.positions, names)
    if not source.problem_count:
        validate(checked, source, builder.positions)
    if source.problem_count:
        raise _failed(source)
    problem = type_problem(checked.output)
    if problem is not None:
        raise CompileError(problem)
    planner = Planner(checked, names.functions, names.type_names, variables)
    return Plan(checked, planner.plan(expr), planner.slots)


def _failed(source: Source) -> CompileError:
    return CompileError(f"compilation failed: {source.display()}")
