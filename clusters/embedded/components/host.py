"""Hosts components in a thread with an event loop of its own, for synchronous callers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from clusters.embedded.components.client import ApiClient
from clusters.embedded.components.component import Component, Context
from clusters.log_files import LogFile

LOG_LINES: Final = 2000
"""How many lines of a component's log are kept in memory."""

_WAIT_SECONDS: Final = 60.0
_FIRST_RESTART, _LAST_RESTART = 0.2, 5.0
Result = TypeVar("Result")


@dataclass
class _Entry:
    factory: Callable[[], Component]
    context: Callable[[logging.Logger], Context]
    log: logging.Logger
    lines: deque[str]
    task: asyncio.Task[None] | None = None
    stopping: bool = False
    """Whether somebody ends the task; what it says of itself may count the cancellations of groups that have failed."""


class Lines(logging.Handler):
    """Keeps the last lines of a component's log; its file has all of them."""

    def __init__(self, lines: deque[str], file: LogFile | None) -> None:
        super().__init__()
        self._lines = lines
        self._file = file
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname).1s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a message."""
        line = self.format(record)
        self._lines.append(line)
        if self._file is not None:
            self._file.write(f"{line}\n".encode(errors="replace"))


def logger(name: str) -> logging.Logger:
    """The logger of one component, whose messages go to its own handlers alone."""
    log = logging.getLogger(f"drakit.component.{name}")
    log.propagate = False
    log.setLevel(logging.INFO)
    return log


class ComponentHost:
    """Starts, stops, kills and restarts components by name. Thread safe.

    A component whose `run` ends with an exception is started anew after a pause, as a crashed static Pod would be.
    """

    def __init__(self, logs: Path | None = None) -> None:
        """`logs` is the folder for the logs of all components."""
        self._logs = logs
        self._entries: dict[str, _Entry] = {}
        self._clients: weakref.WeakSet[ApiClient] = weakref.WeakSet()
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="components", daemon=True)
        self._thread.start()
        self._ready.wait()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.call_soon(self._ready.set)
        self._loop.run_forever()

    def call(self, coroutine: Coroutine[Any, Any, Result], timeout: float = _WAIT_SECONDS) -> Result:
        """Run a coroutine in the loop of the components and wait for its result. Raises TimeoutError."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result(timeout)
        except TimeoutError:
            future.cancel()
            raise

    def register(
        self, name: str, factory: Callable[[], Component], context: Callable[[logging.Logger], Context]
    ) -> None:
        """Make a component known; `factory` and `context` are called for each life, in the loop."""
        lines: deque[str] = deque(maxlen=LOG_LINES)
        log = logger(f"{id(self):x}.{name}")
        log.addHandler(Lines(lines, LogFile(self._logs, name) if self._logs is not None else None))
        self._entries[name] = _Entry(factory, context, log, lines)

    def names(self) -> list[str]:
        """All registered components."""
        return list(self._entries)

    def start(self, *names: str) -> None:
        """Start components; without effect on those that run."""
        self.call(self._start([self._entries[name] for name in names]))

    def stop(self, *names: str) -> None:
        """Cancel components and wait for their end; without effect on those that do not run."""
        self.call(self._stop([self._entries[name] for name in names]))

    kill = stop
    """Components have no shutdown code: being stopped and being killed are one thing."""

    def restart(self, *names: str) -> None:
        """Stop and start."""
        self.stop(*names)
        self.start(*names)

    def running(self, name: str) -> bool:
        """Whether the component runs."""
        task = self._entries[name].task
        return task is not None and not task.done()

    def logs(self, name: str) -> list[str]:
        """The last lines that the component logged, over all of its lives."""
        return list(self._entries[name].lines)

    def close(self) -> None:
        """Cancel all components and end the thread."""
        if self._loop.is_closed():
            return
        with contextlib.suppress(TimeoutError):
            self.call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_WAIT_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()
        for entry in self._entries.values():
            entry.log.handlers.clear()

    async def _start(self, entries: list[_Entry]) -> None:
        for entry in entries:
            while entry.task is not None and entry.stopping and not entry.task.done():
                # Somebody stops it at the same time: it is started anew after that.
                await asyncio.wait([entry.task])
            if entry.task is None or entry.task.done():
                entry.stopping = False
                entry.task = asyncio.get_running_loop().create_task(self._live(entry))

    async def _stop(self, entries: list[_Entry]) -> None:
        tasks = []
        for entry in entries:
            if entry.task is not None:
                tasks.append(entry.task)
                # Who stops for somebody else already is not to be disturbed at closing connections.
                if not entry.stopping:
                    entry.stopping = True
                    entry.task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _end(self) -> None:
        await self._stop(list(self._entries.values()))
        # What components left behind: timers of queues, threads' futures.
        current = asyncio.current_task()
        rest = [task for task in asyncio.all_tasks() if task is not current]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        await asyncio.get_running_loop().shutdown_asyncgens()
        await asyncio.gather(*(client.close() for client in self._clients))

    async def _live(self, entry: _Entry) -> None:
        pause = _FIRST_RESTART
        while True:
            try:
                context = entry.context(entry.log)
                self._clients.update((context.client, context.reader))
                # Of one client both are the same, and closing twice does no harm.
                async with context.client, context.reader:
                    await entry.factory().run(context)
                entry.log.info("ended")
                return
            except Exception:  # whatever ends a component is in its log, and it comes back
                if entry.stopping:
                    # It has failed while it was cancelled, of which nothing else is left then.
                    return
                entry.log.exception("crashed; next life in %.1f s", pause)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LAST_RESTART)
