"""Whether a change of a claim makes another attempt for a pod worthwhile (components 2.1)."""

from __future__ import annotations

from allocator import allocation_of
from clusters.embedded.scheduler.framework.events import Object

from .pod_claims import Lookup, UnusableClaimError, claims_of


class ClaimHints:
    """The hints of the plugin."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    def after_claim(self, pod: Object, old: Object | None, new: Object | None) -> bool:
        """A claim was added, changed or deleted."""
        if new is None:
            return old is not None and allocation_of(old) is not None
        freed = old is not None and allocation_of(old) is not None and allocation_of(new) is None
        if not freed and not _names(pod, new):
            # What follows would say no as well; most changes are of claims of others.
            return False
        try:
            claims = claims_of(pod, self._lookup)
        except UnusableClaimError:
            return False
        if freed:
            return True
        if all(claim["metadata"]["uid"] != new["metadata"]["uid"] for claim in claims):
            return False
        return old is None or (old.get("status") or {}) != (new.get("status") or {})

    def after_pod(self, pod: Object, old: Object | None, new: Object | None) -> bool:
        """The pod got names of generated claims."""
        try:
            claims_of(new or pod, self._lookup)
        except UnusableClaimError:
            return False
        return True


def _names(pod: Object, claim: Object) -> bool:
    name = claim["metadata"]["name"]
    entries = (
        *(pod["spec"].get("resourceClaims") or ()),
        *((pod.get("status") or {}).get("resourceClaimStatuses") or ()),
    )
    return any(entry.get("resourceClaimName") == name for entry in entries)
