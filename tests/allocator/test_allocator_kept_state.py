"""What an allocator keeps from pod to pod changes no answer."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from allocator_objects import DRIVER, cel, claim, device, device_class, every, exact, resource_slice

from allocator import (
    AllocatedState,
    AllocationError,
    Allocator,
    CelCache,
    DeviceID,
    NodeSelection,
    SliceCache,
)
from dra_api.cel import compile_selector

NODES = ("n0", "n1", "n2")
CLASSES = {"any": device_class("any")}


def node(name: str, zone: str = "east") -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"zone": zone}}}


def random_slice(dice: random.Random, number: int) -> dict[str, Any]:
    where: Mapping[str, Any] = dice.choice(
        [{"nodeName": dice.choice(NODES)}] * 6
        + [
            {"allNodes": True},
            {
                "nodeSelector": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["east"]}]}
                    ]
                }
            },
        ]
    )
    names = dice.sample("abcd", dice.randint(0, 3))
    return resource_slice(
        f"s{number}",
        [device(name, model=dice.choice("xy")) for name in names],
        pool=dice.choice(("p", "q", "r")),
        generation=dice.choice((1, 1, 1, 2)),
        count=dice.choice((1, 1, 2)),
        **where,
    )


def answers(
    claims: Sequence[Mapping[str, Any]],
    slices: Sequence[Mapping[str, Any]],
    nodes: Sequence[Mapping[str, Any]],
    state: AllocatedState,
    cel: CelCache,
    kept: SliceCache | None,
) -> list[Any]:
    allocator = Allocator({}, claims, state, CLASSES.get, slices, cel, kept)
    found: list[Any] = []
    for each in nodes:
        try:
            found.append(allocator.allocate(each))
        except AllocationError as error:
            found.append((type(error), str(error)))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_slices_and_nodes_that_change_are_seen(seed: int) -> None:
    dice = random.Random(seed)
    nodes = {name: node(name) for name in NODES}
    slices = {f"s{number}": random_slice(dice, number) for number in range(8)}
    kept, programs = SliceCache(), CelCache()
    model = f'device.attributes["{DRIVER}"].model == "x"'
    wishes = [
        [claim(exact(count=1))],
        [claim(exact(count=2, selectors=cel(model)))],
        [claim(exact(count=1), exact("r2"))],
        [claim(every())],
    ]
    for _ in range(25):
        change = dice.random()
        number = dice.randrange(10)
        if change < 0.5:
            slices[f"s{number}"] = random_slice(dice, number)
        elif change < 0.7:
            slices.pop(f"s{number}", None)
        elif change < 0.85:
            name = dice.choice(NODES)
            nodes[name] = node(name, dice.choice(("east", "west")))
        taken = frozenset(
            DeviceID(DRIVER, dice.choice("pqr"), dice.choice("abcd")) for _ in range(dice.randint(0, 6))
        )
        claims = dice.choice(wishes)
        shown = list(slices.values())
        if dice.random() < 0.1:
            dice.shuffle(shown)
        arguments = (claims, shown, list(nodes.values()), AllocatedState(taken))
        assert answers(*arguments, programs, kept) == answers(*arguments, CelCache(), None)


def test_nothing_is_read_again_while_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, asked = SliceCache(), []
    programs = CelCache(lambda expression: counting(compile_selector(expression), asked))
    slices = [
        resource_slice(f"s-{name}", [device("a"), device("b")], pool=name, nodeName=name) for name in NODES
    ]
    nodes = [node(name) for name in NODES]
    wanted = [claim(exact(selectors=cel(f'device.driver == "{DRIVER}"')))]
    answers(wanted, slices, nodes, AllocatedState(), programs, kept)
    assert len(asked) == len(NODES)
    looked: list[str] = []
    matches = NodeSelection.matches

    def counted(self: NodeSelection, each: Mapping[str, Any]) -> bool:
        looked.append(each["metadata"]["name"])
        return matches(self, each)

    monkeypatch.setattr(NodeSelection, "matches", counted)
    answers(wanted, list(slices), nodes, AllocatedState(), programs, kept)
    assert (len(asked), looked) == (len(NODES), [])
    slices[1] = resource_slice("s-n1", [device("a")], pool="n1", nodeName="n1")
    answers(wanted, slices, nodes, AllocatedState(), programs, kept)
    assert (len(asked), looked) == (len(NODES) + 1, ["n1"])


def test_one_thread_may_look_at_nodes_while_another_has_new_slices() -> None:
    kept, programs = SliceCache(), CelCache()
    slices = [
        resource_slice(f"s-{name}", [device("a")], pool=name, nodeName=name) for name in ("n0", "n1", "n2")
    ]
    elsewhere = Allocator({}, [claim(exact())], AllocatedState(), CLASSES.get, slices, programs, kept)
    waiting: list[dict[str, Any]] = []

    class Name(str):
        """Where it is looked up, the other thread gets its turn."""

        def __hash__(self) -> int:
            if waiting:
                elsewhere.allocate(waiting.pop())
            return str.__hash__(self)

    elsewhere.allocate(node(Name("n0")))
    elsewhere.allocate(node("n1"))
    changed = [*slices[:2], resource_slice("s-n2", [device("b")], pool="n2", nodeName="n2")]
    waiting.append(node("n2"))
    (found,) = answers([claim(exact())], changed, [node("n2")], AllocatedState(), programs, kept)
    assert (found[0]["devices"]["results"][0]["device"], waiting) == ("b", [])


def counting(program: Any, asked: list[Any]) -> Any:
    class Counting:
        def matches(self, given: Any) -> bool:
            asked.append(given)
            return bool(program.matches(given))

    return Counting()


def test_answers_of_expressions_do_not_pile_up() -> None:
    kept, programs = SliceCache(), CelCache()
    slices = [resource_slice("s", [device("a")])]
    for number in range(250):
        wanted = [claim(exact(selectors=cel(f'"{number}" != device.driver')))]
        assert answers(wanted, slices, [node("n0")], AllocatedState(), programs, kept)[0]
    (record,) = kept.parsed(slices)
    assert len(record.devices[0].outcomes) <= 100
