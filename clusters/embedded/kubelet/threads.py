"""Blocking calls, each in a thread that no other call waits for."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Final, ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
_IDLE_SECONDS: Final = 5.0
_IDLE: Final[deque[SimpleQueue[Callable[[], None]]]] = deque()


async def in_thread(
    function: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs
) -> Result:
    """Run a function in an idle or new thread and wait for its result.

    Not in the loop's own pool: that has few threads, and drivers that hang would keep everybody's calls waiting.
    When the caller is cancelled the thread goes on, and nobody gets the result.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()

    def settle(outcome: Any, failed: bool) -> None:
        if future.cancelled():
            return
        if failed:
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

    def work() -> None:
        outcome: Any
        failed = False
        try:
            outcome = function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - raised again where it is awaited
            outcome, failed = error, True
        # The loop may have ended meanwhile.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, outcome, failed)

    _hand_over(work)
    return await future


def _hand_over(work: Callable[[], None]) -> None:
    # Starting a thread blocks the loop until the new one has run: on a busy machine longer than the call itself.
    try:
        jobs = _IDLE.pop()
    except IndexError:
        jobs = SimpleQueue()
        threading.Thread(target=_serve, args=(jobs,), name="kubelet call", daemon=True).start()
    jobs.put(work)


def _serve(jobs: SimpleQueue[Callable[[], None]]) -> None:
    """Do one job after another, until for some time there is none."""
    while True:
        try:
            work = jobs.get(timeout=_IDLE_SECONDS)
        except Empty:
            with contextlib.suppress(ValueError):
                _IDLE.remove(jobs)
                return
            # Chosen for a job at the last moment.
            work = jobs.get()
        work()
        _IDLE.append(jobs)
