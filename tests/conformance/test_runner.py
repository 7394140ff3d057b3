from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from conformance.events import Event, RequirementFinished, RunFinished, RunStarted
from conformance.model import (
    Evidence,
    Failed,
    InputError,
    Isolation,
    KnownGap,
    Level,
    NotTestable,
    Requirement,
    Result,
    SkipCause,
    Verdict,
    check,
    highest,
)
from conformance.planner import Plan
from conformance.runner import Runner

SEEN = Evidence("log", "what the bench saw", "words")


def requirement(number: int, **more: Any) -> Requirement:
    return Requirement(f"DRV-TST-{number:02}", Level.MUST, "It works.", "driver", ("test",), "test", **more)


class Bench:
    def evidence(self) -> Sequence[Evidence]:
        return [SEEN]


class Environment:
    """Benches that do nothing; `broken` makes leaving one raise."""

    def __init__(self, broken: Exception | None = None) -> None:
        self.broken = broken
        self.closed = 0

    @contextlib.contextmanager
    def bench(self, requirement: Requirement) -> Iterator[Bench]:
        try:
            yield Bench()
            if self.broken:
                raise self.broken
        finally:
            self.closed += 1


def run(
    bodies: Sequence[Callable[[Any], None]],
    environment: Environment | None = None,
    *,
    gate: str = "",
    requirements: Sequence[Requirement] | None = None,
    events: list[Event] | None = None,
    gaps_apply: Callable[[KnownGap], bool] = lambda gap: False,
    redact: Callable[[str], str] = lambda text: text,
) -> list[Result]:
    order = requirements or [requirement(number) for number in range(1, len(bodies) + 1)]
    if gate:
        order = [replace(item, after=(gate,)) if item.id != gate else item for item in order]
    tests = {item.id: body for item, body in zip(order, bodies, strict=True)}
    listener = (events if events is not None else []).append
    runner = Runner(
        environment or Environment(),
        tests,
        listener,
        parallel=4,
        gaps_apply=gaps_apply,
        redact=redact,
    )
    return list(runner.run(Plan(tuple(order), ()), order))


def passes(bench: Any) -> None: ...


def fails(bench: Any) -> None:
    check(False, "a device", "none")


def breaks(bench: Any) -> None:
    raise KeyError("oops")


def impossible(bench: Any) -> None:
    raise NotTestable("two devices are needed")


def test_outcomes_become_verdicts() -> None:
    results = run([passes, fails, impossible, breaks])
    assert [result.verdict for result in results] == [Verdict.PASS, Verdict.FAIL, Verdict.SKIP, Verdict.ERROR]
    assert (results[1].expected, results[1].seen, results[1].evidence) == ("a device", "none", (SEEN,))
    assert results[2].reason == "not testable here: two devices are needed"
    assert results[3].reason == "the kit broke: KeyError: 'oops'"
    assert "test_runner.py" in results[3].evidence[0].text


def test_a_bench_that_cannot_be_tidied_fails_the_test_that_left_it_so() -> None:
    results = run([passes], Environment(Failed("a driver that lets go", "it does not")))
    assert (results[0].verdict, results[0].seen) == (Verdict.FAIL, "it does not")


def test_of_two_failures_the_one_of_the_test_counts() -> None:
    (result,) = run([fails], Environment(Failed("a running driver", "it ended")))
    assert (result.seen, result.evidence) == ("none", (SEEN,))


def test_a_mistake_of_the_input_is_an_error_that_is_not_the_kit() -> None:
    def mistaken(bench: Any) -> None:
        raise InputError("hooks.failDevice: no program")

    results = run([mistaken, passes])
    assert [(result.verdict, result.mistake) for result in results] == [
        (Verdict.ERROR, True),
        (Verdict.PASS, False),
    ]
    assert results[0].reason == "not judged, the descriptor does not work: hooks.failDevice: no program"


@pytest.mark.parametrize("gate", ["", "DRV-TST-01"])
def test_a_fatal_mistake_of_the_input_ends_the_run(gate: str) -> None:
    def mistaken(bench: Any) -> None:
        raise InputError("start.command: no program", fatal=True)

    with pytest.raises(InputError, match="no program"):
        run([mistaken, passes], gate=gate)


def test_an_interrupt_does_not_wait_for_the_tests() -> None:
    held, entered = threading.Event(), threading.Event()

    def hangs(bench: Any) -> None:
        entered.set()
        held.wait(60)

    class Interrupted(Exception):
        pass

    def listener(event: Event) -> None:
        if isinstance(event, RequirementFinished):
            assert entered.wait(60)
            raise Interrupted

    order = [requirement(1), requirement(2)]
    runner = Runner(Environment(), {"DRV-TST-01": hangs, "DRV-TST-02": passes}, listener)
    with pytest.raises(Interrupted):
        runner.run(Plan(tuple(order), ()), order)
    held.set()


def test_what_a_result_shows_holds_no_secret_and_has_an_end() -> None:
    def talkative(bench: Any) -> None:
        raise Failed("my word", "a" * 5000 + " secret", [Evidence("log", "output", "a secret line")])

    (result,) = run([talkative], redact=lambda text: text.replace("secret", "[token]"))
    # Of 5008 characters (with [token] in place of secret) 2000 stay, half from each end.
    assert result.seen == "a" * 1000 + " [3008 characters left out] " + "a" * 992 + " [token]"
    assert result.evidence[0].text == "a [token] line"


def test_every_bench_is_closed() -> None:
    environment = Environment()
    run([passes, fails, breaks], environment)
    assert environment.closed == 3


def test_nothing_else_runs_when_the_gate_does_not_pass() -> None:
    ran = threading.Event()
    results = run([lambda bench: ran.set(), fails], gate="DRV-TST-02")
    assert [result.verdict for result in results] == [Verdict.SKIP, Verdict.FAIL]
    assert results[0].reason == "not testable: DRV-TST-02 did not pass"
    assert not ran.is_set()


def test_a_known_gap_takes_the_place_of_a_failure_where_it_applies() -> None:
    gap = KnownGap("kubelet", ("1.36",), "kubernetes/kubernetes#1")
    known = [requirement(1, known_gaps=(gap,))]
    applies = run([fails], requirements=known, gaps_apply=lambda found: found is gap)
    elsewhere = run([fails], requirements=known)
    assert applies[0].verdict is Verdict.KNOWN_GAP
    assert applies[0].reason == "known gap of kubelet 1.36: kubernetes/kubernetes#1"
    assert elsewhere[0].verdict is Verdict.FAIL


def test_listeners_hear_start_every_verdict_and_the_end() -> None:
    events: list[Event] = []
    run([passes, fails], events=events)
    assert events[0] == RunStarted(2, 2)
    assert {event.result.verdict for event in events if isinstance(event, RequirementFinished)} == {
        Verdict.PASS,
        Verdict.FAIL,
    }
    assert isinstance(events[-1], RunFinished)


def test_tests_run_at_the_same_time() -> None:
    barrier = threading.Barrier(3, timeout=10)
    assert {result.verdict for result in run([lambda bench: barrier.wait()] * 3)} == {Verdict.PASS}  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([], Verdict.DISABLED),
        ([Verdict.SKIP, Verdict.DISABLED], Verdict.SKIP),
        ([Verdict.PASS, Verdict.SKIP], Verdict.PASS),
        ([Verdict.KNOWN_GAP, Verdict.PASS], Verdict.KNOWN_GAP),
        ([Verdict.FAIL, Verdict.KNOWN_GAP], Verdict.FAIL),
        ([Verdict.ERROR, Verdict.FAIL], Verdict.ERROR),
    ],
)
def test_a_summary_takes_the_highest_verdict(verdicts: list[Verdict], expected: Verdict) -> None:
    assert highest(verdicts) is expected


def test_what_breaks_everything_runs_last_and_alone() -> None:
    log: list[str] = []
    alone = replace(requirement(1), isolation=Isolation.DISRUPTIVE)
    order = [alone, requirement(2), requirement(3)]

    def body(name: str) -> Callable[[Any], None]:
        def test(bench: Any) -> None:
            log.append(f"{name} begins")
            log.append(f"{name} ends")

        return test

    tests = {item.id: body(item.id) for item in order}
    runner = Runner(
        Environment(), tests, lambda event: None, alone=lambda item: item.isolation is Isolation.DISRUPTIVE
    )
    runner.run(Plan(tuple(order), ()), order)
    assert log[-2:] == ["DRV-TST-01 begins", "DRV-TST-01 ends"]
    assert len(log) == 6


def test_what_takes_turns_runs_after_the_others_of_its_cluster_and_beside_those_of_another() -> None:
    log: list[str] = []
    turns_began, elsewhere_may_end = threading.Event(), threading.Event()
    turns = [requirement(1), requirement(2)]
    others = [requirement(3), requirement(4)]
    elsewhere = requirement(5)

    def body(name: str) -> Callable[[Any], None]:
        def test(bench: Any) -> None:
            log.append(f"{name} begins")
            if name == turns[0].id:
                turns_began.set()
            if name == turns[1].id:
                elsewhere_may_end.set()
            if name == elsewhere.id:
                assert turns_began.wait(10)
                assert elsewhere_may_end.wait(10)
            log.append(f"{name} ends")

        return test

    order = [*turns, *others, elsewhere]
    runner = Runner(
        Environment(),
        {item.id: body(item.id) for item in order},
        lambda event: None,
        parallel=4,
        takes_turns=turns.__contains__,
        cluster=lambda item: item == elsewhere,
    )
    results = runner.run(Plan(tuple(order), ()), order)
    assert [result.verdict for result in results] == [Verdict.PASS] * 5
    here = [line for line in log if not line.startswith(elsewhere.id)]
    assert here[4:] == [f"{item.id} {what}" for item in turns for what in ("begins", "ends")]


@pytest.mark.parametrize("parallel", [1, 8])
def test_what_takes_turns_needs_no_others(parallel: int) -> None:
    order = [requirement(1), requirement(2)]
    runner = Runner(
        Environment(),
        {item.id: passes for item in order},
        lambda event: None,
        parallel=parallel,
        takes_turns=lambda item: True,
    )
    assert len(runner.run(Plan(tuple(order), ()), order)) == 2


@pytest.mark.parametrize(
    ("cause", "verdict"), [(SkipCause.TIER, Verdict.PASS), (SkipCause.DRIVER, Verdict.SKIP)]
)
def test_what_another_kind_of_cluster_is_needed_for_keeps_nothing_else_from_being_tested(
    cause: SkipCause, verdict: Verdict
) -> None:
    first = requirement(1)
    second = requirement(2, after=(first.id,))
    left_out = Result(first, Verdict.SKIP, "not here", cause=cause)
    runner = Runner(Environment(), {second.id: passes}, lambda event: None)
    results = runner.run(Plan((second,), (left_out,)), [first, second])
    assert [result.verdict for result in results] == [Verdict.SKIP, verdict]


def test_a_mistake_tells_what_does_not_work() -> None:
    def away(bench: Any) -> None:
        raise InputError("the API server cannot be reached", about="the cluster")

    assert run([away])[0].reason == (
        "not judged, the cluster does not work: the API server cannot be reached"
    )
