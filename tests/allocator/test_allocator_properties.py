"""What holds for every allocation, on small random clusters, against plain enumeration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from allocator_objects import allocate, cel, claim, device, exact, first_of, in_use, resource_slice, wanted
from hypothesis import given
from hypothesis import strategies as st

MODEL = 'device.attributes["gpu.example.com"].model == "a"'

devices = st.lists(
    st.builds(lambda model, numa: {"model": model, "numa": numa}, st.sampled_from("ab"), st.integers(0, 1)),
    max_size=6,
)
used = st.sets(st.integers(0, 5))
counts = st.integers(1, 3)
plain = st.builds(lambda count, choosy: {"count": count, "choosy": choosy}, counts, st.booleans())
alternatives = st.lists(plain, min_size=2, max_size=2)
requests = st.lists(
    st.one_of(plain.map(lambda entry: [entry]), alternatives),
    min_size=1,
    max_size=3,
)
claims = st.lists(st.tuples(requests, st.booleans()), min_size=1, max_size=2)


def build(
    clusters: Sequence[Mapping[str, Any]], wishes: Sequence[tuple[Any, bool]]
) -> tuple[list[Any], list[Any]]:
    """Objects for a list of devices (two slices of one pool) and wishes."""
    all_devices = [device(f"d{index}", **entry) for index, entry in enumerate(clusters)]
    slices = [resource_slice("a", all_devices[:3], count=2), resource_slice("b", all_devices[3:], count=2)]
    built = []
    for number, (entries, matching) in enumerate(wishes):
        parts = []
        for index, choices in enumerate(entries):
            fields = [
                {"count": choice["count"], **({"selectors": cel(MODEL)} if choice["choosy"] else {})}
                for choice in choices
            ]
            if len(choices) == 1:
                parts.append(exact(f"r{index}", **fields[0]))
            else:
                parts.append(first_of(f"r{index}", *(wanted(**entry) for entry in fields)))
        constraints = [{"matchAttribute": "gpu.example.com/numa"}] if matching else []
        built.append(claim(*parts, name=f"c{number}", constraints=constraints))
    return slices, built


def fields_of(choice: Mapping[str, Any]) -> dict[str, Any]:
    selectors = {"selectors": cel(MODEL)} if choice["choosy"] else {}
    return {"count": choice["count"], **selectors}


def solutions(
    clusters: Sequence[Mapping[str, Any]], taken: set[int], wishes: Sequence[tuple[Any, bool]]
) -> Iterator[list[list[tuple[str, int]]]]:
    """All solutions in the order of preference: (request, device) for each claim."""
    slots = [(number, index) for number, (entries, _) in enumerate(wishes) for index in range(len(entries))]

    def extend(position: int, free: list[int], chosen: list[list[tuple[str, int]]]) -> Iterator[Any]:
        if position == len(slots):
            yield [list(part) for part in chosen]
            return
        number, index = slots[position]
        entries, matching = wishes[number]
        choices = entries[index]
        for rank, choice in enumerate(choices):
            suited = [place for place in free if not choice["choosy"] or clusters[place]["model"] == "a"]
            name = f"r{index}" if len(choices) == 1 else f"r{index}/s{rank}"
            for group in combinations(suited, choice["count"]):
                part = [*chosen[number], *((name, place) for place in group)]
                if matching and len({clusters[place]["numa"] for _, place in part}) > 1:
                    continue
                rest = [place for place in free if place not in group]
                yield from extend(position + 1, rest, [*chosen[:number], part, *chosen[number + 1 :]])

    free = [place for place in range(len(clusters)) if place not in taken]
    yield from extend(0, free, [[] for _ in wishes])


@given(devices, used, claims)
def test_the_first_solution_of_a_full_enumeration_is_found(
    clusters: list[dict[str, Any]], taken: set[int], wishes: list[tuple[Any, bool]]
) -> None:
    slices, built = build(clusters, wishes)
    results = allocate(slices, *built, state=in_use(*(f"d{place}" for place in taken)))
    found = [
        [(entry["request"], int(entry["device"][1:])) for entry in result["devices"].get("results", [])]
        for result in results
    ]
    assert found == next(solutions(clusters, taken, wishes), [])


amounts = st.integers(1, 6)
shareable = st.lists(st.tuples(amounts, st.booleans()), min_size=1, max_size=3)
shares = st.lists(st.lists(amounts, min_size=1, max_size=3), min_size=1, max_size=3)


@given(shareable, shares)
def test_shares_never_exceed_a_device_and_are_found_when_possible(
    hardware: list[tuple[int, bool]], wishes: list[list[int]]
) -> None:
    slices = [
        resource_slice(
            "s",
            [
                device(
                    f"d{index}", capacity={"memory": {"value": str(size)}}, allowMultipleAllocations=multiple
                )
                for index, (size, multiple) in enumerate(hardware)
            ],
        )
    ]
    built = [
        claim(
            *(
                exact(f"r{index}", capacity={"requests": {"memory": str(size)}})
                for index, size in enumerate(sizes)
            ),
            name=f"c{number}",
        )
        for number, sizes in enumerate(wishes)
    ]
    results = allocate(slices, *built)
    loads: dict[str, list[int]] = {}
    for result, sizes in zip(results, wishes, strict=False):
        for entry, size in zip(result["devices"]["results"], sizes, strict=True):
            loads.setdefault(entry["device"], []).append(size)
            multiple = hardware[int(entry["device"][1:])][1]
            assert entry.get("consumedCapacity") == ({"memory": str(size)} if multiple else None)
    for name, load in loads.items():
        size, multiple = hardware[int(name[1:])]
        assert sum(load) <= size
        assert multiple or len(load) == 1
    assert bool(results) is fits([size for sizes in wishes for size in sizes], hardware)


def fits(sizes: Sequence[int], hardware: Sequence[tuple[int, bool]]) -> bool:
    """Whether the sizes can be distributed."""
    if not sizes:
        return True
    for index, (room, multiple) in enumerate(hardware):
        if sizes[0] <= room:
            left = (room - sizes[0], True) if multiple else (0, False)
            if fits(sizes[1:], [*hardware[:index], left, *hardware[index + 1 :]]):
                return True
    return False


partitions = st.lists(st.integers(1, 4), min_size=1, max_size=6)


@given(partitions, st.integers(1, 3), st.integers(1, 10))
def test_partitions_never_exceed_their_counter(sizes: list[int], count: int, total: int) -> None:
    consumption = [[{"counterSet": "card", "counters": {"slots": {"value": str(size)}}}] for size in sizes]
    shared = [{"name": "card", "counters": {"slots": {"value": str(total)}}}]
    slices = [
        resource_slice("c", count=2, allNodes=True, sharedCounters=shared),
        resource_slice(
            "d",
            [device(f"d{index}", consumesCounters=entry) for index, entry in enumerate(consumption)],
            count=2,
        ),
    ]
    results = allocate(slices, claim(exact(count=count)))
    possible = [
        group for group in combinations(range(len(sizes)), count) if sum(sizes[i] for i in group) <= total
    ]
    found = [tuple(int(entry["device"][1:]) for entry in result["devices"]["results"]) for result in results]
    assert found == possible[:1]
