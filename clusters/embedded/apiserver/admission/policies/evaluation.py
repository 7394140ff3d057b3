"""Evaluates the expressions of a policy for one request, within a budget of cost.

Source: apiserver v0.37.2 `pkg/admission/plugin/cel`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from clusters.embedded.apiserver.admission.policies.authority import UserAuthority
from clusters.embedded.apiserver.admission.policies.subject import Match, Subject
from clusters.embedded.apiserver.auth.attributes import Authorizer
from clusters.embedded.apiserver.storage import Object
from dra_api.cel import types
from dra_api.cel.admission import (
    CompileError,
    Environment,
    EvalError,
    Expression,
    Variables,
    compile_expression,
    from_json,
    variable_type,
)
from dra_api.cel.library.authorization import Authorizer as AuthorizerValue
from dra_api.cel.library.authorization import ResourceCheck

BUDGET: Final = 10_000_000
"""The cost of all validations of a binding."""
CONDITIONS_BUDGET: Final = 2_500_000
"""The cost of all match conditions of a binding."""
_SPENT: Final = "validation failed due to running out of cost budget, no further validation rules will be run"
_NAMESPACE_METADATA: Final = (
    "name", "generateName", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
    "deletionGracePeriodSeconds", "labels", "annotations", "finalizers",
)  # fmt: skip


class BudgetError(Exception):
    """The expressions are too expensive together."""


@dataclass(frozen=True)
class Compiled:
    """An expression as it is written, and compiled or why it is not."""

    text: str
    expression: Expression | None
    problem: str = ""


@dataclass(frozen=True)
class Evaluated:
    """The value of an expression, or why it has none."""

    value: Any = None
    error: str | None = None


@dataclass(frozen=True)
class Input:
    """What all expressions of a policy are evaluated for; `param` and `namespace` as objects of the API."""

    subject: Subject
    match: Match
    param: Object | None = None
    namespace: Object | None = None


class Compiler:
    """Compiles the stored expressions of one policy, variables first."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._params = spec.get("paramKind") is not None
        self._types: dict[str, types.Type] = {}
        self.variables: dict[str, Compiled] = {}
        for variable in spec.get("variables") or []:
            name = variable.get("name", "")
            compiled = self.compile(variable.get("expression", ""), ())
            output = None if compiled.expression is None else compiled.expression.output
            self._types[name] = variable_type(output)
            self.variables[name] = compiled

    def compile(
        self, text: str, results: Sequence[types.Type], *, authorizer: bool = True, patches: bool = False
    ) -> Compiled:
        """Compile one expression; one that does not compile is an error of its evaluation."""
        environment = Environment(self._params, authorizer, dict(self._types), stored=True, patches=patches)
        try:
            return Compiled(text, compile_expression(text, environment, results))
        except CompileError as error:
            return Compiled(text, None, error.message)


def evaluate(
    expressions: Sequence[Compiled | None],
    variables: Mapping[str, Compiled],
    given: Input,
    budget: int,
    authorizer: Authorizer | None = None,
) -> tuple[list[Evaluated], int]:
    """The results in order (an absent expression has none), and what is left of the budget.

    Raises BudgetError. Without an authorizer expressions that use one fail.
    """
    spent = 0

    def compute(name: str) -> Any:
        nonlocal spent
        variable = variables[name]
        if variable.expression is None:
            raise EvalError(f'composited variable "{name}" fails to compile: {variable.problem}')
        outcome = variable.expression.evaluate(values)
        spent += outcome.cost
        if outcome.error is not None:
            raise EvalError(f'composited variable "{name}" fails to evaluate: {outcome.error}')
        return outcome.value

    values = [*_values(given), Variables(tuple(variables), compute), *_authorization(given, authorizer)]
    results = []
    for compiled in expressions:
        if compiled is None:
            results.append(Evaluated())
            continue
        if compiled.expression is None:
            results.append(Evaluated(error=f"compilation error: {compiled.problem}"))
            continue
        outcome = compiled.expression.evaluate(values)
        for cost in (spent, outcome.cost):
            if cost > budget:
                raise BudgetError(_SPENT)
            budget -= cost
        spent = 0
        if outcome.error is None:
            results.append(Evaluated(outcome.value))
        else:
            text = f"expression '{compiled.text}' resulted in error: {outcome.error}"
            results.append(Evaluated(error=text))
    return results, budget


def _values(given: Input) -> tuple[Any, ...]:
    """The values of object, oldObject, params, request and namespaceObject."""
    new, old = given.subject.values(given.match)
    request = from_json(_admission_request(given))
    return new, old, from_json(given.param), request, from_json(_namespace(given.namespace))


def _authorization(given: Input, authorizer: Authorizer | None) -> tuple[Any, Any]:
    """The values of authorizer and authorizer.requestResource."""
    if authorizer is None:
        return EvalError("no such attribute(s): authorizer"), EvalError(
            "no such attribute(s): authorizer.requestResource"
        )
    subject = given.subject
    request = subject.request
    authority = UserAuthority(authorizer, request.user)
    resource = ResourceCheck(
        authority, request.group, request.resource, request.subresource, subject.namespace, request.name
    )
    return AuthorizerValue(authority), resource


def _admission_request(given: Input) -> Object:
    subject = given.subject
    request, own = subject.request, subject.match
    body: Object = {
        "uid": "",
        "kind": given.match.kind.as_json(),
        "resource": given.match.place.as_json(),
        "subResource": request.subresource,
        "requestKind": own.kind.as_json(),
        "requestResource": own.place.as_json(),
        "requestSubResource": request.subresource,
        "name": request.name,
        "namespace": subject.namespace,
        "operation": request.operation,
        "userInfo": request.user.info(),
        "dryRun": request.dry_run,
        "options": request.options,
    }
    for name in ("subResource", "requestSubResource", "name", "namespace"):
        if not body[name]:
            del body[name]
    return body


def _namespace(namespace: Object | None) -> Object | None:
    if namespace is None:
        return None
    metadata = namespace["metadata"]
    return {
        "metadata": {name: metadata[name] for name in _NAMESPACE_METADATA if name in metadata},
        "spec": namespace.get("spec") or {},
        "status": namespace.get("status") or {},
    }
