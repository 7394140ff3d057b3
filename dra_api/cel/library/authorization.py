"""Authorization checks: declared in every environment, but without an authorizer nothing can call them."""

from __future__ import annotations

from typing import Any, Final

from .. import types
from ..declarations import Function, Overload, library
from ..errors import no_such_overload
from ..types import Type

_PREFIX: Final = "kubernetes.authorization."
_AUTHORIZER: Final = types.struct(_PREFIX + "Authorizer")
_PATH: Final = types.struct(_PREFIX + "PathCheck")
_GROUP: Final = types.struct(_PREFIX + "GroupCheck")
_RESOURCE: Final = types.struct(_PREFIX + "ResourceCheck")
_DECISION: Final = types.struct(_PREFIX + "Decision")
_S: Final = types.STRING


def _unreachable(*args: Any) -> Any:
    raise no_such_overload()


def _member(name: str, id: str, result: Type, *parameters: Type) -> Function:
    return Function(name, (Overload(id, parameters, result, True, _unreachable),))


AUTHORIZATION: Final = library(
    _member("path", "authorizer_path", _PATH, _AUTHORIZER, _S),
    _member("group", "authorizer_group", _GROUP, _AUTHORIZER, _S),
    _member("serviceAccount", "authorizer_serviceaccount", _AUTHORIZER, _AUTHORIZER, _S, _S),
    _member("resource", "groupcheck_resource", _RESOURCE, _GROUP, _S),
    _member("subresource", "resourcecheck_subresource", _RESOURCE, _RESOURCE, _S),
    _member("namespace", "resourcecheck_namespace", _RESOURCE, _RESOURCE, _S),
    _member("name", "resourcecheck_name", _RESOURCE, _RESOURCE, _S),
    _member("check", "pathcheck_check", _DECISION, _PATH, _S),
    _member("check", "resourcecheck_check", _DECISION, _RESOURCE, _S),
    _member("errored", "decision_errored", types.BOOL, _DECISION),
    _member("error", "decision_error", _S, _DECISION),
    _member("allowed", "decision_allowed", types.BOOL, _DECISION),
    _member("reason", "decision_reason", _S, _DECISION),
    _member("fieldSelector", "authorizer_fieldselector", _RESOURCE, _RESOURCE, _S),
    _member("labelSelector", "authorizer_labelselector", _RESOURCE, _RESOURCE, _S),
)
"""Functions of the authorizer."""
