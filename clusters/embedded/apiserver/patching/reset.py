"""Fields that a kind's strategy resets on an endpoint: neither stored nor owned (api-machinery section 8)."""

from __future__ import annotations

from typing import Final

from clusters.embedded.apiserver.patching.fields import FieldSet

_STATUS: Final = FieldSet.of_fields("status")
_SPEC: Final = FieldSet.of_fields("spec")
_SPEC_AND_METADATA: Final = FieldSet.of_fields("spec", "metadata")
_NONE: Final = FieldSet()

_STATUS_ENDPOINTS: Final = {
    ("", "pods"): FieldSet.of_fields("spec", "metadata.deletionTimestamp", "metadata.ownerReferences"),
    ("apps", "deployments"): FieldSet.of_fields("spec", "metadata.labels"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"): _SPEC_AND_METADATA,
    ("resource.k8s.io", "resourceclaims"): _SPEC_AND_METADATA,
    ("resource.k8s.io", "devicetaintrules"): _SPEC_AND_METADATA,
    ("resource.k8s.io", "resourcepoolstatusrequests"): _SPEC_AND_METADATA,
}


def reset_fields(group: str, resource: str, subresource: str, *, has_status: bool) -> FieldSet:
    """What a write through this endpoint cannot own.

    `has_status` says whether the resource has a status subresource: then the main endpoint resets the status.
    """
    if subresource == "status":
        return _STATUS_ENDPOINTS.get((group, resource), _SPEC)
    return _STATUS if has_status and not subresource else _NONE
