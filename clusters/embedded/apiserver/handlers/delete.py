"""DELETE of one object and of collections (api-machinery section 9)."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import Any, Final

from clusters.api_status import ApiError, conflict, not_found
from clusters.embedded.apiserver import codec, negotiation
from clusters.embedded.apiserver import options as request_options
from clusters.embedded.apiserver.call import Call, Reply
from clusters.embedded.apiserver.copying import copied
from clusters.embedded.apiserver.handlers.read import list_body, selected
from clusters.embedded.apiserver.options import DeleteOptions
from clusters.embedded.apiserver.resources import Served
from clusters.embedded.apiserver.storage import Object
from clusters.embedded.apiserver.times import parse, timestamp
from clusters.embedded.apiserver.views import empty, from_storage
from clusters.embedded.apiserver.writer import admission_request
from dra_api.schema import GVK

ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
_DEFAULT_GRACE: Final = 30
_NOTHING: Final[Object] = {}


def delete_options(call: Call) -> DeleteOptions:
    """The options of a DELETE: from the body if there is one, else from the query."""
    if not call.body:
        return request_options.delete_options_of_query(call.query, call.dry_run)
    media_type = negotiation.body_type(call.headers.get("Content-Type"))
    # Clients name this kind in the version meta.k8s.io/v1, v1 or that of the resource: all mean the same.
    body = codec.decode_options(call.body, media_type, GVK("", "v1", "DeleteOptions"))
    return request_options.delete_options_of_body(body)


def check_preconditions(served: Served, obj: Object, options: DeleteOptions) -> None:
    """Raise ApiError 409 for another uid or revision than the options name."""
    metadata, resource = obj["metadata"], served.resource
    pairs = (
        ("UID", options.uid, metadata["uid"], "The object might have been deleted and then recreated"),
        ("ResourceVersion", options.resource_version, metadata["resourceVersion"],
         "The object might have been modified"),
    )  # fmt: skip
    for what, wanted, found, hint in pairs:
        if wanted is not None and wanted != found:
            details: dict[str, Any] = {"name": metadata["name"]}
            if resource.group:
                details["group"] = resource.group
            details["kind"] = resource.kind
            kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
            message = (
                f'Operation cannot be fulfilled on {kind} "{metadata["name"]}": the {what} in the precondition '
                f"({wanted}) does not match the {what} in record ({found}). {hint}"
            )
            raise ApiError(409, "Conflict", message, details)


def _new_finalizers(obj: Object, options: DeleteOptions, *, orphans: bool) -> list[str]:
    """The finalizers after the propagation policy took its place among them.

    `orphans`: the kind leaves dependents alone unless told otherwise.
    """
    finalizers: list[str] = list(obj["metadata"].get("finalizers") or [])
    if obj.get("kind") == "Event":
        return finalizers
    if options.orphan_dependents is not None:
        orphan, foreground = options.orphan_dependents, False
    elif options.policy is not None:
        orphan, foreground = options.policy == "Orphan", options.policy == "Foreground"
    else:
        foreground = FOREGROUND in finalizers and ORPHAN not in finalizers
        orphan = ORPHAN in finalizers or (orphans and not foreground)
    result = [name for name in finalizers if name not in (ORPHAN, FOREGROUND)]
    if orphan:
        result.append(ORPHAN)
    if foreground:
        result.append(FOREGROUND)
    return result if sorted(result) != sorted(finalizers) else finalizers


def _pod_grace(pod: Object, options: DeleteOptions) -> int:
    """Seconds that a pod gets to end."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    grace = options.grace
    if grace is None:
        grace = int(spec.get("terminationGracePeriodSeconds", _DEFAULT_GRACE))
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        grace = 0
    return 1 if grace < 0 else grace


def _bump(metadata: dict[str, Any]) -> None:
    if metadata.get("generation", 0) > 0:
        metadata["generation"] += 1


class _Grace(Enum):
    """How a pod takes one more request to delete it."""

    PENDING = "its end is near enough: nothing changes"
    SET = "it gets a new time to end"
    OVER = "its time is up: it is deleted as other kinds are"


def _graceful(obj: Object, options: DeleteOptions, now: float) -> tuple[_Grace, int]:
    """Give a copy of a pod its deletion time; returns what that comes to, and the grace in force."""
    metadata = obj["metadata"]
    if "deletionTimestamp" not in metadata:
        grace = _pod_grace(obj, options)
        metadata["deletionTimestamp"] = timestamp(now + grace)
        metadata["deletionGracePeriodSeconds"] = grace
        _bump(metadata)
        return _Grace.SET, grace
    current = metadata.get("deletionGracePeriodSeconds", 0)
    if current == 0:
        return _Grace.OVER, 0
    wanted = current if options.grace is None else 1 if options.grace < 0 else options.grace
    if wanted >= current:
        return _Grace.PENDING, current
    end = parse(metadata["deletionTimestamp"]) - current + wanted
    if end < now:
        # Somebody still has to see that it ends, unless it is to be gone at once.
        end, wanted = now, min(wanted, 1)
    metadata["deletionTimestamp"] = timestamp(end)
    metadata["deletionGracePeriodSeconds"] = wanted
    return _Grace.SET, wanted


def _mark(obj: Object, now: float) -> None:
    """Mark a copy of an object that waits for its finalizers."""
    metadata = obj["metadata"]
    if "deletionTimestamp" not in metadata:
        metadata["deletionTimestamp"] = timestamp(now)
        _bump(metadata)
    metadata["deletionGracePeriodSeconds"] = 0


def _delete_namespace(call: Call, served: Served, old: Object, options: DeleteOptions) -> tuple[Object, bool]:
    store = call.api.store
    name = old["metadata"]["name"]
    spec_finalizers = (old.get("spec") or {}).get("finalizers")
    if "deletionTimestamp" not in old["metadata"]:
        new = copied(old)
        new["metadata"]["deletionTimestamp"] = timestamp(call.api.now())
        new.setdefault("status", {})["phase"] = "Terminating"
        finalizers = _new_finalizers(old, options, orphans=served.resource.orphans)
        if finalizers:
            new["metadata"]["finalizers"] = finalizers
        return (new if options.dry_run else store.update(served.resource.key, new)), False
    if spec_finalizers or old["metadata"].get("finalizers"):
        return old, False
    if options.dry_run:
        return old, True
    return store.delete(served.resource.key, "", name), True


def _lost_revision(served: Served, metadata: dict[str, Any]) -> ApiError:
    """409: a real server forgets the revision asked for where a policy has taken the last finalizer away."""
    place = "/".join(filter(None, (served.resource.plural, metadata.get("namespace"), metadata["name"])))
    why = (
        f"StorageError: invalid object, Code: 4, Key: /registry/{place}, ResourceVersion: 0, AdditionalErrorMsg: "
        "Precondition failed: ResourceVersion in precondition: , ResourceVersion in object meta: "
        f"{metadata['resourceVersion']}"
    )
    return conflict(served.resource.plural, served.resource.group, metadata["name"], why)


def _remove(call: Call, served: Served, old: Object, options: DeleteOptions) -> tuple[Object, bool]:
    """Delete or mark a stored object; returns its state and whether it is gone."""
    resource, store, now = served.resource, call.api.store, call.api.now()
    if (resource.group, resource.plural) == ("", "namespaces"):
        return _delete_namespace(call, served, old, options)
    new = copied(old)
    metadata = new["metadata"]
    finalizers = _new_finalizers(old, options, orphans=served.resource.orphans)
    is_pod = (resource.group, resource.plural) == ("", "pods")
    state, grace = _graceful(new, options, now) if is_pod else (_Grace.OVER, 0)
    if state is _Grace.PENDING:
        return old, False
    immediate = not finalizers and grace == 0
    if state is _Grace.OVER and finalizers:
        _mark(new, now)
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)
    if immediate:
        if options.dry_run:
            # A real server that was to update finalizers first has nothing to show of a deletion that is none.
            return (
                (new, True)
                if state is _Grace.SET or not old["metadata"].get("finalizers")
                else (_NOTHING, True)
            )
        if (
            state is _Grace.OVER
            and old["metadata"].get("finalizers")
            and options.resource_version is not None
        ):
            raise _lost_revision(served, old["metadata"])
        if state is _Grace.SET and new != old:
            # As a real server: the mark of the deletion is a write of its own.
            store.update(resource.key, new)
        return store.delete(resource.key, metadata.get("namespace", ""), metadata["name"]), True
    if new == old or options.dry_run:
        return (old if new == old else new), False
    return store.update(resource.key, new), False


def remove(
    call: Call,
    served: Served,
    name: str,
    options: DeleteOptions,
    *,
    admit: bool = True,
    collection: bool = False,
) -> tuple[Object, bool]:
    """Delete an object by name; returns its state and whether it is gone.

    `admit`: ask admission first; `collection`: the request names no object, and admission does not see a name.
    """
    resource = served.resource
    namespace = call.info.namespace if resource.namespaced else ""
    old = call.api.store.get(*resource.key, namespace, name)
    if old is None:
        raise not_found(resource.plural, resource.group, name)
    check_preconditions(served, old, options)
    if admit:
        request = admission_request(call, served, "DELETE", name, None, old, options)
        call.api.admission.mutate(request)
        if collection:
            request.name = ""
        call.api.admission.validate(request)
    return _remove(call, served, old, options)


def delete(call: Call, served: Served) -> Reply:
    """DELETE of one object."""
    options = delete_options(call)
    obj, gone = remove(call, served, call.info.name, options)
    resource = served.resource
    if obj is _NOTHING:
        return Reply(empty(served), served=served)
    # Only those who ask for dependents to go as well, in the old way, are told that it is not done yet.
    code = 202 if not gone and options.orphan_dependents is False else 200
    if not gone or served.version in resource.delete_returns_object:
        return Reply(from_storage(obj, served), code, served=served)
    details: dict[str, Any] = {"name": obj["metadata"]["name"]}
    if resource.group:
        details["group"] = resource.group
    details |= {"kind": resource.plural, "uid": obj["metadata"]["uid"]}
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    return Reply(body, kind="status")


async def delete_collection(call: Call, served: Served) -> Reply:
    """DELETE of all objects that the selectors match; answers with them as they were."""
    options = delete_options(call)
    chosen = request_options.list_options(call.query, watch=False)
    objects, metadata = await selected(call, served, chosen)
    namespace = call.info.namespace
    for obj in objects:
        call.info = replace(call.info, namespace=obj["metadata"].get("namespace", namespace))
        try:
            remove(call, served, obj["metadata"]["name"], options, collection=True)
        except ApiError as error:
            if error.code != 404:
                raise
    return Reply(list_body(served, objects, metadata), kind="list", served=served)
