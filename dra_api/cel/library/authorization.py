"""Authorization checks: declared in every environment; only admission policies have an authorizer to call them on.

Source: apiserver `pkg/cel/library/authz.go`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from ...validation.names import dns_label_problems, dns_subdomain_problems
from .. import types
from ..declarations import Function, Overload, library
from ..errors import EvalError
from ..types import Type
from ..values import EQUALITY, GO_NAMES, RUNTIME_TYPES

_PREFIX: Final = "kubernetes.authorization."
AUTHORIZER_TYPE: Final = types.struct(_PREFIX + "Authorizer")
"""Type of the variable `authorizer`."""
_PATH: Final = types.struct(_PREFIX + "PathCheck")
_GROUP: Final = types.struct(_PREFIX + "GroupCheck")
RESOURCE_CHECK_TYPE: Final = types.struct(_PREFIX + "ResourceCheck")
"""Type of the variable `authorizer.requestResource`."""
_DECISION: Final = types.struct(_PREFIX + "Decision")
_S: Final = types.STRING


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to a check."""

    allowed: bool
    reason: str = ""
    error: str = ""


class Authority(Protocol):
    """Who decides, for one user."""

    def check_path(self, path: str, verb: str) -> Decision:
        """A non-resource path; the verb is that of HTTP in lower case."""

    def check_resource(self, check: ResourceCheck, verb: str) -> Decision:
        """A resource."""

    def service_account(self, namespace: str, name: str) -> Authority:
        """The same authority, asked about a service account."""


@dataclass(frozen=True, slots=True)
class Authorizer:
    """The value of `authorizer`."""

    authority: Authority


@dataclass(frozen=True, slots=True)
class PathCheck:
    """`authorizer.path(...)`."""

    authority: Authority
    path: str


@dataclass(frozen=True, slots=True)
class GroupCheck:
    """`authorizer.group(...)`."""

    authority: Authority
    group: str


@dataclass(frozen=True, slots=True)
class ResourceCheck:
    """`authorizer.group(...).resource(...)` with what narrows it."""

    authority: Authority
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""


for _class, _type, _go in (
    (Authorizer, AUTHORIZER_TYPE, "library.authorizerVal"),
    (PathCheck, _PATH, "library.pathCheckVal"),
    (GroupCheck, _GROUP, "library.groupCheckVal"),
    (ResourceCheck, RESOURCE_CHECK_TYPE, "library.resourceCheckVal"),
    (Decision, _DECISION, "library.decisionVal"),
):
    RUNTIME_TYPES[_class] = _type
    GO_NAMES[_class] = _go
    # Upstream compares with what they have in common, which none of them is.
    EQUALITY[_class] = lambda left, right: None


def _path(authorizer: Authorizer, path: str) -> PathCheck:
    if not path.strip():
        raise EvalError("path must not be empty")
    return PathCheck(authorizer.authority, path)


def _service_account(authorizer: Authorizer, namespace: str, name: str) -> Authorizer:
    if dns_subdomain_problems(name):
        raise EvalError("Invalid service account name")
    if dns_label_problems(namespace):
        raise EvalError("Invalid service account namespace")
    return Authorizer(authorizer.authority.service_account(namespace, name))


def _resource(group: GroupCheck, resource: str) -> ResourceCheck:
    if not resource.strip():
        raise EvalError("resource must not be empty")
    return ResourceCheck(group.authority, group.group, resource)


def _narrowing(field: str) -> Any:
    return lambda check, value: replace(check, **{field: value})


def _member(name: str, id: str, result: Type, call: Any, *parameters: Type) -> Function:
    return Function(name, (Overload(id, parameters, result, True, call),))


def _narrows(name: str, id: str, field: str) -> Function:
    return _member(name, id, RESOURCE_CHECK_TYPE, _narrowing(field), RESOURCE_CHECK_TYPE, _S)


AUTHORIZATION: Final = library(
    _member("path", "authorizer_path", _PATH, _path, AUTHORIZER_TYPE, _S),
    _member(
        "group",
        "authorizer_group",
        _GROUP,
        lambda authorizer, group: GroupCheck(authorizer.authority, group),
        AUTHORIZER_TYPE,
        _S,
    ),
    _member(
        "serviceAccount",
        "authorizer_serviceaccount",
        AUTHORIZER_TYPE,
        _service_account,
        AUTHORIZER_TYPE,
        _S,
        _S,
    ),
    _member("resource", "groupcheck_resource", RESOURCE_CHECK_TYPE, _resource, _GROUP, _S),
    _narrows("subresource", "resourcecheck_subresource", "subresource"),
    _narrows("namespace", "resourcecheck_namespace", "namespace"),
    _narrows("name", "resourcecheck_name", "name"),
    _member(
        "check",
        "pathcheck_check",
        _DECISION,
        lambda check, verb: check.authority.check_path(check.path, verb),
        _PATH,
        _S,
    ),
    _member(
        "check",
        "resourcecheck_check",
        _DECISION,
        lambda check, verb: check.authority.check_resource(check, verb),
        RESOURCE_CHECK_TYPE,
        _S,
    ),
    _member("errored", "decision_errored", types.BOOL, lambda decision: bool(decision.error), _DECISION),
    _member("error", "decision_error", _S, lambda decision: decision.error, _DECISION),
    _member("allowed", "decision_allowed", types.BOOL, lambda decision: decision.allowed, _DECISION),
    _member("reason", "decision_reason", _S, lambda decision: decision.reason, _DECISION),
    _narrows("fieldSelector", "authorizer_fieldselector", "field_selector"),
    _narrows("labelSelector", "authorizer_labelselector", "label_selector"),
)
"""Functions of the authorizer."""
