"""Claims that were created a moment ago, until the informer shows them."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from clusters.embedded.components.client import Object
from clusters.embedded.components.informer import Informer

_CREATED_LIMIT: Final = 1000
_UID_LIMIT: Final = 500
OWNER_INDEX: Final = "owning pod"


class CreatedClaims:
    """The informer's claims and, before it has seen them, those that the controller made.

    One look at an own claim that the informer lacks shows it and forgets it, as upstream's mutation cache does: a
    claim that was deleted before anybody had looked counts as present once.
    """

    def __init__(self, informer: Informer) -> None:
        """`informer` must have an index OWNER_INDEX whose keys are NAMESPACE/UID of the controlling pod."""
        self._informer = informer
        self._created: OrderedDict[tuple[str, str], Object] = OrderedDict()
        self._by_owner: dict[str, dict[tuple[str, str], Object]] = {}

    def add(self, claim: Object) -> None:
        """A claim that was just created."""
        metadata = claim["metadata"]
        key = metadata["namespace"], metadata["name"]
        self._forget(key)
        self._created[key] = claim
        for owner in owner_keys(claim):
            self._by_owner.setdefault(owner, {})[key] = claim
        while len(self._created) > _CREATED_LIMIT:
            self._forget(next(iter(self._created)))

    def _forget(self, key: tuple[str, str]) -> Object | None:
        claim = self._created.pop(key, None)
        for owner in owner_keys(claim) if claim is not None else ():
            owned = self._by_owner[owner]
            del owned[key]
            if not owned:
                del self._by_owner[owner]
        return claim

    def get(self, namespace: str, name: str) -> Object | None:
        """A claim by name."""
        cached = self._informer.get(namespace, name)
        created = self._forget((namespace, name))
        return cached if cached is not None else created

    def owned_by(self, namespace: str, uid: str) -> list[Object]:
        """The claims that a pod controls."""
        owner = f"{namespace}/{uid}"
        found = self._informer.by_index(OWNER_INDEX, owner)
        cached = {claim["metadata"]["name"] for claim in found}
        created = [claim for (_, name), claim in self._by_owner.get(owner, {}).items() if name not in cached]
        return found + created


class SeenDeleted:
    """The UIDs of the last pods that were seen going."""

    def __init__(self) -> None:
        self._uids: OrderedDict[str, None] = OrderedDict()

    def add(self, uid: str) -> None:
        """A pod is gone."""
        self._uids[uid] = None
        self._uids.move_to_end(uid)
        while len(self._uids) > _UID_LIMIT:
            self._uids.popitem(last=False)

    def __contains__(self, uid: str) -> bool:
        return uid in self._uids


def owner_keys(claim: Object) -> list[str]:
    """NAMESPACE/UID of the pods that control the claim."""
    metadata = claim["metadata"]
    return [
        f"{metadata['namespace']}/{owner['uid']}"
        for owner in metadata.get("ownerReferences") or []
        if owner.get("controller") and owner.get("apiVersion") == "v1" and owner.get("kind") == "Pod"
    ]
