"""POST, PUT and PATCH (api-machinery sections 5 to 8)."""

from __future__ import annotations

from clusters.api_status import ApiError, bad_request, conflict
from clusters.embedded.apiserver import codec, negotiation, options, writer
from clusters.embedded.apiserver.call import Call, Reply, gvk_of, moment
from clusters.embedded.apiserver.options import WriteOptions
from clusters.embedded.apiserver.patching import manager
from clusters.embedded.apiserver.patching.bodies import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    PATCH_TYPES,
    Body,
    read_patch,
    strict_detail,
    strict_text,
    unfit,
)
from clusters.embedded.apiserver.patching.json_patch import json_patch
from clusters.embedded.apiserver.patching.merge_patch import merge_patch
from clusters.embedded.apiserver.patching.reset import reset_fields
from clusters.embedded.apiserver.patching.shapes import shape_of
from clusters.embedded.apiserver.patching.strategic import strategic_merge
from clusters.embedded.apiserver.resources import Served
from clusters.embedded.apiserver.storage import Object
from clusters.embedded.apiserver.uids import check_absent_uid
from clusters.embedded.apiserver.views import from_storage
from dra_api import conversion, decode
from dra_api.schema import GVK, load


def write_options(call: Call, kind: str, *, apply: bool = False) -> WriteOptions:
    """The options of this request."""
    return options.write_options(call.query, call.dry_run, call.user_agent, kind, apply=apply)


def decode_object(call: Call, served: Served, chosen: WriteOptions) -> Object:
    """The body as an object of the URL's kind."""
    media_type = negotiation.body_type(call.headers.get("Content-Type"))
    obj = codec.decode_body(
        call.body, media_type, gvk_of(served), validation=chosen.field_validation, warnings=call.warnings
    )
    obj.setdefault("metadata", {})
    return obj


def create(call: Call, served: Served) -> Reply:
    """POST of a collection."""
    chosen = write_options(call, "CreateOptions")
    obj = decode_object(call, served, chosen)
    stored = writer.create(call, served, obj, chosen)
    return Reply(from_storage(stored, served), 201, served=served)


def check_name(obj: Object, name: str) -> None:
    """The name in the body must be that of the URL; raises ApiError 400."""
    given = obj["metadata"].get("name", "")
    if not given:
        raise bad_request(
            f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )
    if given != name:
        raise bad_request(f"the name of the object ({given}) does not match the name on the URL ({name})")


def replace(call: Call, served: Served) -> Reply:
    """PUT of an object or of a subresource that shows the whole object."""
    chosen = write_options(call, "UpdateOptions")
    obj = decode_object(call, served, chosen)
    name = call.info.name
    check_name(obj, name)
    resource = served.resource
    namespace = call.info.namespace if resource.namespaced else ""
    missing = call.api.store.get(*resource.key, namespace, name) is None
    if missing and resource.create_on_update and not call.info.subresource:
        call.require("create", served, namespace, name)
        check_absent_uid(served, obj, namespace, name, dry_run=chosen.dry_run)
        stored = writer.create(call, served, obj, chosen, ignore_revision=True)
        return Reply(from_storage(stored, served), 201, served=served)
    stored = writer.update(call, served, name, lambda _: obj, chosen, check_uid=True)
    return Reply(from_storage(stored, served), served=served)


def patch_type(call: Call) -> str:
    """The Content-Type of a patch; raises ApiError 415."""
    media_type = call.headers.get("Content-Type", "").split(";")[0].strip().lower()
    if media_type not in PATCH_TYPES:
        raise ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    return media_type


def patched(call: Call, gvk: GVK, media_type: str, patch: Body, live: Object, chosen: WriteOptions) -> Object:
    """The live object of a kind with a patch that is no apply, decoded again."""
    if media_type == JSON_PATCH:
        value = json_patch(live, patch.value)
    elif media_type == MERGE_PATCH:
        value = merge_patch(live, patch.value)
    else:
        message = load().kind(gvk)
        if message is None:
            raise LookupError(f"no schema for {gvk}")
        value = strategic_merge(shape_of(message), live, patch.value)
    try:
        decoded = decode.decode_object(value, gvk)
    except decode.DecodeError as error:
        raise unfit(media_type, patch.value, value, error.message, live) from error
    findings = [*patch.findings, *decoded.strict]
    if findings and chosen.field_validation == "Strict":
        raise unfit(media_type, patch.value, value, strict_detail(findings), live)
    if chosen.field_validation == "Warn":
        call.warnings.extend(findings)
    obj = decoded.object
    obj.setdefault("metadata", {})
    check_name(obj, call.info.name)
    return obj


def patch(call: Call, served: Served) -> Reply:
    """PATCH of any of the four types."""
    media_type = patch_type(call)
    apply = media_type == APPLY_PATCH
    chosen = write_options(call, "PatchOptions", apply=apply)
    if apply:
        return _apply(call, served, chosen)
    body = read_patch(media_type, call.body)
    stored = writer.update(
        call,
        served,
        call.info.name,
        lambda live: patched(call, gvk_of(served), media_type, body, live, chosen),
        chosen,
    )
    return Reply(from_storage(stored, served), served=served)


def _apply(call: Call, served: Served, chosen: WriteOptions) -> Reply:
    resource, info = served.resource, call.info
    body = read_patch(APPLY_PATCH, call.body)
    config = body.value
    metadata = config.get("metadata") if isinstance(config.get("metadata"), dict) else {}
    namespace = info.namespace if resource.namespaced else ""
    live = call.api.store.get(*resource.key, namespace, info.name)
    gvk = gvk_of(served)
    has_status = resource.subresource("status") is not None
    reset = reset_fields(resource.group, resource.plural, info.subresource, has_status=has_status)

    def compute(before: Object | None) -> Object:
        result = manager.apply(
            before,
            config,
            gvk=gvk,
            manager=chosen.field_manager,
            now=moment(call.api.now()),
            force=chosen.force,
            subresource=info.subresource,
            reset=reset,
            convert=conversion.convert if len(resource.versions) > 1 else None,
            dry_run=bool(chosen.dry_run),
        )
        if body.findings and chosen.field_validation == "Strict":
            raise bad_request("error strict decoding patch: " + strict_text(body.findings))
        obj = codec.canonical(result, gvk, validation="Ignore")
        obj.setdefault("metadata", {})
        check_name(obj, info.name)
        return obj

    if body.findings and chosen.field_validation == "Warn":
        call.warnings.append(strict_text(body.findings))
    if live is not None or info.subresource:
        stored = writer.update(call, served, info.name, compute, chosen, managed=False)
        return Reply(from_storage(stored, served), served=served)
    call.require("create", served, namespace, info.name)
    uid = (metadata or {}).get("uid")
    if uid:
        why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise conflict(resource.plural, resource.group, info.name, why)
    stored = writer.create(call, served, compute(None), chosen, managed=False, ignore_revision=True)
    return Reply(from_storage(stored, served), 201, served=served)
