"""What one policy says about a request (apiserver v0.37.2 `pkg/admission/plugin/policy/validating`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from clusters.embedded.apiserver.admission.policies.evaluation import (
    BUDGET,
    CONDITIONS_BUDGET,
    BudgetError,
    Compiled,
    Compiler,
    Evaluated,
    Input,
    evaluate,
)
from clusters.embedded.apiserver.auth.attributes import Authorizer
from dra_api.cel import types

_BOOL: Final = (types.BOOL,)
_STRING: Final = (types.STRING,)
_ANNOTATION: Final = (types.STRING, types.NULL)
_MAX_MESSAGE: Final = 5 * 1024


@dataclass(frozen=True)
class Denial:
    """A validation that refuses. `always`: whatever the binding does with refusals."""

    message: str
    reason: str = "Invalid"
    always: bool = False


class MatchConditions:
    """The conditions without which a policy is not evaluated."""

    def __init__(self, conditions: Sequence[Mapping[str, Any]], compiler: Compiler) -> None:
        self._conditions = [compiler.compile(each.get("expression", ""), _BOOL) for each in conditions]
        self._variables = compiler.variables

    def hold(self, given: Input, authorizer: Authorizer, *, ignores: bool) -> bool:
        """Whether all hold; `ignores`: errors count as no. Raises ConditionError."""
        if not self._conditions:
            return True
        plain = Input(given.subject, given.match, given.param)
        try:
            results, _ = evaluate(self._conditions, self._variables, plain, CONDITIONS_BUDGET, authorizer)
        except BudgetError as error:
            if ignores:
                return False
            raise ConditionError(str(error)) from None
        if any(result.value is False for result in results):
            return False
        errors = list(dict.fromkeys(result.error for result in results if result.error is not None))
        if not errors:
            return True
        if ignores:
            return False
        raise ConditionError(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")


class ConditionError(Exception):
    """Conditions that can neither be said to hold nor not to hold."""


class ValidatingPolicy:
    """A ValidatingAdmissionPolicy, compiled."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        compiler = Compiler(spec)
        self._variables = compiler.variables
        self._ignores = spec.get("failurePolicy") == "Ignore"
        self._conditions = MatchConditions(spec.get("matchConditions") or [], compiler)
        self._validations: Sequence[Mapping[str, Any]] = spec.get("validations") or []
        self._expressions = [
            compiler.compile(each.get("expression", ""), _BOOL) for each in self._validations
        ]
        self._messages: list[Compiled | None] = [
            compiler.compile(each["messageExpression"], _STRING, authorizer=False)
            if each.get("messageExpression")
            else None
            for each in self._validations
        ]
        self._annotations = [
            compiler.compile(each.get("valueExpression", "").strip(), _ANNOTATION)
            for each in spec.get("auditAnnotations") or []
        ]

    def denials(self, given: Input, authorizer: Authorizer) -> list[Denial]:
        """All reasons against the request, in order."""
        try:
            if not self._conditions.hold(given, authorizer, ignores=self._ignores):
                return []
            results, left = evaluate(self._expressions, self._variables, given, BUDGET, authorizer)
        except (BudgetError, ConditionError) as error:
            return self._failure(str(error))
        problem = ""
        messages: list[Evaluated] = []
        try:
            messages, _ = evaluate(self._messages, self._variables, given, left)
        except BudgetError as error:
            problem = f"failed messageExpression: {error}"
        found: list[Denial] = []
        for index, result in enumerate(results):
            if result.error is not None or problem:
                found += self._failure(result.error if result.error is not None else problem)
            elif result.value is not True:
                message = messages[index].value if index < len(messages) else None
                found.append(self._denial(index, message))
        try:
            annotations, _ = evaluate(self._annotations, self._variables, given, BUDGET)
        except BudgetError as error:
            return self._failure(str(error))
        for annotation in annotations:
            if annotation.error is not None:
                found += self._failure(annotation.error, always=True)
        return found

    def _failure(self, message: str, *, always: bool = False) -> list[Denial]:
        return [] if self._ignores else [Denial(message, always=always)]

    def _denial(self, index: int, dynamic: Any) -> Denial:
        validation = self._validations[index]
        message = dynamic.strip() if isinstance(dynamic, str) else ""
        if len(message.encode()) > _MAX_MESSAGE or "\n" in message:
            message = ""
        message = message or str(validation.get("message") or "").strip()
        message = message or f"failed expression: {str(validation.get('expression', '')).strip()}"
        return Denial(message, validation.get("reason") or "Invalid")
