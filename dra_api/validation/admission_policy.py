"""Rules for admission policies of both kinds and their bindings; expressions are compiled.

Source: kubernetes v1.37.2 `pkg/apis/admissionregistration/validation`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ..cel import types
from ..cel.admission import Environment, compile_expression, variable_type
from ..cel.errors import CompileError
from ..cel.patches import OBJECT_TYPE, PATCHES_TYPE
from ..errors import FieldError
from .conditions import check_conditions
from .findings import Findings
from .formats import check_label_key
from .match_resources import (
    check_condition_name,
    check_conditions_named,
    check_match_resources,
    check_param_kind,
    check_param_ref,
    check_policy_name,
)
from .names import byte_length, not_supported

Object = Mapping[str, Any]

_FAILURE_POLICIES: Final = ("Fail", "Ignore")
_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS: Final = ("Audit", "Deny", "Warn")
_MAX_ANNOTATIONS: Final = 20
_MAX_ANNOTATION_EXPRESSION: Final = 5 * 1024
_ITEMS: Final = "validations or auditAnnotations must contain at least one item"
_REINVOCATION: Final = ("IfNeeded", "Never")
_MUTABLE: Final = ("*", "CONNECT", "CREATE", "UPDATE")
_PATCHES: Final = {
    "ApplyConfiguration": ("applyConfiguration", OBJECT_TYPE),
    "JSONPatch": ("jsonPatch", PATCHES_TYPE),
}
_BOTH: Final = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API "
    "response and headers serves no purpose)"
)
_RESERVED: Final = frozenset(
    (
        "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
        "let", "loop", "package", "namespace", "return", "var", "void", "while",
    )
)  # fmt: skip


def validate_policy(policy: Object, old: Object | None = None) -> list[FieldError]:
    """All errors of a new policy, or of a changed one, beside its metadata."""
    found = Findings()
    _Policy(found, policy, old).check()
    return found.errors()


def validate_binding(binding: Object) -> list[FieldError]:
    """All errors of a binding beside its metadata."""
    found = Findings()
    spec = binding.get("spec") or {}
    check_policy_name(found, spec.get("policyName") or "", "spec.policyName")
    check_param_ref(found, spec.get("paramRef"), "spec.paramRef")
    check_match_resources(found, spec.get("matchResources"), "spec.matchResources")
    _check_actions(found, spec.get("validationActions") or [], "spec.validationActions")
    return found.errors()


def validate_mutating_policy(policy: Object, old: Object | None = None) -> list[FieldError]:
    """All errors of a new or changed MutatingAdmissionPolicy beside its metadata."""
    found = Findings()
    _MutatingPolicy(found, policy, old).check()
    return found.errors()


def validate_mutating_binding(binding: Object) -> list[FieldError]:
    """All errors of a MutatingAdmissionPolicyBinding beside its metadata."""
    found = Findings()
    spec = binding.get("spec") or {}
    check_policy_name(found, spec.get("policyName") or "", "spec.policyName", declared=False)
    check_param_ref(found, spec.get("paramRef"), "spec.paramRef")
    check_match_resources(found, spec.get("matchResources"), "spec.matchResources")
    return found.errors()


def validate_policy_status(policy: Object) -> list[FieldError]:
    """All errors of a changed status."""
    found = Findings()
    status = policy.get("status") or {}
    warnings = (status.get("typeChecking") or {}).get("expressionWarnings") or []
    for index, warning in enumerate(warnings):
        path = f"status.typeChecking.expressionWarnings[{index}]"
        if not warning.get("warning"):
            found.required(f"{path}.warning")
        if not (warning.get("fieldRef") or "").strip():
            found.required(f"{path}.fieldRef")
    check_conditions(found, status.get("conditions") or [], "status.conditions")
    return found.errors()


def _check_actions(found: Findings, actions: Sequence[str], path: str) -> None:
    seen: set[str] = set()
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            found.add(not_supported(f"{path}[{index}]", action, _ACTIONS))
        if action in seen:
            found.duplicate(f"{path}[{index}]", action)
        seen.add(action)
    if {"Deny", "Warn"} <= seen:
        found.invalid(path, list(actions), _BOTH)
    if not seen:
        found.required(path, declared=True)


class _AnyPolicy:
    """One check of one policy: variables are known to the expressions after them."""

    def __init__(self, found: Findings, policy: Object, old: Object | None) -> None:
        self._found = found
        self._spec: Object = policy.get("spec") or {}
        self._old: Object | None = None if old is None else old.get("spec") or {}
        self._name: str = (policy.get("metadata") or {}).get("name") or ""
        self._variables: dict[str, types.Type] | None = {} if self._spec.get("variables") else None
        self._params = self._spec.get("paramKind") is not None

    def check_common(self) -> None:
        """What policies of both kinds have: what they match, conditions, variables."""
        found, spec = self._found, self._spec
        policy = spec.get("failurePolicy")
        if policy is None:
            found.required("spec.failurePolicy")
        elif policy not in _FAILURE_POLICIES:
            found.add(not_supported("spec.failurePolicy", policy, _FAILURE_POLICIES))
        if self._params:
            check_param_kind(found, spec["paramKind"], "spec.paramKind")
        constraints = spec.get("matchConstraints")
        if constraints is None:
            found.required("spec.matchConstraints")
        else:
            check_match_resources(found, constraints, "spec.matchConstraints")
            if not constraints.get("resourceRules"):
                found.required("spec.matchConstraints.resourceRules")
            self._operations(constraints.get("resourceRules") or [])
        if self._old is None or any(
            (spec.get(field) or None) != (self._old.get(field) or None)
            for field in ("paramKind", "matchConditions")
        ):
            self._match_conditions(spec.get("matchConditions") or [])
        for index, variable in enumerate(spec.get("variables") or []):
            self._variable(variable, f"spec.variables[{index}]")

    def _operations(self, rules: Sequence[Object]) -> None:
        """Which operations a policy of this kind cannot be about."""

    def _match_conditions(self, conditions: Sequence[Object]) -> None:
        found, path = self._found, "spec.matchConditions"
        check_conditions_named(found, conditions, path)
        names: set[str] = set()
        for index, condition in enumerate(conditions):
            where = f"{path}[{index}]"
            expression = (condition.get("expression") or "").strip()
            if not expression:
                found.required(f"{where}.expression")
            else:
                environment = Environment(
                    params=self._params,
                    stored=self._known(condition["expression"], "matchConditions", "expression"),
                )
                self._compile(expression, environment, (types.BOOL,), f"{where}.expression")
            name = condition.get("name") or ""
            check_condition_name(found, name, f"{where}.name")
            if name and name in names:
                found.duplicate(f"{where}.name", name)
            names.add(name)

    def _variable(self, variable: Object, path: str) -> None:
        name, expression = variable.get("name") or "", variable.get("expression") or ""
        if not name.strip():
            self._found.required(f"{path}.name", "name is not specified")
        elif not re.fullmatch("[_a-zA-Z][_a-zA-Z0-9]*", name) or name in _RESERVED:
            self._found.invalid(f"{path}.name", name, "must be a valid CEL identifier")
        if not expression.strip():
            self._found.required(f"{path}.expression", "expression is not specified")
            return
        stored = self._known(expression, "variables", "expression")
        output = self._compile(expression, self._environment(stored), (), f"{path}.expression")
        if self._variables is not None:
            self._variables[name] = variable_type(output)

    def _environment(self, stored: bool, *, authorizer: bool = True) -> Environment:
        variables = None if self._variables is None else dict(self._variables)
        return Environment(self._params, authorizer, variables, stored)

    def _known(self, expression: str, holder: str, field: str) -> bool:
        """Whether the stored policy has the expression in the same place: then it may stay."""
        if self._old is None:
            return False
        return any(each.get(field) == expression for each in self._old.get(holder) or [])

    def _compile(
        self,
        expression: str,
        environment: Environment,
        results: Sequence[types.Type],
        path: str,
        shown: str | None = None,
    ) -> types.Type | None:
        """The type of the expression; None for one that does not compile, which is reported."""
        try:
            return compile_expression(expression, environment, results).output
        except CompileError as error:
            value = expression if shown is None else shown
            if error.type == "Internal":
                self._found.add(FieldError("Internal", path, error.message))
            else:
                self._found.invalid(path, value, error.message)
            return None


class _Policy(_AnyPolicy):
    """A ValidatingAdmissionPolicy."""

    def check(self) -> None:
        """Report all that is wrong."""
        self.check_common()
        found, spec = self._found, self._spec
        validations, annotations = spec.get("validations") or [], spec.get("auditAnnotations") or []
        if not validations and not annotations:
            found.required("spec.validations", _ITEMS)
            found.required("spec.auditAnnotations", _ITEMS)
            return
        for index, validation in enumerate(validations):
            self._validation(validation, f"spec.validations[{index}]")
        self._annotations(annotations)

    def _validation(self, validation: Object, path: str) -> None:
        found = self._found
        expression = validation.get("expression") or ""
        message, dynamic = validation.get("message") or "", validation.get("messageExpression") or ""
        if not expression.strip():
            found.required(f"{path}.expression", "expression is not specified")
        else:
            stored = self._known(expression, "validations", "expression")
            self._compile(expression, self._environment(stored), (types.BOOL,), f"{path}.expression")
        if dynamic and not dynamic.strip():
            found.invalid(f"{path}.messageExpression", dynamic, "must be non-empty if specified")
        elif dynamic:
            stored = self._known(dynamic, "validations", "messageExpression")
            environment = self._environment(stored, authorizer=False)
            self._compile(dynamic, environment, (types.STRING,), f"{path}.messageExpression")
        if message and not message.strip():
            found.invalid(f"{path}.message", message, "must be non-empty if specified")
        elif re.search("[\n\r]", message.strip()):
            found.invalid(f"{path}.message", message, "must not contain line breaks")
        reason = validation.get("reason")
        if reason is not None and reason not in _REASONS:
            found.add(not_supported(f"{path}.reason", reason, _REASONS))

    def _annotations(self, annotations: Sequence[Object]) -> None:
        found, path = self._found, "spec.auditAnnotations"
        if len(annotations) > _MAX_ANNOTATIONS:
            text = f"must not have more than {_MAX_ANNOTATIONS} auditAnnotations"
            found.invalid(path, [dict(each) for each in annotations], text)
        keys: set[str] = set()
        for index, annotation in enumerate(annotations):
            where, key = f"{path}[{index}]", annotation.get("key") or ""
            if self._name:
                check_label_key(found, f"{where}.key", f"{self._name}/{key}")
            else:
                found.invalid(f"{where}.key", key, "requires metadata.name be non-empty")
            self._annotation_value(annotation.get("valueExpression") or "", f"{where}.valueExpression")
            if key in keys:
                found.duplicate(f"{where}.key", key)
            keys.add(key)

    def _annotation_value(self, expression: str, path: str) -> None:
        trimmed = expression.strip()
        if not trimmed:
            self._found.required(path, "valueExpression is not specified")
        elif byte_length(trimmed) > _MAX_ANNOTATION_EXPRESSION:
            text = f"must not exceed {_MAX_ANNOTATION_EXPRESSION} bytes in length"
            self._found.required(path, text)
        else:
            stored = self._known(expression, "auditAnnotations", "valueExpression")
            results = (types.STRING, types.NULL)
            self._compile(trimmed, self._environment(stored), results, path, shown=expression)


class _MutatingPolicy(_AnyPolicy):
    """A MutatingAdmissionPolicy."""

    def __init__(self, found: Findings, policy: Object, old: Object | None) -> None:
        super().__init__(found, policy, old)
        self._variables = {}

    def check(self) -> None:
        """Report all that is wrong."""
        self.check_common()
        found, spec = self._found, self._spec
        mutations = spec.get("mutations") or []
        if not mutations:
            found.required("spec.mutations", "mutations must contain at least one item")
        for index, mutation in enumerate(mutations):
            self._mutation(mutation, f"spec.mutations[{index}]")
        policy = spec.get("reinvocationPolicy") or ""
        if not policy:
            found.required("spec.reinvocationPolicy")
        elif policy not in _REINVOCATION:
            found.add(not_supported("spec.reinvocationPolicy", policy, _REINVOCATION))

    def _operations(self, rules: Sequence[Object]) -> None:
        for rule in rules:
            for operation in rule.get("operations") or []:
                if operation not in _MUTABLE:
                    path = "spec.matchConstraints.resourceRules.operations"
                    self._found.add(not_supported(path, operation, _MUTABLE))

    def _mutation(self, mutation: Object, path: str) -> None:
        found, kind = self._found, mutation.get("patchType") or ""
        if not kind:
            found.required(f"{path}.patchType")
            return
        if kind not in _PATCHES:
            found.add(not_supported(f"{path}.patchType", kind, tuple(_PATCHES)))
            return
        field, result = _PATCHES[kind]
        other = next(name for name, _ in _PATCHES.values() if name != field)
        holder = mutation.get(field)
        if holder is None:
            found.required(f"{path}.{field}", f"must be specified when patchType is {kind}")
        else:
            self._patch(holder.get("expression") or "", field, result, f"{path}.{field}.expression")
        if mutation.get(other) is not None:
            text = f"must not be specified when patchType is {kind}"
            found.invalid(f"{path}.{other}", f"{{{other}}}", text)

    def _patch(self, expression: str, field: str, result: types.Type, path: str) -> None:
        trimmed = expression.strip()
        if not trimmed:
            self._found.required(path)
            return
        known = [] if self._old is None else self._old.get("mutations") or []
        stored = any((each.get(field) or {}).get("expression") == expression for each in known)
        environment = replace(self._environment(stored), patches=True)
        self._compile(trimmed, environment, (result,), path)
