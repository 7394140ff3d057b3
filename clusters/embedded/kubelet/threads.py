"""Blocking calls, each in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


async def in_thread(
    function: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs
) -> Result:
    """Run a function in a new thread and wait for its result.

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

    threading.Thread(target=work, name=f"kubelet {function.__name__}", daemon=True).start()
    return await future
