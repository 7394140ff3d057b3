"""Runs planned requirements in threads and turns what happens into verdicts."""

from __future__ import annotations

import concurrent.futures
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from conformance.events import Listener, RequirementFinished, RequirementStarted, RunFinished, RunStarted
from conformance.model import Evidence, Failed, KnownGap, NotTestable, Requirement, Result, Verdict
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


class Runner:
    """Runs a plan. The gate requirement runs first; when it does not pass, nothing else can be tested."""

    def __init__(
        self,
        environment: Environment,
        tests: Mapping[str, Body],
        listener: Listener,
        *,
        gaps_apply: Callable[[KnownGap], bool] = lambda gap: False,
        parallel: int = 8,
        gate: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._environment = environment
        self._tests = tests
        self._listener = listener
        self._gaps_apply = gaps_apply
        self._parallel = parallel
        self._gate = gate
        self._clock = clock
        self._lock = threading.Lock()

    def run(self, plan: Plan, order: Sequence[Requirement]) -> tuple[Result, ...]:
        """Verdicts of all requirements in the given order."""
        started = self._clock()
        results = {result.requirement.id: result for result in plan.settled}
        self._emit(RunStarted(len(order), len(plan.run)))
        pending = sorted(plan.run, key=lambda requirement: -requirement.seconds)
        gate = next((requirement for requirement in pending if requirement.id == self._gate), None)
        if gate is not None:
            result = self._one(gate)
            results[gate.id] = result
            pending.remove(gate)
            if result.verdict is not Verdict.PASS:
                reason = f"not testable: {gate.id} did not pass"
                for requirement in pending:
                    results[requirement.id] = self._settle(Result(requirement, Verdict.SKIP, reason))
                pending = []
        with concurrent.futures.ThreadPoolExecutor(self._parallel, thread_name_prefix="test") as pool:
            futures = [pool.submit(self._one, requirement) for requirement in pending]
            try:
                for future in concurrent.futures.as_completed(futures):
                    result = future.result()
                    results[result.requirement.id] = result
            except BaseException:
                for future in futures:
                    future.cancel()
                raise
        ordered = tuple(results[requirement.id] for requirement in order)
        self._emit(RunFinished(ordered, self._clock() - started))
        return ordered

    def _emit(self, event: Any) -> None:
        with self._lock:
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
            return Result(requirement, verdict, reason, seconds=self._clock() - started, **more)

        try:
            with self._environment.bench(requirement) as bench:
                try:
                    self._tests[requirement.id](bench)
                except Failed as failure:
                    evidence = (*failure.evidence, *bench.evidence())
                    return self._failed(requirement, failure, evidence, started)
            return result(Verdict.PASS)
        except Failed as failure:
            return self._failed(requirement, failure, failure.evidence, started)
        except NotTestable as outcome:
            return result(Verdict.SKIP, f"not testable here: {outcome}")
        except Exception as error:  # noqa: BLE001 - whatever the kit itself does wrong is a verdict of its own
            text = traceback.format_exc()
            return result(
                Verdict.ERROR,
                f"the kit broke: {type(error).__name__}: {error}",
                evidence=(Evidence("log", "traceback of the kit", text),),
            )

    def _failed(
        self, requirement: Requirement, failure: Failed, evidence: Sequence[Evidence], started: float
    ) -> Result:
        gap = next((gap for gap in requirement.known_gaps if self._gaps_apply(gap)), None)
        return Result(
            requirement,
            Verdict.KNOWN_GAP if gap else Verdict.FAIL,
            f"known gap of {gap.component} {', '.join(gap.versions)}: {gap.issue}" if gap else "",
            failure.expected,
            failure.seen,
            tuple(evidence),
            self._clock() - started,
        )
