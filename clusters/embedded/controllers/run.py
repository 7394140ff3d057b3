"""What the life of every controller is made of."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

from clusters.embedded.components.events import EventRecorder
from clusters.embedded.components.informer import Informer
from clusters.embedded.components.workqueue import WorkQueue, run_workers

Key = TypeVar("Key")


async def run_controller(
    log: logging.Logger,
    informers: Iterable[Informer],
    queue: WorkQueue[Key],
    sync: Callable[[Key], Awaitable[None]],
    *,
    workers: int = 1,
    recorder: EventRecorder | None = None,
    further: Iterable[Callable[[], Coroutine[Any, Any, None]]] = (),
) -> None:
    """Fill the caches, then handle the keys of the queue until cancelled; `further` runs beside that."""
    informers = list(informers)
    async with asyncio.TaskGroup() as group:
        for informer in informers:
            group.create_task(informer.run())
        if recorder is not None:
            group.create_task(recorder.run())
        for informer in informers:
            await informer.wait_synced()
        for work in further:
            group.create_task(work())
        log.info("caches are filled")
        await run_workers(queue, sync, workers, log=log)
