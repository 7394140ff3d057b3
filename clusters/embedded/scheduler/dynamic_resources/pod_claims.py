"""The claims of a pod, as far as they can be used."""

from __future__ import annotations

from collections.abc import Callable

from clusters.embedded.controllers.resource_claim.references import (
    PodClaimError,
    claim_name,
    owner_problem,
    pod_claims,
)
from clusters.embedded.scheduler.framework.events import Object

from .claim_tracker import not_found

Lookup = Callable[[str, str], Object | None]


class UnusableClaimError(Exception):
    """A claim of a pod is missing, going away or somebody else's; the text says which."""


def claims_of(pod: Object, lookup: Lookup) -> list[Object]:
    """The claims in the order of spec.resourceClaims, without those that the pod turned out not to need.

    Raises UnusableClaimError.
    """
    namespace = pod["metadata"]["namespace"]
    claims = []
    for entry in pod_claims(pod):
        try:
            name, must_own = claim_name(pod, entry)
        except PodClaimError as problem:
            raise UnusableClaimError(str(problem)) from None
        if name is None:
            continue
        claim = lookup(namespace, name)
        if claim is None:
            raise UnusableClaimError(not_found(f"{namespace}/{name}"))
        if claim["metadata"].get("deletionTimestamp"):
            raise UnusableClaimError(f'resourceclaim "{name}" is being deleted')
        problem_text = owner_problem(pod, claim) if must_own else ""
        if problem_text:
            raise UnusableClaimError(problem_text)
        claims.append(claim)
    return claims
