"""Answers that are kept from pod to pod are those that a search would find."""

from __future__ import annotations

import json
import random
import sys
import weakref
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from allocator_objects import cel, claim, device, device_class, exact, resource_slice

from allocator import (
    AllocatedState,
    AllocationCancelledError,
    AllocationError,
    Allocator,
    Answers,
    CelCache,
    DeviceID,
    SharedDeviceID,
    SliceCache,
)
from allocator.features import Features
from allocator.search import Search
from dra_api.features import DEFAULTS_1_37
from dra_api.quantity import Quantity

DATA = json.loads((Path(__file__).parent / "data" / "upstream.json").read_text())
NODE = {"metadata": {"name": "n0"}}
DRIVER = "gpu.example.com"


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[Search]:
    """Every search that was begun."""
    begun: list[Search] = []
    run = Search.run

    def counted(self: Search) -> bool:
        begun.append(self)
        return run(self)

    monkeypatch.setattr(Search, "run", counted)
    return begun


class Scheduler:
    """Asks one allocator a pod, and keeps what may be kept."""

    def __init__(self, slices: Sequence[Mapping[str, Any]]) -> None:
        self.slices = list(slices)
        self.classes = {"any": device_class("any")}
        self._kept: tuple[CelCache, SliceCache, Answers] = (CelCache(), SliceCache(), Answers())

    def ask(self, wanted: Mapping[str, Any], *taken: DeviceID, **other: Any) -> list[str]:
        """The devices for a claim."""
        programs, slices, answers = self._kept
        state = other.pop("state", AllocatedState(frozenset(taken)))
        node, cancelled = other.pop("node", NODE), other.pop("cancelled", None)
        allocator = Allocator(
            DEFAULTS_1_37, [wanted], state, self.classes.get, self.slices, programs, slices, answers=answers
        )
        results = allocator.allocate(node, cancelled)
        return [entry["device"] for result in results for entry in result["devices"]["results"]]


def named(name: str, *requests: dict[str, Any]) -> dict[str, Any]:
    wanted = claim(*requests)
    return {**wanted, "metadata": {**wanted["metadata"], "name": name, "uid": name}}


def identity(name: str) -> DeviceID:
    return DeviceID(DRIVER, "p", name)


def scheduler(*devices: dict[str, Any]) -> Scheduler:
    return Scheduler([resource_slice("s", list(devices), driver=DRIVER, pool="p", nodeName="n0")])


def test_equal_claims_are_searched_for_once(searches: list[Search]) -> None:
    asking = scheduler(device("a"), device("b"))
    assert [asking.ask(named(name, exact())) for name in "xyz"] == [["a"]] * 3
    assert len(searches) == 1


def test_other_devices_in_use_are_another_question(searches: list[Search]) -> None:
    asking = scheduler(device("a"), device("b"))
    assert asking.ask(named("x", exact())) == ["a"]
    assert asking.ask(named("y", exact()), identity("a")) == ["b"]
    assert asking.ask(named("z", exact()), DeviceID("other.example.com", "p", "a")) == ["a"]
    assert asking.ask(named("z", exact())) == ["a"]
    assert len(searches) == 3


def test_slices_nodes_and_classes_that_change_are_other_questions(searches: list[Search]) -> None:
    asking = scheduler(device("a"))
    assert asking.ask(claim(exact())) == ["a"]
    asking.slices[0] = resource_slice("s", [device("b")], driver=DRIVER, pool="p", nodeName="n0")
    assert asking.ask(claim(exact())) == ["b"]
    asking.classes["any"] = {"metadata": {"name": "any"}, "spec": {"selectors": cel("false")}}
    assert asking.ask(claim(exact())) == []
    assert asking.ask(claim(exact()), node={"metadata": {"name": "n0"}}) == []
    assert len(searches) == 4


def test_what_cannot_be_is_remembered_as_well(searches: list[Search]) -> None:
    asking = scheduler(device("a"))
    assert [asking.ask(named(name, exact(count=2))) for name in "xy"] == [[], []]
    assert len(searches) == 1


def test_shared_devices_are_searched_for_each_time(searches: list[Search]) -> None:
    asking = scheduler(device("a"))
    share = AllocatedState(shares=frozenset((SharedDeviceID(identity("a"), "1"),)))
    for state in (
        AllocatedState(),
        share,
        AllocatedState(capacity={identity("a"): {"x": Quantity.parse("1")}}),
    ):
        asking.ask(claim(exact()), state=state)
    assert len(searches) == 3


def test_each_share_has_an_id_of_its_own(searches: list[Search]) -> None:
    asking = scheduler(device("a", allowMultipleAllocations=True))
    assert [asking.ask(named(name, exact())) for name in "xy"] == [["a"]] * 2
    assert len(searches) == 2


def test_counters_may_be_taken_by_devices_of_other_nodes() -> None:
    def part(name: str) -> dict[str, Any]:
        return device(name, consumesCounters=[{"counterSet": "c", "counters": {"x": {"value": "1"}}}])

    sets = {
        "metadata": {"name": "counters"},
        "spec": {
            "driver": DRIVER,
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 3},
            "sharedCounters": [{"name": "c", "counters": {"x": {"value": "1"}}}],
            "allNodes": True,
        },
    }
    where: dict[str, Any] = {"driver": DRIVER, "pool": "p", "count": 3}
    asking = Scheduler(
        [
            sets,
            resource_slice("s0", [part("a")], nodeName="n0", **where),
            resource_slice("s1", [part("b")], nodeName="n1", **where),
        ]
    )
    assert asking.ask(named("x", exact())) == ["a"]
    assert asking.ask(named("y", exact()), identity("b")) == []


def test_known_answers_are_not_given_to_those_who_have_left() -> None:
    asking = scheduler(device("a"))
    asking.ask(claim(exact()))
    with pytest.raises(AllocationCancelledError):
        asking.ask(claim(exact()), cancelled=lambda: True)


def test_questions_are_forgotten_when_others_were_asked_later(searches: list[Search]) -> None:
    asking = scheduler(device("a"))
    for count in (1, 2, 3, 4, 5, 1):
        asking.ask(claim(exact(count=count)))
    assert len(searches) == 6


class Node(dict[str, Any]):
    """A node that tells when it is gone."""


def test_nothing_is_kept_of_nodes_that_are_gone() -> None:
    def slice_of(node: str) -> dict[str, Any]:
        return resource_slice(node, [device("a")], driver=DRIVER, pool=node, nodeName=node)

    asking, gone = Scheduler([slice_of("n0")]), Node(metadata={"name": "n0"})
    watched = weakref.ref(gone)
    assert asking.ask(claim(exact()), node=gone) == ["a"]
    asking.slices[:] = [slice_of("n1")]
    del gone
    assert asking.ask(claim(exact()), node={"metadata": {"name": "n1"}}) == ["a"]
    assert watched() is None


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads take turns all the time."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_threads_may_ask_at_the_same_time(hasty: None) -> None:
    answers, wanted = Answers(), [[claim(exact(count=count))] for count in range(6)]

    def ask(thread: int) -> None:
        for number in range(20000):
            answers.to(Features(), wanted[(number + thread) % 6], [[]])

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(ask, range(4)))


class World:
    """The objects of a case, which become other ones as time goes by, as with informers."""

    def __init__(self, case: Mapping[str, Any], dice: random.Random) -> None:
        self.dice = dice
        self.gates = {name: name in case["gates"] for name in DEFAULTS_1_37}
        self.nodes = list(DATA["nodes"])
        self.slices = list(case["slices"])
        self.classes = list(case["classes"])

    def go_by(self) -> None:
        """Change a node, a slice or a class, or nothing."""
        kind = self.dice.choice(("nodes", "slices", "classes", ""))
        if kind and (objects := getattr(self, kind)):
            index = self.dice.randrange(len(objects))
            objects[index] = getattr(self, f"changed_{kind}")(objects[index])

    def changed_nodes(self, node: Mapping[str, Any]) -> dict[str, Any]:
        labels = {"zone": self.dice.choice("ab"), "n": self.dice.choice("15")}
        return {**node, "metadata": {**node["metadata"], "labels": labels}}

    def changed_slices(self, slice_: Mapping[str, Any]) -> dict[str, Any]:
        taints = [{"key": "k", "effect": "NoSchedule"}] if self.dice.random() < 0.5 else []
        devices = [{**one, "taints": taints} for one in slice_["spec"].get("devices", ())]
        self.dice.shuffle(devices)
        return {**slice_, "spec": {**slice_["spec"], **({"devices": devices} if devices else {})}}

    def changed_classes(self, class_: Mapping[str, Any]) -> dict[str, Any]:
        return {**class_, "spec": {"selectors": cel(self.dice.choice(("true", "false")))}}

    def answers(self, wanted: Sequence[Any], state: AllocatedState, *kept: Any, **more: Any) -> list[Any]:
        """What each node answers, errors included."""
        classes = {entry["metadata"]["name"]: entry for entry in self.classes}
        allocator = Allocator(
            self.gates,
            wanted,
            state,
            classes.get,
            self.slices,
            *kept,
            new_share_id=lambda: "share",
            **more,
        )
        found: list[Any] = []
        for node in self.nodes:
            try:
                found.append(allocator.allocate(node))
            except AllocationError as error:
                found.append((type(error), str(error)))
        return found


@pytest.mark.parametrize("number", range(0, len(DATA["cases"]), 2))
def test_answers_are_those_of_searches_while_the_world_changes(number: int) -> None:
    case, dice = DATA["cases"][number], random.Random(number)
    world = World(case, dice)
    ids = [
        DeviceID(entry["spec"]["driver"], entry["spec"]["pool"]["name"], one["name"])
        for entry in case["slices"]
        for one in entry["spec"].get("devices", ())
    ]
    kept, answers = (CelCache(), SliceCache()), Answers()
    for attempt in range(12):
        world.go_by()
        taken = dice.sample(ids, dice.randint(0, len(ids))) if dice.random() < 0.7 else []
        shares = frozenset(SharedDeviceID(one, "s") for one in taken if dice.random() < 0.1)
        state = AllocatedState(frozenset(taken) - {share.device for share in shares}, shares)
        wanted = [{**each, "metadata": {**each["metadata"], "uid": f"{attempt}"}} for each in case["claims"]]
        if dice.random() < 0.3:
            wanted = wanted[:1]
        assert world.answers(wanted, state, *kept, answers=answers) == world.answers(
            wanted, state, CelCache(), SliceCache()
        )
