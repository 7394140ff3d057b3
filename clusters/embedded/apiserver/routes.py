"""From a request to its handler (api-machinery section 1)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from clusters.api_status import ApiError
from clusters.embedded.apiserver import eviction, reviews, scale, subresources
from clusters.embedded.apiserver.call import Call, Reply
from clusters.embedded.apiserver.handlers import delete, read, write
from clusters.embedded.apiserver.resources import Served

Handler = Callable[[Call, Served], Reply | Awaitable[Reply]]

_CONNECT: Final[dict[str, Handler]] = dict.fromkeys(("GET", "POST"), subresources.refuse_connection)
_SUBRESOURCES: Final[dict[tuple[str, str], dict[str, Handler]]] = {
    ("pods", "binding"): {"POST": subresources.bind_pod},
    ("pods", "eviction"): {"POST": eviction.evict_pod},
    **{("pods", name): _CONNECT for name in ("attach", "exec", "portforward")},
    ("serviceaccounts", "token"): {"POST": subresources.create_token},
    ("namespaces", "finalize"): {"PUT": write.replace},
}
_SCALE: Final[dict[str, Handler]] = {
    "GET": scale.get,
    "HEAD": scale.get,
    "PUT": scale.replace,
    "PATCH": scale.patch,
}
_STATUS: Final[dict[str, Handler]] = {
    "GET": read.get,
    "HEAD": read.get,
    "PUT": write.replace,
    "PATCH": write.patch,
}
_OBJECT: Final[dict[str, tuple[str, Handler]]] = {
    "GET": ("get", read.get),
    "HEAD": ("get", read.get),
    "PUT": ("update", write.replace),
    "PATCH": ("patch", write.patch),
    "DELETE": ("delete", delete.delete),
}
_COLLECTION: Final[dict[str, tuple[str, Handler]]] = {
    "GET": ("list", read.list_objects),
    "HEAD": ("list", read.list_objects),
    "POST": ("create", write.create),
    "DELETE": ("deletecollection", delete.delete_collection),
}


def no_such_resource() -> ApiError:
    """404 for a path below a known group version that names nothing."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def method_not_allowed() -> ApiError:
    """405 for a known path."""
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message, {})


def _create_handler(served: Served) -> Handler:
    resource = served.resource
    if resource.plural == "bindings" and not resource.group:
        return subresources.bind_pod
    return reviews.create if len(resource.verbs) == 1 else write.create


def is_log(call: Call, served: Served) -> bool:
    """Whether the request reads a log, which is text and no object."""
    is_pod = not served.resource.group and served.resource.plural == "pods"
    named = len(call.info.parts) == 3 and bool(call.info.namespace)
    if not (is_pod and named and call.info.subresource == "log"):
        return False
    if call.http.method != "GET":
        raise method_not_allowed()
    return True


def find(call: Call, served: Served) -> Handler:
    """The handler of a request on a served resource, watches aside; raises ApiError 404 or 405."""
    info, resource = call.info, served.resource
    is_namespace = not resource.group and resource.plural == "namespaces"
    parts = info.parts
    if len(parts) > 3 or (info.namespace and not resource.namespaced and not is_namespace):
        raise no_such_resource()
    if len(parts) > 1 and resource.namespaced and not info.namespace:
        raise no_such_resource()
    if len(parts) == 3:
        return _subresource(call, served, parts[2])
    method = call.http.method
    table = _OBJECT if len(parts) == 2 else _COLLECTION
    verb, handler = table.get(method, ("", write.create))
    if not verb or verb not in resource.verbs:
        raise method_not_allowed()
    if verb in ("create", "deletecollection") and resource.namespaced and not info.namespace:
        raise method_not_allowed()
    return _create_handler(served) if verb == "create" else handler


def _subresource(call: Call, served: Served, name: str) -> Handler:
    resource = served.resource
    if resource.subresource(name) is None:
        raise no_such_resource()
    everywhere = {"status": _STATUS, "scale": _SCALE}
    handlers = everywhere.get(name) or _SUBRESOURCES[resource.plural, name]
    handler = handlers.get(call.http.method)
    if handler is None:
        raise method_not_allowed()
    return handler
