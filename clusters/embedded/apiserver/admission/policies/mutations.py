"""What one MutatingAdmissionPolicy makes of an object (apiserver v0.37.2 `pkg/admission/plugin/policy/mutating`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from clusters.api_status import ApiError
from clusters.embedded.apiserver.admission.policies.decisions import MatchConditions
from clusters.embedded.apiserver.admission.policies.evaluation import (
    BUDGET,
    BudgetError,
    Compiled,
    Compiler,
    Input,
    evaluate,
)
from clusters.embedded.apiserver.auth.attributes import Authorizer
from clusters.embedded.apiserver.auth.text import quoted
from clusters.embedded.apiserver.patching.apply import merge
from clusters.embedded.apiserver.patching.errors import PatchError as RejectedError
from clusters.embedded.apiserver.patching.json_patch import json_patch
from clusters.embedded.apiserver.patching.shapes import Shape, shape_of
from clusters.embedded.apiserver.patching.typed import TypedError, check
from clusters.embedded.apiserver.storage import Object
from dra_api import decode
from dra_api.cel.patches import (
    OBJECT_TYPE,
    PATCHES_TYPE,
    JsonPatchValue,
    ObjectValue,
    PatchError,
    check_names,
    to_json,
)
from dra_api.cel.values import MISSING
from dra_api.schema import GVK, load

Mutation = tuple[str, Compiled]
"""The type of a patch and the expression that makes it."""
_APPLY: Final = "ApplyConfiguration"
_OPERATIONS: Final = ("add", "copy", "move", "remove", "replace", "test")


class MutationError(Exception):
    """A mutation that fails."""


class MutatingPolicy:
    """A MutatingAdmissionPolicy, compiled."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        compiler = Compiler(spec)
        self._variables = compiler.variables
        self.conditions = MatchConditions(spec.get("matchConditions") or [], compiler)
        self.reinvoked = spec.get("reinvocationPolicy") == "IfNeeded"
        self.mutations = [_compiled(compiler, mutation) for mutation in spec.get("mutations") or []]

    def mutate(self, mutation: Mutation, given: Input, authorizer: Authorizer) -> Object:
        """The object in the version of the match after one mutation. Raises MutationError, ApiError."""
        kind, compiled = mutation
        if compiled.expression is None:
            raise MutationError(compiled.problem)
        try:
            (result,), _ = evaluate([compiled], self._variables, given, BUDGET, authorizer)
        except BudgetError as error:
            raise MutationError(str(error)) from None
        if result.error is not None:
            raise MutationError(result.error)
        obj, _ = given.subject.objects(given.match)
        try:
            if kind == _APPLY:
                return _applied(obj or {}, result.value, given)
            return _patched(obj or {}, result.value, given)
        except PatchError as error:
            raise MutationError(str(error)) from None


def _compiled(compiler: Compiler, mutation: Mapping[str, Any]) -> Mutation:
    kind = mutation.get("patchType", "")
    field, result = ("applyConfiguration", OBJECT_TYPE) if kind == _APPLY else ("jsonPatch", PATCHES_TYPE)
    text = (mutation.get(field) or {}).get("expression", "")
    return kind, compiler.compile(text, (result,), patches=True)


def _gvk(given: Input) -> GVK:
    return GVK(*given.match.kind)


def _patched(obj: Object, operations: list[JsonPatchValue], given: Input) -> Object:
    """The object after JSON patches; a test that fails leaves it as it is."""
    document = obj
    for operation in operations:
        body: Object = {"op": operation.op, "path": operation.path}
        if operation.source:
            body["from"] = operation.source
        if operation.value is not MISSING:
            if isinstance(operation.value, ObjectValue):
                check_names(operation.value)
            body["value"] = to_json(operation.value)
        try:
            document = json_patch(document, [body])
        except RejectedError:
            if operation.op == "test":
                return obj
            raise MutationError(f"JSON Patch: {_problem(operation)}") from None
    try:
        decoded = decode.decode_object(document, _gvk(given))
    except decode.DecodeError as error:
        raise _internal(error.message) from None
    if decoded.strict:
        raise _internal("strict decoding error: " + ", ".join(decoded.strict))
    return decoded.object


def _problem(operation: JsonPatchValue) -> str:
    """Why an operation does not apply, as upstream's library says it."""
    if operation.op not in _OPERATIONS:
        return f"Unexpected kind: {operation.op}"
    missing = f"path: {operation.path}"
    if operation.op in ("add", "remove"):
        missing = f"path: {quoted(operation.path)}"
    elif operation.op in ("copy", "move"):
        missing = f"from path: {operation.source}"
    return f"{operation.op} operation does not apply: doc is missing {missing}: missing value"


def _internal(text: str) -> ApiError:
    details = {"causes": [{"message": text}]}
    return ApiError(500, "InternalError", f"Internal error occurred: {text}", details)


def _applied(obj: Object, value: ObjectValue, given: Input) -> Object:
    """The object with a configuration merged in."""
    check_names(value)
    gvk = _gvk(given)
    message = load().kind(gvk)
    if message is None:
        raise MutationError(f"no schema for {gvk}")
    shape = shape_of(message)
    config = {"apiVersion": gvk.api_version, "kind": gvk.kind, **to_json(value)}
    try:
        check(config, shape)
    except TypedError as error:
        text = f"failed to convert patch object to typed object: {error}"
        raise MutationError(f"error applying patch: {text}") from None
    atomics = list(_atomics(config, shape, ""))
    if atomics:
        text = f"may not mutate atomic arrays, maps or structs: {', '.join(atomics)}"
        raise MutationError(f"error applying patch: invalid ApplyConfiguration: {text}")
    try:
        merged: Object = merge(obj, config, shape)
    except TypedError as error:
        raise MutationError(f"error applying patch: failed to merge patch: {error}") from None
    return decode.decode_object(merged, gvk).object


def _atomics(value: Any, shape: Shape, path: str) -> Iterator[str]:
    """The places where a configuration would replace more than it says."""
    shape = shape.for_value(value)
    if isinstance(value, dict):
        if shape.atomic:
            yield path
        for name, each in value.items():
            # As upstream, the entries of maps are not looked into.
            if name in shape.fields:
                yield from _atomics(each, shape.child(name), f"{path}.{name}")
    elif isinstance(value, list):
        if shape.atomic:
            yield path
        for index, each in enumerate(value):
            yield from _atomics(each, shape.element, f"{path}[{index}]")
