"""Which ResourceClaims a Pod uses."""

from __future__ import annotations

from dataclasses import dataclass

from clusters.embedded.kubelet.dra.claims import ClaimError
from clusters.embedded.kubelet.pods import objects
from clusters.embedded.kubelet.pods.objects import Object


@dataclass(frozen=True)
class PodClaim:
    """One entry of spec.resourceClaims, or the claim for extended resources (`name` is "" then)."""

    name: str
    claim_name: str | None
    generated: bool
    extended: bool = False

    def object_name(self, pod: Object) -> str | None:
        """Name of the ResourceClaim; None when none is needed. Raises ClaimError when it is not known yet."""
        if not self.generated:
            if self.claim_name is None:
                raise ClaimError(
                    f'pod "{objects.namespace(pod)}/{objects.name(pod)}", spec.resourceClaim "{self.name}": '
                    "none of the supported fields are set"
                )
            return self.claim_name
        for status in objects.status(pod).get("resourceClaimStatuses") or []:
            if status["name"] == self.name:
                found: str | None = status.get("resourceClaimName")
                return found
        raise ClaimError(f'pod "{objects.namespace(pod)}/{objects.name(pod)}": ResourceClaim not created yet')


def pod_claims(pod: Object, *, extended: bool) -> list[PodClaim]:
    """The claims of a Pod in the order of its spec; with `extended` that for its extended resources last."""
    result = [
        PodClaim(
            entry["name"], entry.get("resourceClaimName"), entry.get("resourceClaimTemplateName") is not None
        )
        for entry in pod["spec"].get("resourceClaims") or []
    ]
    status = objects.status(pod).get("extendedResourceClaimStatus") if extended else None
    if status:
        result.append(PodClaim("", status["resourceClaimName"], generated=False, extended=True))
    return result


def _group(pod: Object) -> str | None:
    found: str | None = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
    return found


def check_owner(pod: Object, claim: Object, *, groups: bool) -> None:
    """A generated claim must have been made for this Pod, or with `groups` for its PodGroup. Raises ClaimError."""
    metadata = claim["metadata"]
    owners = metadata.get("ownerReferences") or []
    if any(owner.get("controller") and owner["uid"] == objects.uid(pod) for owner in owners):
        return
    group = _group(pod) if groups else None
    text = (
        f"ResourceClaim {metadata['namespace']}/{metadata['name']} was not created for Pod "
        f"{objects.namespace(pod)}/{objects.name(pod)}"
    )
    if group is None:
        raise ClaimError(f"{text} (Pod is not owner)")
    if not any(owner.get("controller") and _is_group(owner, group) for owner in owners):
        raise ClaimError(f"{text} (neither Pod nor PodGroup {group} is the owner)")


def _is_group(owner: Object, group: str) -> bool:
    return bool(owner.get("kind") == "PodGroup" and owner.get("name") == group)


def is_reserved(pod: Object, claim: Object, *, groups: bool) -> bool:
    """Whether the claim is reserved for the Pod, or with `groups` for its PodGroup."""
    group = _group(pod) if groups else None
    for consumer in (claim.get("status") or {}).get("reservedFor") or []:
        if consumer.get("uid") == objects.uid(pod):
            return True
        if group is not None and consumer.get("resource") == "podgroups" and consumer.get("name") == group:
            return True
    return False
