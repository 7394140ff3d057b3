"""Benches for contract tests: running drivers are shared one test after another, the rest get a node of their own."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator
from types import TracebackType

from clusters.descriptor import Descriptor
from clusters.interface import Cluster
from clusters.process import StartError
from conformance.contract.bench import Bench
from conformance.contract.findings import Findings
from conformance.model import Failed, InputError, Isolation, NotTestable, Requirement
from conformance.waiting import heeding

_CLOSE_SECONDS = 10.0
SHARED_DRIVERS = 3
"""Starting a driver costs more than most tests: few are shared by many."""


class ContractEnvironment:
    """Benches for contract tests: running drivers are shared one after another, the rest get a node each."""

    def __init__(self, cluster: Cluster, descriptor: Descriptor, *, few: bool = False) -> None:
        """`few`: so few tests are going to run that each may find out by itself that the driver does not register."""
        self._cluster = cluster
        self._descriptor = descriptor
        self._client = cluster.client("admin")
        self._idle: queue.SimpleQueue[Bench] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._all: list[Bench] = []
        self._sharing = threading.Semaphore(SHARED_DRIVERS)
        self._findings = Findings()
        self._registers = few
        self._unregistered = ""

    def __enter__(self) -> ContractEnvironment:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # Each takes a while, and after an interrupt the user waits for the end.
        threads = [
            threading.Thread(target=self._discard, args=(bench,), daemon=True) for bench in list(self._all)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(_CLOSE_SECONDS)

    @contextlib.contextmanager
    def bench(self, requirement: Requirement) -> Iterator[Bench]:
        """A bench for one test: with a running driver for parallel ones, with a prepared node for the others."""
        try:
            with self._bench(requirement) as bench:
                yield bench
        except StartError as error:
            raise InputError(str(error), fatal=not self._findings.started) from None

    @contextlib.contextmanager
    def _bench(self, requirement: Requirement) -> Iterator[Bench]:
        needs_registration = requirement.area != "registration"
        if needs_registration:
            self._require_registration()
        bench = self._new() if requirement.isolation is Isolation.EXCLUSIVE else self._shared()
        bench.begin()
        healthy = False
        try:
            with heeding(lambda: bench.starved):
                if bench.shared and needs_registration:
                    with _evidence(bench):
                        bench.wait_registered()
                yield bench
                with _evidence(bench):
                    if requirement.isolation is Isolation.PARALLEL:
                        bench.check_alive()
                    if bench.shared and bench.process.running and not bench.spoiled:
                        healthy = bench.tidy()
        except OSError:
            # The kit looks into directories that the driver can remove.
            with _evidence(bench):
                bench.check_directories()
            raise
        finally:
            if healthy:
                self._give_back(bench)
            else:
                self._discard(bench)

    def _require_registration(self) -> None:
        """Find out once whether this driver registers at all; otherwise every test would wait for it in vain."""
        with self._lock:
            if self._registers:
                return
            if not self._unregistered:
                bench = self._shared()
                try:
                    with heeding(lambda: bench.starved):
                        bench.wait_registered()
                except Failed as failure:
                    self._unregistered = f"the driver did not register: {failure.seen}"
                    self._discard(bench)
                else:
                    self._registers = True
                    self._give_back(bench)
            if self._unregistered:
                raise NotTestable(self._unregistered)

    def _shared(self) -> Bench:
        """A bench with a running driver: one that is free, else a new one as long as there are few."""
        self._sharing.acquire()
        try:
            return self._idle.get_nowait()
        except queue.Empty:
            try:
                bench = self._new()
            except BaseException:
                self._sharing.release()
                raise
        bench.shared = True
        try:
            bench.start(wait=False)
        except BaseException:
            self._discard(bench)
            raise
        return bench

    def _give_back(self, bench: Bench) -> None:
        self._idle.put(bench)
        self._sharing.release()

    def _new(self) -> Bench:
        bench = Bench(self._cluster.add_node(), self._client, self._descriptor, self._findings)
        self._all.append(bench)
        return bench

    def _discard(self, bench: Bench) -> None:
        with contextlib.suppress(ValueError):
            self._all.remove(bench)
            if bench.shared:
                self._sharing.release()
            bench.close()


@contextlib.contextmanager
def _evidence(bench: Bench) -> Iterator[None]:
    """Add to a failure outside of a test what was seen, as long as the bench exists."""
    try:
        yield
    except Failed as failure:
        evidence = (*failure.evidence, *bench.evidence())
        raise Failed(failure.expected, failure.seen, evidence) from None
