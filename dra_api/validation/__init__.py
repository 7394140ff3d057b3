"""Structural validation of resource.k8s.io objects, with the paths and texts of a Kubernetes 1.37 API server.

Objects are canonical dicts in v1 (ResourcePoolStatusRequest: v1alpha3), defaulted, with disabled fields
dropped. `gates` are the names of the enabled feature gates (see `dra_api.features`). `sent_as` is the
apiVersion in which the client sent the object: for v1beta1 some paths are those of v1beta1. Source:
kubernetes v1.37.2 `pkg/apis/resource/validation` and the declarative rules of k8s.io/api.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from ..errors import FieldError
from ..schema import GVK, load
from . import claim, claim_template, device_class, pool_status_request, resource_slice, taint_rule
from .findings import Findings

__all__ = ["validate_create", "validate_status_update", "validate_update", "warnings"]

Object = Mapping[str, Any]
_Create = Callable[[Findings, Object, Collection[str]], None]
_Update = Callable[[Findings, Object, Object, Collection[str]], None]

_CREATE: Final[dict[str, _Create]] = {
    "ResourceClaim": claim.create,
    "ResourceClaimTemplate": claim_template.create,
    "DeviceClass": device_class.create,
    "ResourceSlice": resource_slice.create,
    "DeviceTaintRule": taint_rule.create,
    "ResourcePoolStatusRequest": pool_status_request.create,
}
_UPDATE: Final[dict[str, _Update]] = {
    "ResourceClaim": claim.update,
    "ResourceClaimTemplate": claim_template.update,
    "DeviceClass": device_class.update,
    "ResourceSlice": resource_slice.update,
    "DeviceTaintRule": taint_rule.update,
    "ResourcePoolStatusRequest": pool_status_request.update,
}
_UPDATE_STATUS: Final[dict[str, _Update]] = {
    "ResourceClaim": claim.update_status,
    "DeviceTaintRule": taint_rule.update_status,
    "ResourcePoolStatusRequest": pool_status_request.update_status,
}


def validate_create(obj: Object, gates: Collection[str], sent_as: str = "") -> list[FieldError]:
    """All errors of a new object; none for kinds of other groups."""
    return _run(_CREATE, obj, lambda rules, found: rules(found, obj, gates), sent_as)


def validate_update(new: Object, old: Object, gates: Collection[str], sent_as: str = "") -> list[FieldError]:
    """All errors of a changed object against the stored one; status is not looked at."""
    return _run(_UPDATE, new, lambda rules, found: rules(found, new, old, gates), sent_as)


def validate_status_update(
    new: Object, old: Object, gates: Collection[str], sent_as: str = ""
) -> list[FieldError]:
    """All errors of a changed status; spec and metadata of `new` must be those of `old`."""
    return _run(_UPDATE_STATUS, new, lambda rules, found: rules(found, new, old, gates), sent_as)


def warnings(obj: Object) -> list[str]:
    """Texts for Warning headers of an accepted object, on create and update."""
    return resource_slice.warnings(obj) if obj.get("kind") == "ResourceSlice" else []


def _run(
    table: Mapping[str, Any], obj: Object, call: Callable[[Any, Findings], None], sent_as: str
) -> list[FieldError]:
    found = Findings()
    kind = str(obj.get("kind", ""))
    rules = table.get(kind)
    if rules is None:
        return []
    call(rules, found)
    default = "v1alpha3" if kind == "ResourcePoolStatusRequest" else "v1"
    gvk = GVK("resource.k8s.io", sent_as.rpartition("/")[2] or default, kind)
    return found.errors(sent_as, load().kind(gvk))
