"""The order among calls for one claim, and what one hanging call may do to the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from driver.sdk import gates as module
from driver.sdk.errors import ClaimError
from driver.sdk.gates import Gates


@contextmanager
def hanging_prepare(gates: Gates, uid: str) -> Iterator[None]:
    """While this lasts, another thread is in the middle of a prepare of the claim."""
    inside, release = threading.Event(), threading.Event()

    def prepare() -> None:
        with gates.enter(uid) as visit, visit.preparing():
            inside.set()
            release.wait(30)

    thread = threading.Thread(target=prepare)
    thread.start()
    assert inside.wait(10)
    try:
        yield
    finally:
        release.set()
        thread.join()


def test_a_prepare_that_waited_for_its_turn_while_an_unprepare_came_is_refused() -> None:
    gates = Gates()
    with gates.enter("u") as visit:
        with gates.enter("u") as other, other.unpreparing() as mine:
            assert mine
        with pytest.raises(ClaimError, match="unprepared while"), visit.preparing():
            pass
    with gates.enter("u") as visit, visit.preparing():
        assert not visit.overtaken()


def test_a_call_has_begun_for_all_its_claims_before_the_first_one_s_turn() -> None:
    gates = Gates()
    with gates.call(["a", "b"], lambda: True):
        # The call is still busy with claim a when another thread unprepares both.
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: [unprepare(gates, uid) for uid in "ab"]).result()
        with (
            gates.enter("b") as visit,
            pytest.raises(ClaimError, match="unprepared while"),
            visit.preparing(),
        ):
            pass
    with gates.enter("b") as visit, visit.preparing():
        assert not visit.overtaken()


def unprepare(gates: Gates, uid: str) -> bool:
    with gates.enter(uid) as visit, visit.unpreparing() as mine:
        return mine


def test_an_unprepare_waits_for_a_prepare_that_has_had_its_last_look() -> None:
    gates, order = Gates(), []
    looked, release = threading.Event(), threading.Event()

    def prepare() -> None:
        with gates.enter("u") as visit, visit.preparing():
            assert not visit.overtaken()
            looked.set()
            release.wait(10)
            order.append("prepared")

    first = threading.Thread(target=prepare)
    first.start()
    assert looked.wait(10)
    second = threading.Thread(target=lambda: order.append(f"unprepared {unprepare(gates, 'u')}"))
    second.start()
    while not gates._gates["u"].epoch:
        assert second.is_alive()
    release.set()
    first.join()
    second.join()
    assert order == ["prepared", "unprepared True"]


def test_an_unprepare_hands_the_cleaning_over_to_a_prepare_that_hangs() -> None:
    gates = Gates()
    with hanging_prepare(gates, "u"):
        assert not unprepare(gates, "u")


def test_a_call_that_nobody_waits_for_any_more_does_not_wait_either() -> None:
    gates = Gates()
    with hanging_prepare(gates, "u"):
        began = time.monotonic()
        hangs = pytest.raises(ClaimError, match="earlier call for the claim hangs")
        with gates.call(["u"], lambda: False), gates.enter("u") as visit, hangs, visit.preparing():
            pass
        assert time.monotonic() - began < module.WAIT_SECONDS / 2


def test_a_call_does_not_wait_for_ever_for_one_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.1)
    gates = Gates()
    hangs = pytest.raises(ClaimError, match="earlier call for the claim hangs")
    with hanging_prepare(gates, "u"), gates.enter("u") as visit, hangs, visit.preparing():
        pass


def test_a_waiting_prepare_leaves_when_an_unprepare_has_come() -> None:
    gates = Gates()
    with hanging_prepare(gates, "u"), gates.enter("u") as visit:
        assert not unprepare(gates, "u")
        with pytest.raises(ClaimError, match="unprepared while"), visit.preparing():
            pass


def test_background_work_leaves_a_claim_alone_while_a_call_for_it_runs() -> None:
    gates = Gates()
    with hanging_prepare(gates, "u"), gates.enter("u") as visit, visit.alone() as mine:
        assert not mine
    with gates.enter("u") as visit, visit.alone() as mine:
        assert mine


def test_a_gate_without_visitors_is_forgotten() -> None:
    gates = Gates()
    with gates.call(["a", "b"], lambda: True), gates.enter("a") as visit, visit.preparing():
        pass
    assert gates._gates == {}
