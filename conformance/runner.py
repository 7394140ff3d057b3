"""Runs planned requirements in threads and turns what happens into verdicts."""

from __future__ import annotations

import queue
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from conformance.events import Listener, RequirementFinished, RequirementStarted, RunFinished, RunStarted
from conformance.model import (
    Evidence,
    Failed,
    InputError,
    KnownGap,
    NotTestable,
    Requirement,
    Result,
    SkipCause,
    Verdict,
)
from conformance.planner import Plan


class Bench(Protocol):
    """What a test gets: the means to talk to the subject. `evidence()` is collected when it fails."""

    def evidence(self) -> Sequence[Evidence]:
        """What was seen since the test began."""
        ...


class Environment(Protocol):
    """Gives every test its bench."""

    def bench(self, requirement: Requirement) -> AbstractContextManager[Bench]:
        """A bench for one test; leaving the context cleans up."""
        ...


Body = Callable[[Any], None]
_TEXT_CHARACTERS = 2000
_EVIDENCE_CHARACTERS = 40_000


class Runner:
    """Runs a plan. What others come `after` runs first; when it does not pass, those cannot be tested.
    Tests for which `alone` says so run one by one at the end. Those for which `takes_turns` says so run one by one as
    soon as all others of their `cluster` have ended, beside tests of other clusters.

    `redact` takes secrets out of every text that a result shows. An interrupt ends `run` at once: tests still running
    are left to themselves, and whoever closes the environment takes away what they work with.
    """

    def __init__(
        self,
        environment: Environment,
        tests: Mapping[str, Body],
        listener: Listener,
        *,
        gaps_apply: Callable[[KnownGap], bool] = lambda gap: False,
        parallel: int = 8,
        alone: Callable[[Requirement], bool] = lambda requirement: False,
        takes_turns: Callable[[Requirement], bool] = lambda requirement: False,
        cluster: Callable[[Requirement], Hashable] = lambda requirement: "",
        redact: Callable[[str], str] = lambda text: text,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._environment = environment
        self._tests = tests
        self._listener = listener
        self._gaps_apply = gaps_apply
        self._parallel = parallel
        self._alone = alone
        self._takes_turns = takes_turns
        self._cluster = cluster
        self._redact = redact
        self._clock = clock
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def run(self, plan: Plan, order: Sequence[Requirement]) -> tuple[Result, ...]:
        """Verdicts of all requirements in the given order. Raises InputError when none can be judged."""
        started = self._clock()
        results = {result.requirement.id: result for result in plan.settled}
        self._emit(RunStarted(len(order), len(plan.run)))
        pending = sorted(plan.run, key=lambda requirement: -requirement.seconds)
        gates = {name for requirement in pending for name in requirement.after}
        first = [requirement for requirement in pending if requirement.id in gates]
        rest = [requirement for requirement in pending if requirement.id not in gates]
        for result in self._together(first):
            results[result.requirement.id] = result
        run: list[Requirement] = []
        for requirement in rest:
            closed = [name for name in requirement.after if name in results and not _open(results[name])]
            if closed:
                reason = f"not testable: {closed[0]} did not pass"
                skipped = Result(requirement, Verdict.SKIP, reason, cause=SkipCause.PREREQUISITE)
                results[requirement.id] = self._settle(skipped)
            else:
                run.append(requirement)
        alone = [requirement for requirement in run if self._alone(requirement)]
        for result in self._together([requirement for requirement in run if requirement not in alone]):
            results[result.requirement.id] = result
        for requirement in alone:
            results[requirement.id] = self._one(requirement)
        ordered = tuple(results[requirement.id] for requirement in order)
        self._emit(RunFinished(ordered, self._clock() - started))
        return ordered

    def _together(self, requirements: Sequence[Requirement]) -> Iterator[Result]:
        """Run tests at the same time; their results as they come.

        The threads are daemons, since a test may wait for a long time in a call that nothing can interrupt.
        """
        waiting = _Waiting(requirements, self._takes_turns, self._cluster)
        done: queue.SimpleQueue[Result | BaseException] = queue.SimpleQueue()

        def work() -> None:
            while turn := waiting.next():
                for requirement in turn:
                    if self._stopped.is_set():
                        return
                    try:
                        done.put(self._one(requirement))
                    except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
                        done.put(error)
                    waiting.ended(requirement)

        completed = False
        try:
            for number in range(min(self._parallel, len(requirements))):
                threading.Thread(target=work, name=f"test-{number}", daemon=True).start()
            for _ in requirements:
                outcome = done.get()
                if isinstance(outcome, BaseException):
                    raise outcome
                yield outcome
            completed = True
        finally:
            if not completed:
                self._stopped.set()

    def _emit(self, event: Any) -> None:
        with self._lock:
            if not self._stopped.is_set() or isinstance(event, RunFinished):
                self._listener(event)

    def _settle(self, result: Result) -> Result:
        self._emit(RequirementFinished(result))
        return result

    def _one(self, requirement: Requirement) -> Result:
        self._emit(RequirementStarted(requirement))
        started = self._clock()
        return self._settle(self._judge(requirement, started))

    def _judge(self, requirement: Requirement, started: float) -> Result:
        def result(verdict: Verdict, reason: str = "", **more: Any) -> Result:
            reason = self._text(reason, _TEXT_CHARACTERS)
            return Result(requirement, verdict, reason, seconds=self._clock() - started, **more)

        failed: Result | None = None
        try:
            with self._environment.bench(requirement) as bench:
                try:
                    self._tests[requirement.id](bench)
                except Failed as failure:
                    evidence = (*failure.evidence, *bench.evidence())
                    failed = self._failed(requirement, failure, evidence, started)
            return failed or result(Verdict.PASS)
        except Failed as failure:
            # Of two failures the one of the test counts, and not what follows from it.
            return failed or self._failed(requirement, failure, failure.evidence, started)
        except NotTestable as outcome:
            return result(Verdict.SKIP, f"not testable here: {outcome}", cause=SkipCause.DRIVER)
        except InputError as error:
            if error.fatal:
                raise
            return result(Verdict.ERROR, f"not judged, {error.about} does not work: {error}", mistake=True)
        except Exception as error:  # noqa: BLE001 - whatever the kit itself does wrong is a verdict of its own
            text = traceback.format_exc()
            return result(
                Verdict.ERROR,
                f"the kit broke: {type(error).__name__}: {error}",
                evidence=self._shown([Evidence("log", "traceback of the kit", text)]),
            )

    def _failed(
        self, requirement: Requirement, failure: Failed, evidence: Sequence[Evidence], started: float
    ) -> Result:
        gap = next((gap for gap in requirement.known_gaps if self._gaps_apply(gap)), None)
        return Result(
            requirement,
            Verdict.KNOWN_GAP if gap else Verdict.FAIL,
            f"known gap of {gap.component} {', '.join(gap.versions)}: {gap.issue}" if gap else "",
            self._text(failure.expected, _TEXT_CHARACTERS),
            self._text(failure.seen, _TEXT_CHARACTERS),
            self._shown(evidence),
            self._clock() - started,
        )

    def _shown(self, evidence: Sequence[Evidence]) -> tuple[Evidence, ...]:
        return tuple(
            Evidence(item.kind, item.title, self._text(item.text, _EVIDENCE_CHARACTERS)) for item in evidence
        )

    def _text(self, text: str, limit: int) -> str:
        """A text ready for a report: without secrets, and not longer than the limit with its middle left out."""
        text = self._redact(text)
        if len(text) <= limit:
            return text
        half = limit // 2
        return f"{text[:half]} [{len(text) - 2 * half} characters left out] {text[-half:]}"


class _Waiting:
    """What has not begun yet. What takes turns on a cluster comes as one piece, after all others of that cluster."""

    def __init__(
        self,
        requirements: Sequence[Requirement],
        takes_turns: Callable[[Requirement], bool],
        cluster: Callable[[Requirement], Hashable],
    ) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._turns: dict[Hashable, list[Requirement]] = {}
        others = [requirement for requirement in requirements if not takes_turns(requirement)]
        self._running = Counter(map(cluster, others))
        for requirement in requirements:
            if takes_turns(requirement):
                self._turns.setdefault(cluster(requirement), []).append(requirement)
        # First what others wait for.
        others.sort(key=lambda requirement: cluster(requirement) not in self._turns)
        self._ready = deque([requirement] for requirement in others)
        for key in [key for key in self._turns if not self._running[key]]:
            self._ready.appendleft(self._turns.pop(key))

    def next(self) -> list[Requirement]:
        """Requirements for one thread, one after another; none when there is nothing that could begin.

        What cannot begin yet is for the thread that ends what it waits for.
        """
        with self._lock:
            return self._ready.popleft() if self._ready else []

    def ended(self, requirement: Requirement) -> None:
        """A requirement has been judged."""
        with self._lock:
            key = self._cluster(requirement)
            self._running[key] -= 1
            if self._running[key] == 0 and key in self._turns:
                self._ready.appendleft(self._turns.pop(key))


def _open(result: Result) -> bool:
    """Whether what comes after a requirement can be tested; one that is disabled, or needs another kind of cluster, is
    not asked.
    """
    asked = result.verdict is not Verdict.DISABLED and result.cause is not SkipCause.TIER
    return not asked or result.verdict in (Verdict.PASS, Verdict.KNOWN_GAP)
