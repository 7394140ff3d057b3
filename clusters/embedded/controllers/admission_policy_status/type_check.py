"""Compiles the expressions of a policy once more for each kind that it matches, with the types of the kind.

Source: apiserver v0.37.2 `pkg/admission/plugin/policy/validating/typechecking.go`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from clusters.embedded.controllers.discovery import Discovery
from dra_api.cel.admission import CompileError, Environment, ObjectTypes, compile_expression, variable_type
from dra_api.cel.objects import object_types
from dra_api.cel.types import DYN, Type
from dra_api.schema import GVK

_MAX_KINDS: Final = 10
_PREFIX: Final = "compilation failed: "

Spec = Mapping[str, Any]


def warnings_of(spec: Spec, discovery: Discovery) -> list[dict[str, str]]:
    """The expressionWarnings of a policy."""
    kinds = _kinds_to_check(spec, discovery)
    found = []
    for index, validation in enumerate(spec.get("validations") or []):
        for field in ("expression", "messageExpression"):
            text = validation.get(field)
            if not text:
                continue
            problems = [line for kind in kinds for line in _problems(spec, kind, text)]
            if problems:
                path = f"spec.validations[{index}].{field}"
                found.append({"fieldRef": path, "warning": "\n".join(problems)})
    return found


def _problems(spec: Spec, kind: GVK, text: str) -> Iterator[str]:
    """What is wrong with an expression for objects of one kind."""
    environment = _environment(spec, kind)
    if environment is None:
        return
    try:
        compile_expression(text, environment)
    except CompileError as error:
        shown = f"{kind.group}/{kind.version}, Kind={kind.kind}"
        yield f"{shown}: {error.message.removeprefix(_PREFIX)}\n"


def _environment(spec: Spec, kind: GVK) -> Environment | None:
    """Names and types; None for a kind without a schema."""
    known = object_types(kind)
    if known is None:
        return None
    obj, structs = known
    params: Type = DYN
    param_kind = spec.get("paramKind")
    if param_kind is not None:
        of_params = object_types(GVK.of(param_kind.get("apiVersion", ""), param_kind.get("kind", "")))
        if of_params is not None:
            params, structs = of_params[0], {**structs, **of_params[1]}
    objects = ObjectTypes(obj, obj, params, structs)
    variables: dict[str, Type] = {}
    for variable in spec.get("variables") or []:
        try:
            output = compile_expression(
                variable.get("expression", ""), _with(variables, objects, param_kind is not None)
            ).output
        except CompileError:
            output = None
        variables[variable.get("name", "")] = variable_type(output)
    return _with(variables, objects, param_kind is not None)


def _with(variables: Mapping[str, Type], objects: ObjectTypes, params: bool) -> Environment:
    return Environment(params, variables=dict(variables), stored=True, objects=objects)


def _kinds_to_check(spec: Spec, discovery: Discovery) -> list[GVK]:
    """The kinds that a policy names, sorted: at most so many, and none of rules with wildcards."""
    found: set[GVK] = set()
    for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or []:
        groups, versions = rule.get("apiGroups") or [], rule.get("apiVersions") or []
        if any("*" in each for each in (*groups, *versions)):
            continue
        resources = [each for each in rule.get("resources") or [] if not set("*/") & set(each)]
        named = _kinds(sorted(groups), sorted(versions), sorted(resources), discovery)
        for count, kind in enumerate(named, 1):
            found.add(kind)
            if count == _MAX_KINDS:
                return sorted(found)
    return sorted(found)


def _kinds(
    groups: list[str], versions: list[str], resources: list[str], discovery: Discovery
) -> Iterator[GVK]:
    for group in groups:
        for version in versions:
            for resource in resources:
                for served in discovery.resources:
                    # As upstream, the core group stands for any.
                    if group in ("", served.group) and (served.version, served.plural) == (version, resource):
                        yield GVK(served.group, served.version, served.kind)
