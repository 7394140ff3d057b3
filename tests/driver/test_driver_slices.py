"""Which slices a pool needs: expected values by the rules of kubelet-contract 16, and that every plan converges."""

from __future__ import annotations

import copy
import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.sdk import slice_cache
from driver.sdk.api import ApiFailure
from driver.sdk.slice_cache import Slice, SliceCache
from driver.sdk.slices import Accepted, Plan, Pool, canonical, generate_name, plan, split

POOL = Pool("gpu.example.com", "node-1", "uid-1", "node-1")


class Store:
    """Slices as an API server keeps them: names from generateName, resource versions."""

    def __init__(self) -> None:
        self.items: dict[str, dict[str, Any]] = {}
        self._numbers = itertools.count(1)

    def apply(self, todo: Plan, calls: int | None = None) -> None:
        """Carry out a plan, or only so many of its calls."""
        steps = [("delete", item) for item in todo.deletes]
        steps += [("update", item) for item in todo.updates] + [("create", item) for item in todo.creates]
        for action, item in steps[:calls]:
            item = copy.deepcopy(item)
            number = next(self._numbers)
            if action == "delete":
                del self.items[item["metadata"]["name"]]
                continue
            if action == "create":
                item["metadata"]["name"] = f"{item['metadata']['generateName'][:58]}{number:05d}"
                item["metadata"]["uid"] = f"uid-{number}"
            item["metadata"]["resourceVersion"] = str(number)
            self.items[item["metadata"]["name"]] = item

    def plan(
        self, devices: list[dict[str, Any]], accepted: Accepted | None = None, pool: Pool = POOL
    ) -> Plan:
        return plan(pool, devices, list(self.items.values()), accepted or Accepted())

    def sync(self, devices: list[dict[str, Any]]) -> None:
        self.apply(self.plan(devices))

    def shapes(self) -> list[tuple[str, int, int, int]]:
        """(name without suffix, generation, count, devices) in the order of names."""
        return [
            (name[:-5], item["spec"]["pool"]["generation"], item["spec"]["pool"]["resourceSliceCount"],
             len(item["spec"].get("devices", [])))
            for name, item in sorted(self.items.items())
        ]  # fmt: skip


def devices(count: int, **more: Any) -> list[dict[str, Any]]:
    return [
        {"name": f"gpu-{number}", "attributes": {"type": {"string": "gpu"}}, **more}
        for number in range(count)
    ]


LIST = {"attributes": {"numa": {"ints": [0, 1]}}}


@pytest.mark.parametrize(
    ("found", "sizes"),
    [
        (devices(0), [0]),
        (devices(128), [128]),
        (devices(129), [128, 1]),
        (devices(64, **LIST), [64]),
        (devices(65, **LIST), [64, 1]),
        (devices(65, taints=[{"key": "k", "effect": "None"}]), [64, 1]),
        (devices(65, consumesCounters=[{}]), [64, 1]),
        ([*devices(64), *devices(1, **LIST)], [64, 1]),
    ],
)
def test_slices_are_split_at_the_limits(found: list[dict[str, Any]], sizes: list[int]) -> None:
    assert [len(chunk) for chunk in split(found)] == sizes


def test_names_have_the_index_in_hex_with_at_least_five_digits() -> None:
    assert generate_name(0, 1, POOL) == "00000-gpu.example.com-node-1-"
    assert generate_name(31, 32, POOL) == "0001f-gpu.example.com-node-1-"
    # 0x100000 slices need six digits for the highest index 0xfffff? No: five; one more needs six.
    assert generate_name(0xFFFFF, 0x100000, POOL) == "fffff-gpu.example.com-node-1-"
    assert generate_name(1, 0x100001, POOL) == "000001-gpu.example.com-node-1-"


def test_generations_follow_what_has_to_change() -> None:
    store = Store()
    store.sync(devices(130))
    prefix = "-gpu.example.com-node-1-"
    assert store.shapes() == [(f"00000{prefix}", 1, 2, 128), (f"00001{prefix}", 1, 2, 2)]
    # One slice changes: the generation stays.
    store.sync(devices(131))
    assert store.shapes() == [(f"00000{prefix}", 1, 2, 128), (f"00001{prefix}", 1, 2, 3)]
    # A slice more: all slices have the new count and generation.
    store.sync(devices(257))
    assert store.shapes() == [(f"0000{n}{prefix}", 2, 3, size) for n, size in enumerate((128, 128, 1))]
    # Two slices fewer, and one updated for the count: the generation stays.
    store.sync(devices(3))
    assert store.shapes() == [(f"00000{prefix}", 2, 1, 3)]
    store.sync(devices(0))
    assert store.shapes() == [(f"00000{prefix}", 2, 1, 0)]


def test_two_changed_slices_raise_the_generation() -> None:
    store = Store()
    store.sync(devices(130))
    store.sync(devices(130, capacity={"memory": {"value": "1Gi"}}))
    assert [shape[1] for shape in store.shapes()] == [2, 2]


def test_deletes_come_first_and_carry_what_the_preconditions_need() -> None:
    store = Store()
    store.sync(devices(257))
    todo = store.plan(devices(1))
    assert [item["metadata"]["uid"] for item in todo.deletes] == ["uid-2", "uid-3"]
    assert (len(todo.updates), len(todo.creates)) == (1, 0)


def test_foreign_names_old_generations_doubles_and_other_pools_are_replaced() -> None:
    store = Store()
    store.sync(devices(130))
    first, second = sorted(store.items)
    foreign = copy.deepcopy(store.items[first])
    foreign["metadata"] |= {"name": "by-hand", "uid": "f"}
    double = copy.deepcopy(store.items[first])
    double["metadata"] |= {"name": first[:-5] + "zzzzz", "uid": "d"}
    other = copy.deepcopy(store.items[first])
    other["metadata"] |= {"name": "other-pool", "uid": "o"}
    other["spec"]["pool"]["name"] = "elsewhere"
    for item in (foreign, double, other):
        store.items[item["metadata"]["name"]] = item
    todo = store.plan(devices(130))
    assert {item["metadata"]["uid"] for item in todo.deletes} == {"f", "d", "o"}
    assert (todo.updates, todo.creates) == ((), ())
    store.items[second]["spec"]["pool"]["generation"] = 0
    assert second in {item["metadata"]["name"] for item in store.plan(devices(130)).deletes}


@pytest.mark.parametrize(
    "damage",
    [
        lambda item: item["spec"]["devices"].pop(),
        lambda item: item["spec"]["pool"].update(resourceSliceCount=3),
        lambda item: item["spec"].update(allNodes=True),
        lambda item: item["metadata"].pop("ownerReferences"),
        lambda item: item["spec"]["devices"][0]["attributes"].update(extra={"int": 1}),
    ],
)
def test_what_others_change_is_changed_back_in_the_same_generation(damage: Any) -> None:
    store = Store()
    store.sync(devices(2))
    (name,) = store.items
    before = copy.deepcopy(store.items[name])
    damage(store.items[name])
    store.sync(devices(2))
    assert store.items[name]["spec"] == before["spec"]
    assert store.items[name]["metadata"]["ownerReferences"] == before["metadata"]["ownerReferences"]


def test_a_new_node_of_the_same_name_becomes_the_owner() -> None:
    store = Store()
    store.sync(devices(2))
    renewed = Pool(POOL.driver, POOL.node, "uid-2", POOL.name)
    store.apply(store.plan(devices(2), pool=renewed))
    (item,) = store.items.values()
    assert item["metadata"]["ownerReferences"][0]["uid"] == "uid-2"


def test_spelling_of_quantities_and_empty_fields_is_no_change() -> None:
    store = Store()
    store.sync(devices(1, capacity={"memory": {"value": "1024Mi"}}))
    (item,) = store.items.values()
    item["spec"]["devices"][0] |= {"capacity": {"memory": {"value": "1Gi"}}, "taints": [], "nodeName": None}
    assert store.plan(devices(1, capacity={"memory": {"value": "1024Mi"}})).empty


def test_fields_that_the_server_drops_are_told_and_not_fought_over() -> None:
    wanted = devices(2, bindsToNode=True)
    store, accepted = Store(), Accepted()
    store.apply(store.plan(wanted, accepted))
    (item,) = store.items.values()
    sent = copy.deepcopy(item)
    for device in item["spec"]["devices"]:
        del device["bindsToNode"]
    assert not store.plan(wanted, accepted).empty
    dropped = accepted.remember(sent, item)
    assert dropped == ["spec.devices[0].bindsToNode", "spec.devices[1].bindsToNode"]
    assert store.plan(wanted, accepted).empty
    assert not store.plan(devices(3, bindsToNode=True), accepted).empty


def test_long_names_are_recognised_after_the_server_has_cut_them() -> None:
    pool = Pool("a" * 40 + ".example.com", "n" * 60, "u", "p")
    store = Store()
    store.apply(store.plan(devices(1), pool=pool))
    assert store.plan(devices(1), pool=pool).empty


sizes = st.integers(0, 300)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(sizes, st.booleans(), st.none() | st.integers(0, 3)), min_size=1, max_size=5))
def test_every_plan_converges_also_after_an_interruption(steps: list[tuple[int, bool, int | None]]) -> None:
    store = Store()
    for size, advanced, interrupted in steps:
        wanted = devices(size, **(LIST if advanced else {}))
        store.apply(store.plan(wanted), interrupted)
        # Whatever was left in the middle, one whole plan is enough.
        store.sync(wanted)
        assert store.plan(wanted).empty
        shapes = store.shapes()
        assert {shape[2] for shape in shapes} == {len(shapes)}
        assert len({shape[1] for shape in shapes}) == 1
        names = [
            device["name"]
            for _, item in sorted(store.items.items())
            for device in item["spec"].get("devices", [])
        ]
        assert names == [device["name"] for device in wanted]


@given(
    st.recursive(st.none() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x))
)
def test_the_canonical_form_is_its_own(value: Any) -> None:
    assert canonical(canonical(value)) == canonical(value)


def test_a_list_does_not_undo_what_was_written_while_it_was_read() -> None:
    def stored(name: str, version: int) -> Slice:
        return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}, "spec": {}}

    class Api:
        def list_slices(self, selector: str) -> tuple[list[Slice], str]:
            # Made at version 10; before the answer is read, the publisher creates, updates and deletes.
            made = [stored("updated", 5), stored("deleted", 6), stored("kept", 7)]
            cache.put(stored("created", 11))
            cache.put(stored("updated", 12))
            cache.drop(stored("deleted", 6))
            return made, "10"

        def watch_slices(self, selector: str, version: str) -> Iterator[tuple[str, Slice]]:
            raise NotImplementedError

    cache = SliceCache(Api(), "", lambda: None)
    cache.put(stored("gone", 4))
    cache.put(stored("deleted", 6))
    assert cache.relist() == "10"
    versions = {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in cache.items()}
    assert versions == {"created": "11", "updated": "12", "kept": "7"}


class Pauses(threading.Event):
    """Notes how long is waited, without waiting; set after so many pauses."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.seconds: list[float] = []
        self._count = count

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout or 0.0)
        if len(self.seconds) == self._count:
            self.set()
        return self.is_set()


@pytest.mark.parametrize(("short", "longest"), [(0.0, 0.3), (60.0, 19.2)])
def test_a_watch_that_was_good_is_soon_tried_again_and_one_that_never_was_is_not(
    monkeypatch: pytest.MonkeyPatch, short: float, longest: float
) -> None:
    class Api:
        def list_slices(self, selector: str) -> tuple[list[Slice], str]:
            return [], "1"

        def watch_slices(self, selector: str, version: str) -> Iterator[tuple[str, Slice]]:
            raise ApiFailure(0, "", "cut")

    # From how many seconds on a watch counts as good; those of this server take no time.
    monkeypatch.setattr(slice_cache, "_SHORT_WATCH_SECONDS", short)
    pauses = Pauses(7)
    SliceCache(Api(), "", lambda: None).run(pauses)
    # 0.25 s doubled six times is 16 s; each pause varies by a fifth.
    assert max(pauses.seconds) <= longest
    assert pauses.seconds[-1] >= longest / 1.5
