"""Create and update: from a decoded object to the stored one (api-machinery sections 5 to 7).

The stages keep the order of a real server: defaults, field management, mutating admission, the kind's strategy,
validation, validating admission, storage. What admission sets is therefore owned by nobody.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Final

from clusters.api_status import ApiError, bad_request, conflict, invalid, not_found
from clusters.chance import name_suffix
from clusters.embedded.apiserver.admission.request import Request
from clusters.embedded.apiserver.auth import escalation
from clusters.embedded.apiserver.call import Call, gvk_of, moment
from clusters.embedded.apiserver.copying import copied
from clusters.embedded.apiserver.options import WriteOptions, parse_revision
from clusters.embedded.apiserver.patching import manager
from clusters.embedded.apiserver.patching.reset import reset_fields
from clusters.embedded.apiserver.resources import Served
from clusters.embedded.apiserver.storage import ExistsError, Object
from clusters.embedded.apiserver.strategies.base import Strategy, Write, restore
from clusters.embedded.apiserver.strategies.core import prepare_finalize
from clusters.embedded.apiserver.strategies.table import strategy_of
from clusters.embedded.apiserver.times import timestamp
from clusters.embedded.apiserver.uids import check_uid_kept
from clusters.embedded.apiserver.views import from_storage, to_storage
from dra_api import conversion
from dra_api.decode import as_stored, settled
from dra_api.errors import FieldError
from dra_api.validation.core import name_rule, validate_finalize
from dra_api.validation.metadata import validate_object_meta, validate_object_meta_update

_MAX_NAME_ATTEMPTS: Final = 8
_PREFIX_LENGTH: Final = 58
_RBAC: Final = "rbac.authorization.k8s.io"
# The order in which a server prints the metadata of an object.
_METADATA_ORDER: Final = (
    "name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences", "finalizers",
    "managedFields",
)  # fmt: skip
_DROPPED: Final = ("selfLink", "deletionTimestamp", "deletionGracePeriodSeconds")

Compute = Callable[[Object], Object]
"""Makes the new object out of the stored one, both in the version of the request."""


def _converter(served: Served) -> Callable[[Object, str], Object] | None:
    """What carries managed fields over between versions; None for kinds with one version."""
    return conversion.convert if len(served.resource.versions) > 1 else None


def _track(call: Call, served: Served, live: Object | None, new: Object, options: WriteOptions) -> Object:
    """The new object (in the storage version) with its managedFields after an update by `options`' manager."""
    subresource = call.info.subresource
    has_status = served.resource.subresource("status") is not None
    view = manager.update_fields(
        from_storage(live, served) if live is not None else None,
        from_storage(new, served),
        gvk=gvk_of(served),
        manager=options.field_manager,
        now=moment(call.api.now()),
        subresource=subresource,
        reset=reset_fields(served.resource.group, served.resource.plural, subresource, has_status=has_status),
        convert=_converter(served),
        dry_run=bool(options.dry_run),
    )
    # Not copied: entries that stay are recognised by their identity.
    entries = view["metadata"].get("managedFields")
    if entries is None:
        new["metadata"].pop("managedFields", None)
    else:
        new["metadata"]["managedFields"] = entries
    return new


def admission_request(
    call: Call,
    served: Served,
    operation: str,
    name: str,
    new: Object | None,
    old: Object | None,
    options: Any,
) -> Request:
    """What the admission plugins see; objects are in the storage version."""
    resource = served.resource
    dry_run = bool(options.dry_run)
    body = (
        options.body(f"{operation.capitalize()}Options")
        if isinstance(options, WriteOptions)
        else options.body()
    )
    return Request(
        user=call.user,
        operation=operation,
        group=resource.group,
        version=served.version,
        resource=resource.plural,
        subresource=call.info.subresource,
        kind=resource.kind,
        namespace=call.info.namespace if resource.namespaced else "",
        name=name,
        object=new,
        old_object=old,
        dry_run=dry_run,
        options=body,
        warnings=call.warnings,
    )


def check_namespace(served: Served, obj: Object, namespace: str) -> None:
    """Fill in the namespace of the URL; raises ApiError 400 for another one."""
    metadata = obj["metadata"]
    if not served.resource.namespaced:
        metadata.pop("namespace", None)
        return
    given = metadata.get("namespace")
    if given and given != namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    metadata["namespace"] = namespace


def _generated(prefix: str) -> str:
    return prefix[:_PREFIX_LENGTH] + name_suffix()


def _invalid(served: Served, name: str, errors: list[FieldError]) -> ApiError:
    return invalid(served.resource.kind, served.resource.group, name, errors)


def _escalation(call: Call, served: Served, new: Object, old: Object | None) -> None:
    if served.resource.group == _RBAC:
        escalation.check_write(
            call.user, served.resource.plural, new, old, rbac=call.api.rbac, authorizer=call.api.authorizer
        )


def create(
    call: Call,
    served: Served,
    obj: Object,
    options: WriteOptions,
    *,
    managed: bool = True,
    ignore_revision: bool = False,
) -> Object:
    """Store a new object given in the version of the request; returns the stored form.

    `managed` False: the managedFields of `obj` are final (it comes from an apply). `ignore_revision`: a
    resourceVersion in the body is dropped (create by PUT or apply) instead of refused.
    """
    resource = served.resource
    strategy = strategy_of(resource)
    strategy.default(obj, call.api.now())
    new = to_storage(obj, served)
    metadata = new.setdefault("metadata", {})
    check_namespace(served, new, call.info.namespace)
    revision = metadata.pop("resourceVersion", "")
    if revision not in ("", "0") and not ignore_revision:
        raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
    for name in _DROPPED:
        metadata.pop(name, None)
    write = call.write("create", served)
    metadata["uid"] = str(uuid.uuid4())
    metadata["creationTimestamp"] = timestamp(write.now)
    if managed:
        new = _track(call, served, None, new, options)
    new = settled(new)
    request = admission_request(call, served, "CREATE", metadata.get("name", ""), new, None, options)
    call.api.admission.mutate(request)
    new = request.object if request.object is not None else new
    _escalation(call, served, new, None)
    generate = not new["metadata"].get("name") and new["metadata"].get("generateName")
    for attempt in range(_MAX_NAME_ATTEMPTS):
        candidate = copied(new) if generate else new
        if generate:
            candidate["metadata"]["name"] = _generated(new["metadata"]["generateName"])
        try:
            stored = _store_new(call, served, strategy, candidate, request, write, options)
            if options.dry_run and revision:
                # Storage, which is left out, is what drops it.
                stored["metadata"]["resourceVersion"] = revision
            return stored
        except ExistsError:
            if not generate or attempt == _MAX_NAME_ATTEMPTS - 1:
                raise _already_exists(call, served, candidate["metadata"]) from None
    raise AssertionError("the loop above returns or raises")


def _already_exists(call: Call, served: Served, metadata: Object) -> ApiError:
    """409; that the server made the name up is said of every object with generateName."""
    resource, name = served.resource, metadata["name"]
    details: dict[str, Any] = {"name": name}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.plural
    message = f'{resource.qualified} "{name}" already exists'
    headers = {}
    if metadata.get("generateName"):
        message += ", the server was not able to generate a unique name for the object"
        details["retryAfterSeconds"] = 1
        headers["Retry-After"] = "1"
    stored = call.api.store.get(*resource.key, metadata.get("namespace", ""), name)
    if stored is not None and "deletionTimestamp" in stored["metadata"]:
        message = f"object is being deleted: {message}"
    return ApiError(409, "AlreadyExists", message, details, headers)


def _ordered(obj: Object) -> Object:
    """The object with its type, its metadata and what follows in the order of a real server."""
    metadata = obj["metadata"]
    ordered = {key: metadata[key] for key in _METADATA_ORDER if key in metadata}
    return {"kind": obj["kind"], "apiVersion": obj["apiVersion"], "metadata": ordered} | {
        key: value for key, value in obj.items() if key not in ("kind", "apiVersion", "metadata")
    }


def _store_new(
    call: Call,
    served: Served,
    strategy: Strategy,
    new: Object,
    request: Request,
    write: Write,
    options: WriteOptions,
) -> Object:
    resource = served.resource
    strategy.prepare_create(new, write)
    warned = len(write.warnings)
    errors = strategy.validate_create(new, write)
    if not strategy.validates_metadata:
        errors = [*validate_object_meta(new, resource.namespaced, name_rule(resource.kind)), *errors]
    name = new["metadata"].get("name", "")
    if errors:
        del write.warnings[warned:]
        raise _invalid(served, name, errors)
    request.name, request.object = name, new
    call.api.admission.validate(request)
    new = _ordered(as_stored({**new, "metadata": {**new["metadata"], "resourceVersion": ""}}))
    metadata = new["metadata"]
    if options.dry_run:
        if call.api.store.get(*resource.key, metadata.get("namespace", ""), name) is not None:
            raise ExistsError(name)
        del new["metadata"]["resourceVersion"]
        return new
    return call.api.store.create(resource.key, new)


def update(
    call: Call,
    served: Served,
    name: str,
    compute: Compute,
    options: WriteOptions,
    *,
    managed: bool = True,
    check_uid: bool = False,
) -> Object:
    """Change a stored object; returns the stored form. Raises ApiError 404 when there is none.

    `managed` False: `compute` has set managedFields itself (apply). `check_uid`: another uid in the new object is
    a conflict (PUT), not an invalid change (PATCH).
    """
    resource, store = served.resource, call.api.store
    namespace = call.info.namespace if resource.namespaced else ""
    old = store.get(*resource.key, namespace, name)
    if old is None:
        raise not_found(resource.plural, resource.group, name)
    strategy = strategy_of(resource)
    computed = compute(from_storage(old, served))
    strategy.default(computed, call.api.now())
    new = to_storage(computed, served)
    new.setdefault("metadata", {})
    check_namespace(served, new, namespace)
    if check_uid:
        check_uid_kept(served, new, old, name, dry_run=options.dry_run)
    _check_revision(served, new, old, name)
    if managed:
        new = _track(call, served, old, new, options)
    new = settled(new)
    request = admission_request(call, served, "UPDATE", name, new, old, options)
    call.api.admission.mutate(request)
    new = request.object if request.object is not None else new
    _escalation(call, served, new, old)
    write = call.write(call.info.verb, served)
    _keep_system_fields(new, old)
    warned = len(write.warnings)
    errors = _prepared(call, served, strategy, new, old, write)
    if errors:
        del write.warnings[warned:]
        raise _invalid(served, name, errors)
    request.object = new
    call.api.admission.validate(request)
    return _store_changed(call, served, new, old, dry_run=options.dry_run)


def _check_revision(served: Served, new: Object, old: Object, name: str) -> None:
    revision = new["metadata"].get("resourceVersion", "")
    if revision in ("", "0"):
        if not served.resource.allows_unconditional(served.version):
            error = FieldError("Invalid", "metadata.resourceVersion", "must be specified for an update", 0)
            raise invalid(served.resource.plural, served.resource.group, name, [error])
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        return
    try:
        asked = parse_revision(revision)
    except ValueError as error:
        raise ApiError(500, "", str(error)) from error
    if asked != int(old["metadata"]["resourceVersion"]):
        why = "the object has been modified; please apply your changes to the latest version and try again"
        raise conflict(served.resource.plural, served.resource.group, name, why)
    new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]


def _keep_system_fields(new: Object, old: Object) -> None:
    metadata, before = new["metadata"], old["metadata"]
    for key in ("generation", "creationTimestamp"):
        restore(metadata, before, key)
    if "deletionTimestamp" in before:
        restore(metadata, before, "deletionTimestamp")
    if "deletionGracePeriodSeconds" in before or "deletionTimestamp" not in metadata:
        restore(metadata, before, "deletionGracePeriodSeconds")
    if not metadata.get("uid"):
        metadata["uid"] = before["uid"]
    metadata.pop("selfLink", None)


def _prepared(
    call: Call, served: Served, strategy: Strategy, new: Object, old: Object, write: Write
) -> list[FieldError]:
    """Prepare for the endpoint in use; returns the problems."""
    subresource = call.info.subresource
    if subresource == "status":
        strategy.prepare_status(new, old, write)
        errors = strategy.validate_status(new, old, write)
    elif subresource == "finalize":
        prepare_finalize(new, old)
        errors = validate_finalize(new)
    else:
        strategy.prepare_update(new, old, write)
        errors = strategy.validate_update(new, old, write)
    if strategy.validates_metadata:
        return errors
    own = validate_object_meta(new, served.resource.namespaced, name_rule(served.resource.kind))
    return [*own, *validate_object_meta_update(new, old), *errors]


def _store_changed(call: Call, served: Served, new: Object, old: Object, *, dry_run: bool) -> Object:
    resource, store = served.resource, call.api.store
    new = _ordered(manager.restore_times(old, as_stored(new)))
    metadata = new["metadata"]
    if _gone(served, new, old):
        if not dry_run:
            store.delete(resource.key, metadata.get("namespace", ""), metadata["name"])
        return new
    if new == old:
        return old
    if dry_run:
        return new
    return store.update(resource.key, new)


def _gone(served: Served, new: Object, old: Object) -> bool:
    """Whether the last finalizer left an object that is being deleted."""
    metadata = new["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if served.resource.plural == "namespaces" and not served.resource.group:
        return not (new.get("spec") or {}).get("finalizers")
    if not old["metadata"].get("finalizers"):
        return False
    return not metadata.get("deletionGracePeriodSeconds")
