"""What pods and claims say about each other: names, owners, reservations (components section 1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from clusters.embedded.components.client import Object

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
POD_CLAIM_ANNOTATION: Final = "resource.kubernetes.io/pod-claim-name"
_GENERATED_LENGTH: Final = 57
"""What a generateName may have: 63 characters less a hyphen and five random ones."""


class PodClaimError(Exception):
    """A pod claim for which no claim can be named; the text says why."""


class NotCreatedError(PodClaimError):
    """The claim of a template does not exist yet."""


def claim_name(pod: Object, pod_claim: Object) -> tuple[str | None, bool]:
    """The claim of an entry in spec.resourceClaims, and whether its owner must be checked.

    The name is None when no claim is needed. Raises NotCreatedError when the controller has yet to make it.
    """
    if pod_claim.get("resourceClaimName") is not None:
        return pod_claim["resourceClaimName"], False
    metadata = pod["metadata"]
    if pod_claim.get("resourceClaimTemplateName") is None:
        raise PodClaimError(
            f'pod "{metadata["namespace"]}/{metadata["name"]}", spec.resourceClaim "{pod_claim["name"]}": '
            "none of the supported fields are set"
        )
    for status in pod.get("status", {}).get("resourceClaimStatuses") or []:
        if status["name"] == pod_claim["name"]:
            return status.get("resourceClaimName"), True
    raise NotCreatedError(f'pod "{metadata["namespace"]}/{metadata["name"]}": ResourceClaim not created yet')


def pod_claims(pod: Object) -> list[Object]:
    """The entries of spec.resourceClaims."""
    return pod.get("spec", {}).get("resourceClaims") or []


def extended_claim(pod: Object) -> str:
    """The claim that the scheduler made for extended resources of the pod, or nothing."""
    status = pod.get("status", {}).get("extendedResourceClaimStatus") or {}
    return status.get("resourceClaimName") or ""


def known_claims(pod: Object, *, extended: bool) -> Iterator[str]:
    """Names of the claims of a pod as far as they are known; `extended`: with that of extended resources."""
    for pod_claim in pod_claims(pod):
        try:
            name, _ = claim_name(pod, pod_claim)
        except PodClaimError:
            continue
        if name is not None:
            yield name
    if extended and extended_claim(pod):
        yield extended_claim(pod)


def owner_problem(pod: Object, claim: Object) -> str:
    """Why the claim is not the one that was made for the pod; empty when it is."""
    owned = any(
        owner.get("controller") and owner.get("uid") == pod["metadata"]["uid"]
        for owner in claim["metadata"].get("ownerReferences") or []
    )
    if owned:
        return ""
    inner, outer = claim["metadata"], pod["metadata"]
    return (
        f"ResourceClaim {inner['namespace']}/{inner['name']} was not created for "
        f"Pod {outer['namespace']}/{outer['name']} (Pod is not owner)"
    )


def owning_pod(claim: Object) -> tuple[str, str]:
    """Name and UID of the pod that controls the claim; empty when there is none."""
    for owner in claim["metadata"].get("ownerReferences") or []:
        if owner.get("controller") and owner.get("apiVersion") == "v1" and owner.get("kind") == "Pod":
            return owner["name"], owner["uid"]
    return "", ""


def is_terminal(pod: Object) -> bool:
    """Whether the pod has run to its end."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def is_done(pod: Object) -> bool:
    """Whether no container of the pod runs or ever will."""
    never_scheduled = not pod.get("spec", {}).get("nodeName")
    return is_terminal(pod) or ("deletionTimestamp" in pod["metadata"] and never_scheduled)


def reserved_for(claim: Object) -> list[Object]:
    """The consumers of a claim."""
    return claim.get("status", {}).get("reservedFor") or []


def is_reserved_for(pod: Object, claim: Object) -> bool:
    """Whether the pod is one of the consumers."""
    return any(consumer.get("uid") == pod["metadata"]["uid"] for consumer in reserved_for(claim))


def is_allocated(claim: Object) -> bool:
    """Whether the claim has an allocation."""
    return claim.get("status", {}).get("allocation") is not None


def generate_name(pod: str, pod_claim: str) -> str:
    """The generateName of a claim: too long a name is cut in both parts in proportion and has no hyphen at its end."""
    whole = f"{pod}-{pod_claim}-"
    if len(whole) <= _GENERATED_LENGTH:
        return whole
    first, second = (part[: len(part) * _GENERATED_LENGTH // len(whole)] for part in (pod, pod_claim))
    return f"{first}-{second}"


def claim_from_template(pod: Object, pod_claim: Object, template: Object) -> Object:
    """The claim to create for an entry of spec.resourceClaims."""
    metadata: dict[str, Any] = template["spec"].get("metadata") or {}
    owner = pod["metadata"]
    result: Object = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "generateName": generate_name(owner["name"], pod_claim["name"]),
            "annotations": {**(metadata.get("annotations") or {}), POD_CLAIM_ANNOTATION: pod_claim["name"]},
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": owner["name"],
                    "uid": owner["uid"],
                    "controller": True,
                }
            ],
        },
        "spec": template["spec"].get("spec") or {},
    }
    if metadata.get("labels"):
        result["metadata"]["labels"] = metadata["labels"]
    return result
