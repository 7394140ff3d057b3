"""The subresource `scale` of deployments, replicasets and statefulsets (api-machinery section 13)."""

from __future__ import annotations

from typing import Any, Final

from clusters.api_status import ApiError, bad_request, conflict, invalid, not_found
from clusters.embedded.apiserver import codec, negotiation, writer
from clusters.embedded.apiserver.call import Call, Reply
from clusters.embedded.apiserver.copying import copied
from clusters.embedded.apiserver.handlers.write import check_name, patch_type, patched, write_options
from clusters.embedded.apiserver.options import WriteOptions
from clusters.embedded.apiserver.patching.bodies import APPLY_PATCH, read_patch
from clusters.embedded.apiserver.resources import Resource, Served
from clusters.embedded.apiserver.storage import Object
from dra_api.label_selector import format_selector
from dra_api.schema import GVK
from dra_api.validation.workloads import validate_scale

_GVK: Final = GVK("autoscaling", "v1", "Scale")
# Only tables look at it.
SCALE: Final = Served(Resource("autoscaling", "scales", "Scale", True), "v1")
_SHARED_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(obj: Object) -> Object:
    """The Scale that stands for a workload."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    metadata = obj["metadata"]
    replicas = spec.get("replicas") or 0
    current: dict[str, Any] = {"replicas": status.get("replicas") or 0}
    selector = format_selector(spec.get("selector"))
    if selector:
        current["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in _SHARED_METADATA if key in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": current,
    }


def _stored(call: Call, served: Served) -> Object:
    resource, name = served.resource, call.info.name
    obj = call.api.store.get(*resource.key, call.info.namespace, name)
    if obj is None:
        raise not_found(resource.plural, resource.group, name)
    return obj


def get(call: Call, served: Served) -> Reply:
    """GET of a Scale."""
    return Reply(scale_of(_stored(call, served)), served=SCALE)


def replace(call: Call, served: Served) -> Reply:
    """PUT of a Scale."""
    chosen = write_options(call, "UpdateOptions")
    media_type = negotiation.body_type(call.headers.get("Content-Type"))
    scale = codec.decode_body(
        call.body, media_type, _GVK, validation=chosen.field_validation, warnings=call.warnings
    )
    scale.setdefault("metadata", {})
    check_name(scale, call.info.name)
    return _write(call, served, scale, chosen)


def patch(call: Call, served: Served) -> Reply:
    """PATCH of a Scale with any type but apply."""
    media_type = patch_type(call)
    if media_type == APPLY_PATCH:
        # Ownership of spec.replicas would have to move between two kinds.
        message = "415: Unsupported Media Type"
        raise ApiError(415, "UnsupportedMediaType", message, {})
    chosen = write_options(call, "PatchOptions")
    body = read_patch(media_type, call.body)
    live = scale_of(_stored(call, served))
    return _write(call, served, patched(call, _GVK, media_type, body, live, chosen), chosen)


def _write(call: Call, served: Served, scale: Object, chosen: WriteOptions) -> Reply:
    resource, name = served.resource, call.info.name
    namespace = scale["metadata"].get("namespace")
    if namespace and namespace != call.info.namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    errors = validate_scale(scale)
    if errors:
        raise invalid("Scale", "autoscaling", name, errors)
    uid, revision = (scale["metadata"].get(key) or "" for key in ("uid", "resourceVersion"))

    def compute(old: Object) -> Object:
        if uid and uid != old["metadata"]["uid"]:
            why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old['metadata']['uid']}"
            raise conflict(resource.plural, resource.group, name, why)
        new: Object = copied(old)
        new["metadata"]["resourceVersion"] = revision
        new["spec"]["replicas"] = (scale.get("spec") or {}).get("replicas") or 0
        return new

    stored = writer.update(call, served, name, compute, chosen)
    return Reply(scale_of(stored), served=SCALE)
