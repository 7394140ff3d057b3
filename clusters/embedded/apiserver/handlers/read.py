"""GET of one object and of lists (api-machinery section 10)."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

from clusters.api_status import ApiError, bad_request, not_found
from clusters.embedded.apiserver import options as request_options
from clusters.embedded.apiserver import selectors
from clusters.embedded.apiserver.call import Call, Reply
from clusters.embedded.apiserver.options import ListOptions
from clusters.embedded.apiserver.resources import Served
from clusters.embedded.apiserver.storage import ExpiredError, Object, Predicate
from clusters.embedded.apiserver.views import from_storage

_FUTURE_WAIT: Final = 3.0
_TOO_OLD: Final = "The resourceVersion for the provided list is too old."
_CONTINUE_TOO_OLD: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
    "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
    "modified, or deleted between the time the first chunk was returned and now may show up in the list."
)


async def get(call: Call, served: Served) -> Reply:
    """One object; the subresource `status` shows the whole object too."""
    resource, name = served.resource, call.info.name
    revision = call.query.get("resourceVersion", "")
    if revision:
        try:
            asked = request_options.parse_revision(revision)
        except ValueError as error:
            raise ApiError(500, "", str(error)) from error
        await wait_for(call, asked)
    namespace = call.info.namespace if resource.namespaced else ""
    obj = call.api.store.get(*resource.key, namespace, name)
    if obj is None:
        raise not_found(resource.plural, resource.group, name)
    return Reply(from_storage(obj, served), served=served)


async def wait_for(call: Call, revision: int) -> None:
    """Wait for a revision that the store has not reached; raises ApiError 504 when it does not come."""
    if not await call.api.store.reached(revision, _FUTURE_WAIT):
        raise request_options.too_large_revision(revision, call.api.store.revision)


def predicate(served: Served, options: ListOptions) -> Predicate | None:
    """What label and field selector demand together, None without either; raises ApiError 400."""
    labels = selectors.parse_labels(options.label_selector)
    terms = selectors.parse_fields(options.field_selector)
    if not labels.terms and not terms:
        return None
    getters = {term.field: served.resource.field_getter(term.field, served.version)[1] for term in terms}
    fields = selectors.compile_fields(terms, getters)

    def matches(obj: Object) -> bool:
        return labels.matches(obj["metadata"].get("labels")) and fields(obj)

    return matches


def indexed_term(served: Served, options: ListOptions) -> tuple[str, str] | None:
    """A field which the store indexes, and the value that the selector demands of it."""
    for term in selectors.parse_fields(options.field_selector):
        name = served.resource.field_aliases.get(term.field, term.field)
        if term.operator == "=" and name in served.resource.indexed:
            return name, term.value
    return None


def _encode_continue(revision: int, start: str) -> str:
    token = json.dumps(
        {"v": "meta.k8s.io/v1", "rv": revision, "start": f"/{start}\x00"}, separators=(",", ":")
    )
    return base64.urlsafe_b64encode(token.encode()).rstrip(b"=").decode()


def _decode_continue(text: str) -> tuple[int, str]:
    """Revision (-1: whatever is current) and the key after which the list goes on; raises ApiError 400."""
    try:
        token = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        revision, start = int(token["rv"]), str(token["start"])
        if token["v"] != "meta.k8s.io/v1" or not start.startswith("/"):
            raise ValueError("incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from error
    return revision, start[1:].rstrip("\x00")


def _key(obj: Object) -> str:
    metadata = obj["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else metadata["name"]


async def selected(call: Call, served: Served, options: ListOptions) -> tuple[list[Object], dict[str, Any]]:
    """The stored objects of a list request and the list's metadata."""
    resource, store = served.resource, call.api.store
    matches = predicate(served, options)
    namespace = call.info.namespace if resource.namespaced and call.info.namespace else None
    if call.info.name and not resource.namespaced and resource.plural == "namespaces":
        namespace = None
    # A selector of one namespace makes the first page that namespace's; its token, as in a real server, does not
    # say so, and the next page begins at that key of all namespaces.
    scope = namespace or _only_namespace(served, options)
    revision, after, exact = store.revision, "", False
    if options.continue_token:
        if options.resource_version not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        at, after = _decode_continue(options.continue_token)
        after = f"{scope}/{after}" if scope else after
        if at >= 0:
            revision, exact = at, True
    elif options.resource_version:
        try:
            asked = request_options.parse_revision(options.resource_version)
        except ValueError as error:
            raise bad_request(f"invalid resource version: {error}") from error
        await wait_for(call, asked)
        revision = store.revision
        pages = options.limit and not _single(served, options, scope)
        if options.match == "Exact" or (pages and asked and not options.match):
            revision, exact = asked, True
    try:
        if exact and revision != store.revision:
            objects = store.list_at(resource.key, revision, scope)
        elif (term := indexed_term(served, options)) is not None:
            found = store.select(*resource.key, *term)
            objects = sorted(found, key=lambda obj: _key(obj).encode())
            if scope is not None:
                objects = [obj for obj in objects if obj["metadata"].get("namespace") == scope]
        else:
            objects = store.list(*resource.key, scope)
    except ExpiredError as error:
        raise _expired(options, after.removeprefix(f"{scope}/")) from error
    if after:
        objects = [obj for obj in objects if _key(obj).encode() > after.encode()]
    unlimited = options.resource_version == "0" or _single(served, options, scope)
    limit = 0 if unlimited else options.limit
    objects, rest = _page(objects, matches, limit)
    metadata: dict[str, Any] = {"resourceVersion": str(revision)}
    if rest:
        last = objects[-1]["metadata"]["name"] if scope else _key(objects[-1])
        metadata["continue"] = _encode_continue(revision, last)
        if matches is None:
            metadata["remainingItemCount"] = rest
    return objects, metadata


def _page(objects: list[Object], matches: Predicate | None, limit: int) -> tuple[list[Object], int]:
    """The first objects that match, at most `limit` (0: all), and how many objects of any kind come after them."""
    if matches is None:
        return (objects[:limit], max(len(objects) - limit, 0)) if limit else (objects, 0)
    found: list[Object] = []
    for index, obj in enumerate(objects):
        if matches(obj):
            found.append(obj)
            if len(found) == limit:
                # Whether one of the rest matches is not looked at, so the next page may be empty.
                return found, len(objects) - index - 1
    return found, 0


def _single(served: Served, options: ListOptions, namespace: str | None) -> bool:
    """Whether a selector leaves one object at most, which is read by its key."""
    if options.continue_token or (served.resource.namespaced and namespace is None):
        return False
    return _demanded(options, "metadata.name") is not None


def _only_namespace(served: Served, options: ListOptions) -> str | None:
    """The namespace that the field selector of a first page demands."""
    if options.continue_token or not served.resource.namespaced:
        return None
    return _demanded(options, "metadata.namespace") or None


def _demanded(options: ListOptions, field: str) -> str | None:
    terms = selectors.parse_fields(options.field_selector)
    return next((term.value for term in terms if term.field == field and term.operator == "="), None)


def _expired(options: ListOptions, after: str) -> ApiError:
    if not options.continue_token:
        return ApiError(410, "Expired", _TOO_OLD)
    error = ApiError(410, "Expired", _CONTINUE_TOO_OLD)
    error.metadata = {"continue": _encode_continue(-1, after)}
    return error


def bare(obj: Object) -> Object:
    """A list item: the object without its kind and version."""
    return {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}


def list_body(served: Served, objects: list[Object], metadata: dict[str, Any]) -> Object:
    """The list object of stored objects in the version of the request."""
    return {
        "kind": served.resource.list_kind,
        "apiVersion": served.api_version,
        "metadata": metadata,
        "items": [bare(from_storage(obj, served)) for obj in objects],
    }


async def list_objects(call: Call, served: Served) -> Reply:
    """A list request."""
    options = request_options.list_options(call.query, watch=False)
    objects, metadata = await selected(call, served, options)
    return Reply(list_body(served, objects, metadata), kind="list", served=served)
