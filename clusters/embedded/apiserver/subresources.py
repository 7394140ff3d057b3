"""Subresources that are more than a view of their object (api-machinery section 13)."""

from __future__ import annotations

from typing import Any, Final

from clusters.api_status import ApiError, bad_request, not_found
from clusters.embedded.apiserver import codec, negotiation
from clusters.embedded.apiserver.admission.request import CREATE, Request
from clusters.embedded.apiserver.auth import token_request
from clusters.embedded.apiserver.call import Call, Reply
from clusters.embedded.apiserver.copying import copied
from clusters.embedded.apiserver.handlers.write import write_options
from clusters.embedded.apiserver.options import WriteOptions
from clusters.embedded.apiserver.resources import Served
from clusters.embedded.apiserver.storage import Object, ResourceKey
from clusters.embedded.apiserver.strategies.pod import condition, set_condition
from clusters.embedded.apiserver.times import timestamp
from dra_api.decode import as_json
from dra_api.schema import GVK

SUCCESS: Final = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def body_of(call: Call, gvk: GVK, chosen: WriteOptions) -> Object:
    """The body as an object of a kind; raises ApiError 400."""
    media_type = negotiation.body_type(call.headers.get("Content-Type"))
    obj = as_json(
        codec.decode_body(
            call.body, media_type, gvk, validation=chosen.field_validation, warnings=call.warnings
        )
    )
    obj.setdefault("metadata", {})
    return obj


def admit(call: Call, served: Served, kind: str, name: str, obj: Object, chosen: WriteOptions) -> Object:
    """The object after admission has changed and judged the creation of a subresource."""
    request = Request(
        user=call.user,
        operation=CREATE,
        group=served.resource.group,
        version=served.version,
        resource=served.resource.plural,
        subresource=call.info.subresource,
        kind=kind,
        namespace=call.info.namespace,
        name=name,
        object=obj,
        dry_run=chosen.dry_run,
        options=chosen.body("CreateOptions"),
        warnings=call.warnings,
    )
    call.api.admission.mutate(request)
    call.api.admission.validate(request)
    return request.object if request.object is not None else obj


def create_token(call: Call, served: Served) -> Reply:
    """POST serviceaccounts/NAME/token."""
    chosen = write_options(call, "CreateOptions")
    request = body_of(call, GVK("authentication.k8s.io", "v1", "TokenRequest"), chosen)
    request = admit(call, served, "TokenRequest", call.info.name, request, chosen)
    api = call.api
    answer = token_request.create_token(
        request,
        namespace=call.info.namespace,
        name=call.info.name,
        reader=api.store,
        issuer=api.issuer,
        now=api.now(),
    )
    return Reply(answer, 201, kind="status")


def _conflict(name: str, why: str) -> ApiError:
    details = {"name": name, "kind": "pods/binding"}
    message = f'Operation cannot be fulfilled on pods/binding "{name}": {why}'
    return ApiError(409, "Conflict", message, details)


def bind_pod(call: Call, served: Served) -> Reply:
    """POST pods/NAME/binding, or bindings with the pod's name in the body."""
    chosen = write_options(call, "CreateOptions")
    binding = body_of(call, GVK("", "v1", "Binding"), chosen)
    metadata = binding["metadata"]
    name = call.info.name or metadata.get("name", "")
    if call.info.name and metadata.get("name") and metadata["name"] != call.info.name:
        raise bad_request("name in URL does not match name in Binding object")
    binding = admit(call, served, "Binding", name, binding, chosen)
    target = binding.get("target") or {}
    if target.get("kind") not in (None, "", "Node"):
        kind = target["kind"]
        raise ApiError(
            500, "", f'target.kind: Unsupported value: "{kind}": supported values: "Node", "<empty>"'
        )
    if not target.get("name"):
        raise ApiError(500, "", "target.name: Required value")
    store = call.api.store
    pod = store.get("", "pods", call.info.namespace, name)
    if pod is None:
        raise not_found("pods", "", name)
    _check_bindable(pod, metadata, name)
    if not chosen.dry_run:
        store.update(ResourceKey("", "pods"), _bound(pod, binding, target["name"], timestamp(call.api.now())))
    return Reply(dict(SUCCESS), 201, kind="status")


def _check_bindable(pod: Object, wanted: dict[str, Any], name: str) -> None:
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    if wanted.get("uid") and wanted["uid"] != metadata["uid"]:
        why = f"Precondition failed: UID in precondition: {wanted['uid']}, UID in object meta: {metadata['uid']}"
        raise _conflict(name, why)
    if wanted.get("resourceVersion") and wanted["resourceVersion"] != metadata["resourceVersion"]:
        sent, found = wanted["resourceVersion"], metadata["resourceVersion"]
        why = "Precondition failed: ResourceVersion in precondition: {}, ResourceVersion in object meta: {}"
        raise _conflict(name, why.format(sent, found))
    if "deletionTimestamp" in metadata:
        raise _conflict(name, f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise _conflict(name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise _conflict(name, f"pod {name} has non-empty .spec.schedulingGates")


def _bound(pod: Object, binding: Object, node: str, now: str) -> Object:
    """The pod on its node; its generation does not change."""
    new: Object = copied(pod)
    new["spec"]["nodeName"] = node
    for key in ("annotations", "labels"):
        extra = binding["metadata"].get(key)
        if extra:
            new["metadata"].setdefault(key, {}).update(extra)
    status = new.setdefault("status", {})
    # A nomination that has done its work must not mislead anybody.
    status.pop("nominatedNodeName", None)
    set_condition(status, condition("PodScheduled", "True"), now)
    return new


def refuse_connection(call: Call, served: Served) -> Reply:
    """exec, attach and port-forward: there are no processes behind the containers."""
    what = call.info.subresource
    raise bad_request(
        f"pods/{what} is not available: the containers of this cluster are simulated and hold no processes to "
        "connect to; read what a container sees and does with kubectl logs"
    )
