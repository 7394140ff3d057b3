"""CEL of admission policies: expressions over the object of a request, not typed, and the request itself.

Language, libraries, texts and costs are those of Kubernetes 1.37. Sources: apiserver v0.37.2
`pkg/admission/plugin/cel`, `pkg/cel/common/valuesschemalesstyped.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from . import types
from .deep import with_room
from .errors import CompileError, CostLimitExceededError, EvalError, InternalError
from .frame import Frame
from .patches import JSON_PATCHES, PatchStructs
from .types import Type
from .values import GO_NAMES, MISSING, RUNTIME_TYPES, CelMap

if TYPE_CHECKING:
    from .checker import Names
    from .compiler import Plan

CALL_LIMIT: Final = 1_000_000
"""The cost that one evaluation must not exceed."""
VARIABLES: Final = (
    "object",
    "oldObject",
    "params",
    "request",
    "namespaceObject",
    "variables",
    "authorizer",
    "authorizer.requestResource",
)
"""The names of an environment, in the order of an activation's values."""
_COMPOSED: Final = "kubernetes.variables"

_STRINGS: Final = types.list_of(types.STRING)
_LABELS: Final = types.map_of(types.STRING, types.STRING)
_KIND: Final = types.struct("kubernetes.GroupVersionKind")
_RESOURCE: Final = types.struct("kubernetes.GroupVersionResource")
_S: Final = types.STRING
_STRUCTS: Final[dict[str, dict[str, Type]]] = {
    "kubernetes.GroupVersionKind": {"group": _S, "version": _S, "kind": _S},
    "kubernetes.GroupVersionResource": {"group": _S, "version": _S, "resource": _S},
    "kubernetes.UserInfo": {
        "username": _S,
        "uid": _S,
        "groups": _STRINGS,
        "extra": types.map_of(types.STRING, _STRINGS),
    },
    "kubernetes.AdmissionRequest": {
        "kind": _KIND,
        "resource": _RESOURCE,
        "subResource": _S,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        "requestSubResource": _S,
        "name": _S,
        "namespace": _S,
        "operation": _S,
        "userInfo": types.struct("kubernetes.UserInfo"),
        "dryRun": types.BOOL,
        "options": types.DYN,
    },
    "kubernetes.NamespaceSpec": {"finalizers": _STRINGS},
    "kubernetes.NamespaceCondition": {
        "status": _S,
        "type": _S,
        "lastTransitionTime": types.TIMESTAMP,
        "message": _S,
        "reason": _S,
    },
    "kubernetes.NamespaceStatus": {
        "conditions": types.list_of(types.struct("kubernetes.NamespaceCondition")),
        "phase": _S,
    },
    # `UID` is upstream's name of the field, which no object has.
    "kubernetes.NamespaceMetadata": {
        "name": _S,
        "generateName": _S,
        "namespace": _S,
        "labels": _LABELS,
        "annotations": _LABELS,
        "UID": _S,
        "creationTimestamp": types.TIMESTAMP,
        "deletionGracePeriodSeconds": types.INT,
        "deletionTimestamp": types.TIMESTAMP,
        "generation": types.INT,
        "resourceVersion": _S,
        "finalizers": _STRINGS,
    },
    "kubernetes.Namespace": {
        "metadata": types.struct("kubernetes.NamespaceMetadata"),
        "spec": types.struct("kubernetes.NamespaceSpec"),
        "status": types.struct("kubernetes.NamespaceStatus"),
    },
}


@dataclass(frozen=True)
class ObjectTypes:
    """What a check of types knows about objects: `structs` are the types that the three types consist of."""

    object: Type = types.DYN
    old_object: Type = types.DYN
    params: Type = types.DYN
    structs: Mapping[str, Mapping[str, Type]] | None = None


@dataclass(frozen=True)
class Environment:
    """What an expression may name beside object, oldObject, request and namespaceObject.

    `variables` are the types of composed variables; None where there cannot be any. `stored` expressions may use
    what this version of Kubernetes brought, new ones what the previous version knows. A check of types does not know
    `authorizer.requestResource`. `patches`: expressions make objects or JSON patches.
    """

    params: bool = False
    authorizer: bool = True
    variables: Mapping[str, Type] | None = None
    stored: bool = False
    objects: ObjectTypes | None = None
    patches: bool = False


@dataclass(frozen=True)
class Outcome:
    """The result of an evaluation: a value, or why there is none, and the cost."""

    value: Any
    error: str | None
    cost: int


class Variables(CelMap):
    """The value of `variables`: each is computed when it is first asked for."""

    __slots__ = ("_compute", "_found")

    def __init__(self, names: Sequence[str], compute: Callable[[str], Any]) -> None:
        """`compute` gives a variable by its name, or raises EvalError."""
        super().__init__(dict.fromkeys(names))
        self._compute = compute
        self._found: dict[str, Any] = {}

    def find(self, key: Any) -> Any:
        """The value, or MISSING; an error comes again each time."""
        if key not in self.data:
            return MISSING
        if key not in self._found:
            try:
                self._found[key] = self._compute(key)
            except EvalError as error:
                self._found[key] = error
        found = self._found[key]
        if isinstance(found, EvalError):
            raise found
        return found


RUNTIME_TYPES[Variables] = types.struct(_COMPOSED)
GO_NAMES[Variables] = "*lazy.MapValue"


class Expression:
    """A compiled expression; it keeps nothing of an evaluation."""

    def __init__(self, text: str, plan: Plan) -> None:
        self.text = text
        self._plan = plan
        self._run: Callable[[Frame], Any] | None = None

    @property
    def output(self) -> Type:
        """The static type of the result."""
        return self._plan.checked.output

    def evaluate(self, values: Sequence[Any], limit: int = CALL_LIMIT) -> Outcome:
        """Evaluate with values of VARIABLES in their order; an EvalError as a value is the error of its use."""
        run = self._run
        if run is None:
            from .meter import CostMeter

            run = self._run = with_room(lambda: self._plan.step.compile(CostMeter()))
        frame = Frame(values[0], self._plan.slots, limit)
        frame.slots[: len(values)] = values
        try:
            return Outcome(with_room(lambda: run(frame)), None, frame.cost)
        except (EvalError, CostLimitExceededError, InternalError) as error:
            return Outcome(None, str(error), frame.cost)


def compile_expression(text: str, environment: Environment, results: Sequence[Type] = ()) -> Expression:
    """Compile; `results` are the types that the expression may have, all if empty.

    Raises CompileError with the text of the API server.
    """
    from .compiler import plan_in

    def problem(output: Type) -> str | None:
        if not results or any(output.same(each) for each in results):
            return None
        if len(results) == 1:
            return f"must evaluate to {results[0]} but got {output}"
        return f"must evaluate to one of [{' '.join(map(str, results))}] but got {output}"

    names = _names(environment)
    return with_room(lambda: Expression(text, plan_in(text, names, VARIABLES, problem)))


def variable_type(output: Type | None) -> Type:
    """The type that a composed variable has for those who use it; None for one that does not compile."""
    if output is None:
        return types.DYN
    if output.same(types.ANY):
        return types.ANY
    if output.kind in _PLAIN and not output.wrapper:
        return output
    if output.kind is types.Kind.LIST:
        return types.list_of(variable_type(output.parameters[0]))
    if output.kind is types.Kind.MAP:
        return types.map_of(*map(variable_type, output.parameters))
    return types.DYN


_PLAIN: Final = frozenset(
    (
        types.Kind.BOOL,
        types.Kind.BYTES,
        types.Kind.DOUBLE,
        types.Kind.DURATION,
        types.Kind.INT,
        types.Kind.NULL,
        types.Kind.STRING,
        types.Kind.TIMESTAMP,
        types.Kind.UINT,
    )
)


def from_json(value: Any) -> Any:
    """A JSON value as CEL sees it."""
    if isinstance(value, dict):
        return CelMap({key: from_json(each) for key, each in value.items()})
    if isinstance(value, list):
        return [from_json(each) for each in value]
    return value


def _names(environment: Environment) -> Names:
    from .checker import Names
    from .environment import TYPE_NAMES, base_functions

    objects = environment.objects or ObjectTypes()
    variables = {
        "object": objects.object,
        "oldObject": objects.old_object,
        "namespaceObject": types.struct("kubernetes.Namespace"),
        "request": types.struct("kubernetes.AdmissionRequest"),
    }
    structs: dict[str, Mapping[str, Type]] = dict(_base_structs())
    if objects.structs:
        structs |= objects.structs
    if environment.params:
        variables["params"] = objects.params
    if environment.authorizer:
        from .library.authorization import AUTHORIZER_TYPE, RESOURCE_CHECK_TYPE

        variables["authorizer"] = AUTHORIZER_TYPE
        if environment.objects is None:
            variables["authorizer.requestResource"] = RESOURCE_CHECK_TYPE
    if environment.variables is not None:
        variables["variables"] = types.struct(_COMPOSED)
        structs[_COMPOSED] = environment.variables
    functions = base_functions(includes=environment.stored)
    if environment.patches:
        structs, functions = PatchStructs(structs), {**functions, **JSON_PATCHES}
    return Names(variables, functions, structs, TYPE_NAMES)


@lru_cache(maxsize=1)
def _base_structs() -> Mapping[str, Mapping[str, Type]]:
    from .checker import PROVIDED

    return {**_STRUCTS, **{name: {} for name in PROVIDED}}


__all__ = [
    "CALL_LIMIT", "VARIABLES", "CompileError", "Environment", "EvalError", "Expression", "ObjectTypes", "Outcome",
    "Variables", "compile_expression", "from_json", "variable_type",
]  # fmt: skip
