"""Objects and watchers by the value of a field: an index must not change what anybody sees."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from clusters.embedded.apiserver.storage import Object, ResourceKey, Store

KEY = ResourceKey("", "pods")
FIELD = "spec.nodeName"
NODES = ("", "n1", "n2")


def node_of(obj: Any) -> str:
    return str(obj["spec"].get("nodeName", ""))


def pod(name: str, node: str) -> Object:
    return {"metadata": {"name": name, "namespace": "d"}, "spec": {"nodeName": node} if node else {}}


# What is done to which pod, and the node that it is on afterwards.
STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "delete"]), st.sampled_from("abc"), st.sampled_from(NODES)), max_size=20
)


def perform(store: Store, steps: list[tuple[str, str, str]]) -> None:
    for step, name, node in steps:
        known = store.get(*KEY, "d", name) is not None
        if step == "delete":
            if known:
                store.delete(KEY, "d", name)
        elif known:
            store.update(KEY, pod(name, node))
        else:
            store.create(KEY, pod(name, node))


@settings(deadline=None)
@given(STEPS, STEPS)
def test_a_watcher_sees_the_same_with_and_without_an_index(
    before: list[tuple[str, str, str]], after: list[tuple[str, str, str]]
) -> None:
    async def scenario() -> None:
        store = Store()
        perform(store, before)
        store.index(KEY, FIELD, node_of)
        pairs = []
        for node in NODES:

            def matches(obj: Object, node: str = node) -> bool:
                return node_of(obj) == node

            selects = (FIELD, node)
            pairs.append(
                (
                    store.watch(KEY, None, None, matches),
                    store.watch(KEY, None, None, matches, selects),
                    selects,
                )
            )
        perform(store, after)
        for plain, indexed, selects in pairs:
            seen = [
                [(notice.type, notice.object, notice.change.revision) for notice in await each.take(0.001)]
                for each in (plain, indexed)
            ]
            assert seen[0] == seen[1]
            store.unwatch(KEY, indexed, selects)
            store.unwatch(KEY, plain)
        for node in NODES:
            listed = [obj for obj in store.list(*KEY) if node_of(obj) == node]
            found = sorted(store.select(*KEY, FIELD, node), key=lambda obj: str(obj["metadata"]["name"]))
            assert found == listed

    asyncio.run(scenario())


def test_a_watcher_that_left_is_fed_no_more() -> None:
    async def scenario() -> None:
        store = Store()
        store.index(KEY, FIELD, node_of)
        watcher = store.watch(KEY, None, None, lambda obj: node_of(obj) == "n1", (FIELD, "n1"))
        store.unwatch(KEY, watcher, (FIELD, "n1"))
        store.create(KEY, pod("a", "n1"))
        assert await watcher.take(0.001) == []
        assert watcher.closed

    asyncio.run(scenario())


def test_a_server_that_stops_closes_indexed_watchers_too() -> None:
    async def scenario() -> None:
        store = Store()
        store.index(KEY, FIELD, node_of)
        watcher = store.watch(KEY, None, None, None, (FIELD, "n1"))
        store.close_watchers()
        assert watcher.closed

    asyncio.run(scenario())


def test_a_write_tells_that_a_kind_changed() -> None:
    store = Store()
    before = store.changed(*KEY)
    store.create(ResourceKey("", "nodes"), {"metadata": {"name": "n"}})
    assert store.changed(*KEY) == before
    store.create(KEY, pod("a", ""))
    assert store.changed(*KEY) != before
