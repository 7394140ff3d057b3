"""Uids in the bodies of PUT, which must be those of the objects in question."""

from __future__ import annotations

from clusters.api_status import ApiError, conflict
from clusters.embedded.apiserver.resources import Served
from clusters.embedded.apiserver.storage import Object


def check_uid_kept(served: Served, new: Object, old: Object, name: str, *, dry_run: bool) -> None:
    """A PUT of what was another object under this name is refused as a real server's storage does it."""
    found = old["metadata"]["uid"]
    given = new["metadata"].get("uid") or found
    if given != found:
        raise _other_uid(served, old["metadata"].get("namespace", ""), name, given, found, dry_run=dry_run)


def check_absent_uid(served: Served, new: Object, namespace: str, name: str, *, dry_run: bool) -> None:
    """A PUT that would create must not name the uid of an object that is gone; raises ApiError 409."""
    if new["metadata"].get("uid"):
        raise _other_uid(served, namespace, name, new["metadata"]["uid"], "", dry_run=dry_run)


def _other_uid(
    served: Served, namespace: str, name: str, given: str, found: str, *, dry_run: bool
) -> ApiError:
    resource = served.resource
    # A dry run is refused by another layer, which knows shorter keys.
    places = ("" if dry_run else "registry", resource.plural, namespace, name)
    why = (
        f"StorageError: invalid object, Code: 4, Key: /{'/'.join(filter(None, places))}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: UID in precondition: {given}, UID in object meta: {found}"
    )
    return conflict(resource.plural, resource.group, name, why)
