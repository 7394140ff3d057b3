"""The journal: whole records whatever happens to the writer, and the double uses that it proves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fake_hw import journal, machines, state, tree, usage
from fake_hw.errors import JournalError
from fake_hw.journal import Clock, Event, Kind, Overlap, overlaps

A, B = "0000:19:00.0", "0000:1a:00.0"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "host"
    tree.create(machines.get("a30-1"), root, mknod=False)
    return root


def at(ns: int, kind: Kind, claim: str = "", bdf: str = A, shared: bool = False) -> Event:
    return Event(kind, bdf, claim, shared, monotonic_ns=ns)


def test_a_record_carries_process_and_both_clocks(root: Path) -> None:
    clock = Clock(monotonic_ns=lambda: 7, seconds=lambda: 1.5)
    with state.locked(root) as directory:
        journal.append(directory, Event("configure", A, "u1", True, {"timeslice": "Long"}), clock)
    line = (root / "run/fake_hw/journal.jsonl").read_text()
    record = json.loads(line)
    assert line.endswith("}\n")
    assert record.pop("pid") > 0
    assert record == {
        "kind": "configure",
        "bdf": A,
        "claim": "u1",
        "shared": True,
        "settings": {"timeslice": "Long"},
        "detail": "",
        "monotonic_ns": 7,
        "time": "1970-01-01T00:00:01.500000Z",
    }


def test_a_torn_last_line_is_not_there_yet_and_is_cut_off_by_the_next_writer(root: Path) -> None:
    with state.locked(root) as directory:
        journal.append(directory, Event("reset", A, "u1"), Clock())
        with (directory / journal.FILE).open("ab") as file:
            file.write(b'{"kind":"configure","bd')
    assert [event.claim for event in journal.read(root)] == ["u1"]
    with state.locked(root) as directory:
        journal.append(directory, Event("reset", A, "u2"), Clock())
    assert [event.claim for event in journal.read(root)] == ["u1", "u2"]


@pytest.mark.parametrize(
    "line", ["nonsense", "[]", '{"kind":"configure"}', '{"kind":"explode","bdf":"x"}', "{}"]
)
def test_a_complete_line_that_is_no_record_is_an_error(root: Path, line: str) -> None:
    (root / "run/fake_hw/journal.jsonl").write_text(line + "\n")
    with pytest.raises(JournalError, match=r"journal\.jsonl: "):
        journal.read(root)


def test_a_record_that_does_not_fit_has_not_happened(root: Path) -> None:
    child = """if True:
        import resource, signal, sys
        from pathlib import Path
        from fake_hw.backend import Backend
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        root = Path(sys.argv[1])
        backend = Backend(root)
        backend.configure("0000:65:01.0", "u1")
        size = (root / "run/fake_hw/journal.jsonl").stat().st_size
        # As on a full disk, a part of the next record still fits.
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, resource.RLIM_INFINITY))
        try:
            backend.configure("0000:65:01.0", "u2")
        except OSError as problem:
            print(problem)
    """
    done = subprocess.run([sys.executable, "-c", child, root], capture_output=True, text=True, check=True)
    assert "No space left on device" in done.stdout
    assert list(usage.load(state.directory(root)).devices["0000:65:01.0"]) == ["u1"]


@pytest.mark.parametrize("damage", ["", "{", "[]", "{}", '{"offset": 0, "attempts": 0, "devices": {"x": 1}}'])
def test_the_copy_of_the_usage_is_not_needed(root: Path, damage: str) -> None:
    with state.locked(root) as directory:
        usage.record(directory, Event("configure", A, "u1"), Clock())
        (directory / "state.json").write_text(damage)
    assert list(usage.load(directory).devices[A]) == ["u1"]


def test_two_exclusive_claims_overlap_from_the_second_configure_to_the_first_reset() -> None:
    events = [at(1, "configure", "u1"), at(3, "configure", "u2"), at(6, "reset", "u1"), at(9, "reset", "u2")]
    assert overlaps(events) == [Overlap(A, ("u1", "u2"), 3, 6)]


def test_one_after_the_other_is_fine_even_in_the_same_instant() -> None:
    events = [at(1, "configure", "u1"), at(5, "reset", "u1"), at(5, "configure", "u2")]
    assert overlaps(events) == []


def test_sharing_is_fine_unless_one_claim_wants_the_device_alone() -> None:
    shared = [at(1, "configure", "u1", shared=True), at(2, "configure", "u2", shared=True)]
    assert overlaps(shared) == []
    assert overlaps([*shared, at(3, "configure", "u3")]) == [
        Overlap(A, ("u1", "u3"), 3, None),
        Overlap(A, ("u2", "u3"), 3, None),
    ]


def test_different_devices_and_repeated_calls_do_not_overlap() -> None:
    events = [at(1, "configure", "u1"), at(2, "configure", "u2", bdf=B), at(3, "configure", "u1")]
    assert overlaps(events) == []


def test_a_vanished_device_has_no_users() -> None:
    events = [at(1, "configure", "u1"), at(2, "vanish"), at(3, "return"), at(4, "configure", "u2")]
    assert overlaps(events) == []


def test_failed_and_blocked_calls_use_nothing() -> None:
    events = [at(1, "configure", "u1"), at(2, "configure-failed", "u2"), at(3, "configure-blocked", "u3")]
    assert overlaps(events) == []


HISTORIES = st.lists(
    st.tuples(
        st.sampled_from(get_args(Kind)), st.sampled_from([A, B]), st.sampled_from("xyz"), st.booleans()
    ),
    max_size=12,
).map(
    lambda steps: [
        Event(kind, bdf, "" if kind in ("vanish", "return") else claim, shared, monotonic_ns=number)
        for number, (kind, bdf, claim, shared) in enumerate(steps)
    ]
)


def holds(events: list[Event], bdf: str, claim: str) -> bool | None:
    """Whether a claim has a device after the events: its last word, found from the end. The value is `shared`."""
    for event in reversed(events):
        if event.bdf == bdf and event.kind == "vanish":
            return None
        if event.bdf == bdf and event.claim == claim and event.kind in ("configure", "reset"):
            return event.shared if event.kind == "configure" else None
    return None


@settings(deadline=None)  # a busy machine is no failure
@given(HISTORIES)
def test_overlaps_are_those_of_a_model_that_looks_at_every_instant(events: list[Event]) -> None:
    expected = []
    for bdf in (A, B):
        for pair in (("x", "y"), ("x", "z"), ("y", "z")):
            start = None
            for now in range(len(events)):
                states = [holds(events[: now + 1], bdf, claim) for claim in pair]
                double = None not in states and states != [True, True]
                if double and start is None:
                    start = now
                if not double and start is not None:
                    expected.append(Overlap(bdf, pair, start, now))
                    start = None
            if start is not None:
                expected.append(Overlap(bdf, pair, start, None))
    assert overlaps(events) == sorted(
        expected, key=lambda overlap: (overlap.start_ns, overlap.bdf, overlap.claims)
    )


@settings(deadline=None)  # a busy machine is no failure
@given(HISTORIES)
def test_usage_is_the_last_word_of_every_claim(events: list[Event]) -> None:
    current = usage.Usage()
    for event in events:
        current.apply(event)
    found = {(bdf, claim): use.shared for bdf, uses in current.devices.items() for claim, use in uses.items()}
    model = {(bdf, claim): holds(events, bdf, claim) for bdf in (A, B) for claim in "xyz"}
    assert found == {key: shared for key, shared in model.items() if shared is not None}
    assert current.attempts == sum(event.kind in ("configure", "configure-failed") for event in events)
