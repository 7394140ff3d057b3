"""The graph of owners against random histories: what it asks for is what has lost all owners."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from clusters.embedded.controllers.garbage_collector.graph import Graph, Node, OwnerReference, Reference

Object = dict[str, Any]


class Recorder:
    """The work that a graph asked for, by UID."""

    def __init__(self) -> None:
        self.deleted: list[str] = []
        self.later: list[Reference] = []
        self.orphaned: list[str] = []
        self.told: list[tuple[str, str]] = []

    def delete(self, node: Node) -> None:
        self.deleted.append(node.identity.uid)

    def delete_later(self, node: Node) -> None:
        self.later.append(node.identity)

    def orphan(self, node: Node) -> None:
        self.orphaned.append(node.identity.uid)

    def invalid_namespace(self, dependent: Node, owner: OwnerReference) -> None:
        self.told.append((dependent.identity.uid, owner["uid"]))


def identity(uid: str, namespace: str = "ns", name: str = "") -> Reference:
    return Reference("ConfigMap", "v1", namespace, name or uid, uid)


def obj(*owners: str, **metadata: Any) -> Object:
    references = [{"apiVersion": "v1", "kind": "ConfigMap", "name": uid, "uid": uid} for uid in owners]
    return {"metadata": {"ownerReferences": references, **metadata}}


def test_unknown_owner_is_looked_at_once_and_its_absence_reaches_the_dependents() -> None:
    work = Recorder()
    graph = Graph(work)
    graph.put(identity("a"), None, obj("owner"))
    graph.put(identity("b"), None, obj("owner"))
    assert work.deleted == ["owner"]
    graph.drop_virtual(identity("owner"))
    assert sorted(work.deleted) == ["a", "b", "owner"]
    assert identity("owner") in graph.absent


def test_virtual_owner_with_two_places_is_looked_for_at_the_second_after_the_first() -> None:
    work = Recorder()
    graph = Graph(work)
    graph.put(identity("a", "ns-1"), None, obj("owner"))
    graph.put(identity("b", "ns-2"), None, obj("owner"))
    # b names the same UID from another namespace: it is looked at by itself.
    assert work.deleted == ["owner", "b"]
    graph.drop_virtual(identity("owner", "ns-1"))
    assert work.deleted == ["owner", "b", "a"]
    assert work.later == [identity("owner", "ns-2")]


def test_observed_owner_in_another_namespace_is_told_and_not_lost_to_its_own_dependents() -> None:
    work = Recorder()
    graph = Graph(work)
    graph.put(identity("good", "ns-1"), None, obj("owner"))
    graph.put(identity("bad", "ns-2"), None, obj("owner"))
    work.deleted.clear()
    graph.put(identity("owner", "ns-1"), None, obj())
    assert (
        work.told == []
    )  # The virtual owner was assumed where it is, so nobody is told; "bad" was queued before.
    graph.put(identity("worse", "ns-3"), None, obj("owner"))
    assert work.told == [("worse", "owner")]
    assert work.deleted == ["worse"]


def test_blocking_reference_that_is_taken_away_wakes_the_owner() -> None:
    work = Recorder()
    graph = Graph(work)
    graph.put(identity("owner"), None, obj())
    blocking = obj("owner")
    blocking["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = True
    graph.put(identity("a"), None, blocking)
    node = graph.get("owner")
    assert node is not None
    assert [one.identity.uid for one in node.blocking_dependents()] == ["a"]
    graph.put(identity("a"), blocking, obj("owner"))
    assert work.deleted == ["owner"]
    assert not node.blocking_dependents()


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sets(st.sampled_from("abcdef"), max_size=2))))
def test_dependents_are_always_those_that_name_the_owner(steps: list[tuple[str, set[str]]]) -> None:
    """Each step creates, changes or (when nothing changes) removes an object; the owners are any."""
    graph = Graph(Recorder())
    model: dict[str, set[str]] = {}
    for uid, owners in steps:
        if model.get(uid) == owners:
            graph.drop(identity(uid))
            del model[uid]
        else:
            old = obj(*sorted(model[uid])) if uid in model else None
            graph.put(identity(uid), old, obj(*sorted(owners)))
            model[uid] = owners
        for name in "abcdef":
            node = graph.get(name)
            named_by = {one for one, names in model.items() if name in names}
            if node is None:
                assert name not in model
            elif name in model:
                assert node.observed
                # A dependent that came before its owner was removed and created again is linked at its next change.
                assert {one.identity.uid for one in node.dependents} <= named_by
