"""Who owns whom, as seen in watches; it decides what has to be looked at, and never talks to a server.

An owner that somebody names and nobody has seen is a virtual node until its object, or its absence, is known.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from clusters.embedded.components.client import Object

ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
_ABSENT_LIMIT: Final = 500
OwnerReference = dict[str, Any]


@dataclass(frozen=True, order=True)
class Reference:
    """Where an object is to be found; the namespace of cluster-scoped ones is empty."""

    kind: str
    api_version: str
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"[{self.api_version}/{self.kind}, namespace: {self.namespace}, name: {self.name}, uid: {self.uid}]"

    def named_by(self, owner: OwnerReference) -> bool:
        """Whether an owner reference means this, the namespace aside."""
        return (owner["uid"], owner["name"], owner["kind"], owner["apiVersion"]) == (
            self.uid, self.name, self.kind, self.api_version,
        )  # fmt: skip


def owner_identity(owner: OwnerReference, namespace: str) -> Reference:
    """What an owner reference in an object of a namespace means."""
    return Reference(owner["kind"], owner["apiVersion"], namespace, owner["name"], owner["uid"])


@dataclass(eq=False)
class Node:
    """An object, or what is known of it."""

    identity: Reference
    observed: bool
    owners: list[OwnerReference] = field(default_factory=list)
    dependents: set[Node] = field(default_factory=set)
    being_deleted: bool = False
    deleting_dependents: bool = False

    def __str__(self) -> str:
        return str(self.identity)

    def blocking_dependents(self) -> list[Node]:
        """The dependents that hold back the deletion of this object in the foreground."""
        return [
            node
            for node in self.dependents
            if any(
                owner["uid"] == self.identity.uid and owner.get("blockOwnerDeletion") for owner in node.owners
            )
        ]


class Work(Protocol):
    """What follows from changes of the graph."""

    def delete(self, node: Node) -> None:
        """Look whether the object has to be deleted, or the finalizer of its foreground deletion removed."""

    def delete_later(self, node: Node) -> None:
        """The same after a pause that grows with each time."""

    def orphan(self, node: Node) -> None:
        """Take the object out of its dependents, then let it go."""

    def invalid_namespace(self, dependent: Node, owner: OwnerReference) -> None:
        """Tell that a reference leads to an object of another namespace."""


class AbsentOwners:
    """The last references that were found to lead nowhere."""

    def __init__(self) -> None:
        self._known: OrderedDict[Reference, None] = OrderedDict()

    def add(self, reference: Reference) -> None:
        """Nothing is there."""
        self._known[reference] = None
        self._known.move_to_end(reference)
        while len(self._known) > _ABSENT_LIMIT:
            self._known.popitem(last=False)

    def __contains__(self, reference: Reference) -> bool:
        return reference in self._known


class Graph:
    """All observed objects by UID, and the virtual ones."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._nodes: dict[str, Node] = {}
        self.absent = AbsentOwners()

    def get(self, uid: str) -> Node | None:
        """The node of a UID."""
        return self._nodes.get(uid)

    def put(self, identity: Reference, old: Object | None, new: Object) -> None:
        """An object was added or changed."""
        metadata = new["metadata"]
        owners: list[OwnerReference] = metadata.get("ownerReferences") or []
        node = self._nodes.get(identity.uid)
        if node is None:
            node = Node(
                identity,
                observed=True,
                owners=owners,
                being_deleted="deletionTimestamp" in metadata,
                deleting_dependents="deletionTimestamp" in metadata and _has(new, FOREGROUND),
            )
            self._nodes[identity.uid] = node
            self._link(node, owners)
        else:
            node = self._observe(node, identity)
            self._change_owners(node, owners)
            if "deletionTimestamp" in metadata:
                node.being_deleted = True
        self._start_deletion(old, new, node)

    def drop(self, identity: Reference) -> None:
        """An object is gone."""
        node = self._nodes.get(identity.uid)
        if node is not None:
            self._observe(node, identity)
            self._remove(self._nodes[identity.uid], identity)

    def drop_virtual(self, identity: Reference) -> None:
        """The server says that nothing is where the reference leads."""
        node = self._nodes.get(identity.uid)
        if node is None:
            return
        matching, others = _partition(node.dependents, identity)
        if not node.observed and others:
            # Dependents disagree about where this owner is: only those that meant the place that was looked at lose it.
            self._lose(matching, identity)
            if node.identity == identity:
                self._look_elsewhere(node, others, identity)
        elif node.observed and node.identity != identity:
            self._lose(matching, identity)
        else:
            self._remove(node, identity)

    def _observe(self, node: Node, identity: Reference) -> Node:
        if node.observed:
            return node
        if node.identity != identity:
            # Who named this owner by other coordinates than its real ones may have named one that does not exist.
            _, others = _partition(node.dependents, identity)
            for dependent in others:
                if identity.namespace and dependent.identity.namespace != identity.namespace:
                    self._report(dependent, identity.uid)
                self._work.delete(dependent)
            node = self._replace(node, identity)
        node.observed = True
        return node

    def _replace(self, node: Node, identity: Reference) -> Node:
        """Put a node with another identity in the place of one that may wait in a queue."""
        node = replace(node, identity=identity, dependents=set(node.dependents))
        self._nodes[identity.uid] = node
        return node

    def _link(self, node: Node, owners: Iterable[OwnerReference]) -> None:
        """Add a node to the dependents of its owners."""
        doubtful = False
        for owner in owners:
            parent = self._nodes.get(owner["uid"])
            if parent is None:
                parent = Node(owner_identity(owner, node.identity.namespace), observed=False)
                self._nodes[owner["uid"]] = parent
                parent.dependents.add(node)
                self._work.delete(parent)
                continue
            parent.dependents.add(node)
            if not doubtful:
                doubtful = self._is_doubtful(node, owner, parent)
        if doubtful:
            self._work.delete(node)

    def _is_doubtful(self, node: Node, owner: OwnerReference, parent: Node) -> bool:
        """Whether the reference may lead to something else than the known owner."""
        place, own = parent.identity.namespace, node.identity.namespace
        if place and place != own:
            if parent.observed:
                self._report(node, owner["uid"])
            return True
        if not parent.identity.named_by(owner):
            return True
        # A virtual owner without a namespace was named by an object without one: it may be of a kind that has one.
        return not place and place != own and not parent.observed

    def _report(self, node: Node, uid: str) -> None:
        for owner in node.owners:
            if owner["uid"] == uid:
                self._work.invalid_namespace(node, owner)
                return

    def _unlink(self, node: Node, owners: Iterable[OwnerReference]) -> None:
        for owner in owners:
            parent = self._nodes.get(owner["uid"])
            if parent is not None:
                parent.dependents.discard(node)

    def _change_owners(self, node: Node, owners: list[OwnerReference]) -> None:
        before = {owner["uid"]: owner for owner in node.owners}
        after = {owner["uid"]: owner for owner in owners}
        if before == after:
            return
        for uid, owner in before.items():
            blocked = owner.get("blockOwnerDeletion")
            parent = self._nodes.get(uid)
            if parent is not None and blocked and not after.get(uid, {}).get("blockOwnerDeletion"):
                self._work.delete(parent)
        node.owners = owners
        self._link(node, [owner for uid, owner in after.items() if uid not in before])
        self._unlink(node, [owner for uid, owner in before.items() if uid not in after])

    def _start_deletion(self, old: Object | None, new: Object, node: Node) -> None:
        if _starts(old, new, ORPHAN):
            self._work.orphan(node)
        elif _starts(old, new, FOREGROUND):
            node.deleting_dependents = True
            for dependent in node.dependents:
                self._work.delete(dependent)
            self._work.delete(node)

    def _remove(self, node: Node, identity: Reference) -> None:
        self._nodes.pop(node.identity.uid, None)
        self._unlink(node, node.owners)
        if node.dependents:
            self.absent.add(identity)
        for dependent in node.dependents:
            self._work.delete(dependent)
        for owner in node.owners:
            parent = self._nodes.get(owner["uid"])
            if parent is not None and parent.deleting_dependents:
                self._work.delete(parent)

    def _lose(self, dependents: list[Node], identity: Reference) -> None:
        if dependents:
            self.absent.add(identity)
        for dependent in dependents:
            self._work.delete(dependent)

    def _look_elsewhere(self, node: Node, dependents: Iterable[Node], absent: Reference) -> None:
        """Give a virtual node the next of the places where its dependents say it is."""
        places = set()
        for dependent in dependents:
            for owner in dependent.owners:
                if owner["uid"] != absent.uid:
                    continue
                place = owner_identity(owner, dependent.identity.namespace)
                same_kind = (place.api_version, place.kind) == (absent.api_version, absent.kind)
                if same_kind and not absent.namespace:
                    place = replace(place, namespace="")
                places.add(place)
        places.discard(absent)
        if places:
            following = [place for place in places if place > absent]
            self._work.delete_later(self._replace(node, min(following or places)))


def _partition(dependents: Iterable[Node], owner: Reference) -> tuple[list[Node], list[Node]]:
    """The dependents that name the owner as it is, and those that name it otherwise; one may do both."""
    matching, others = [], []
    for node in dependents:
        if owner.namespace and owner.namespace != node.identity.namespace:
            others.append(node)
            continue
        named = {owner.named_by(one) for one in node.owners if one["uid"] == owner.uid}
        if True in named:
            matching.append(node)
        if False in named:
            others.append(node)
    return matching, others


def _has(obj: Object, finalizer: str) -> bool:
    return finalizer in (obj["metadata"].get("finalizers") or [])


def _starts(old: Object | None, new: Object, finalizer: str) -> bool:
    """Whether a deletion that waits for the finalizer begins with this change."""

    def waits(obj: Object) -> bool:
        return "deletionTimestamp" in obj["metadata"] and _has(obj, finalizer)

    return waits(new) and (old is None or not waits(old))
