from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from component_harness import api_server, background, client_of, config_map, until

from clusters.client import ClientError
from clusters.clock import Clock, parse_stamp, stamp
from clusters.embedded.apiserver.thread import ServerThread
from clusters.embedded.components.informer import Informer
from clusters.embedded.components.workqueue import WorkQueue, run_workers


@pytest.fixture
def server() -> Iterator[ServerThread]:
    with api_server() as thread:
        yield thread


def test_sleepers_wake_when_the_clock_is_advanced() -> None:
    async def scenario() -> None:
        clock = Clock()
        task = asyncio.create_task(clock.sleep(600))
        await asyncio.sleep(0.01)
        assert not task.done()
        clock.advance(599)
        await asyncio.sleep(0.01)
        assert not task.done()
        clock.advance(1)
        await asyncio.wait_for(task, 2)

    asyncio.run(scenario())


def test_the_clock_does_not_step_back() -> None:
    with pytest.raises(ValueError, match="forward"):
        Clock().advance(-1)


def test_timestamps_have_the_form_of_the_api() -> None:
    clock = Clock(lambda: 1_700_000_000.25)
    assert clock.timestamp() == "2023-11-14T22:13:20Z"
    assert clock.micro_timestamp() == "2023-11-14T22:13:20.250000Z"
    assert parse_stamp("2023-11-14T22:13:20.250000Z") == 1_700_000_000.25
    assert stamp(parse_stamp("2023-11-14T22:13:20Z")) == "2023-11-14T22:13:20Z"


def test_an_informer_follows_changes_and_survives_a_restart_of_the_server(server: ServerThread) -> None:
    async def scenario() -> None:
        seen: list[tuple[str, str]] = []

        def note(old: Any, new: Any) -> None:
            kind = "add" if old is None else "delete" if new is None else "update"
            seen.append((kind, (new or old)["metadata"]["name"]))

        async with client_of(server) as client:
            await client.create("v1", "configmaps", config_map("a", color="red"), "default")
            informer = Informer(client, "v1", "configmaps", "default")
            informer.index("color", lambda obj: [obj.get("data", {}).get("color", "")])
            informer.add_handler(note)
            async with background(informer.run()):
                await informer.wait_synced()
                assert informer.get("default", "a") is not None
                await client.create("v1", "configmaps", config_map("b", color="blue"), "default")
                await until(lambda: len(informer) == 2, "b appears")
                assert [item["metadata"]["name"] for item in informer.by_index("color", "blue")] == ["b"]
                await asyncio.to_thread(server.stop)
                await asyncio.to_thread(server.start)
                await client.patch("v1", "configmaps", "b", {"data": {"color": "red"}}, "default")
                await until(lambda: len(informer.by_index("color", "red")) == 2, "b becomes red")
                assert informer.by_index("color", "blue") == []
                await client.delete("v1", "configmaps", "a", "default")
                await until(lambda: len(informer) == 1, "a goes")
        assert seen == [("add", "a"), ("add", "b"), ("update", "b"), ("delete", "a")]

    asyncio.run(scenario())


def test_an_informer_lists_again_when_its_version_has_expired(server: ServerThread) -> None:
    async def scenario() -> None:
        async with client_of(server) as client:
            informer = Informer(client, "v1", "configmaps", "default")
            task = asyncio.create_task(informer.run())
            await informer.wait_synced()
            for name in ("a", "b"):
                await client.create("v1", "configmaps", config_map(name), "default")
            await until(lambda: len(informer) == 2, "both appear")
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await client.delete("v1", "configmaps", "a", "default")
            await client.create("v1", "configmaps", config_map("c"), "default")
            store = server.state.store
            await asyncio.to_thread(server.call, store.compact)
            async with background(informer.run()):
                await until(lambda: informer.get("default", "c") is not None, "c appears")
                assert informer.get("default", "a") is None

    asyncio.run(scenario())


def test_a_key_added_several_times_is_handled_once_and_never_twice_at_a_time() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue(Clock())
        running, most, handled = 0, 0, []

        async def sync(key: str) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            handled.append(key)
            if len(handled) == 1:
                queue.add(key)  # while it is handled: once more afterwards
                queue.add(key)
            await asyncio.sleep(0.01)
            running -= 1

        for _ in range(5):
            queue.add("a")
        async with background(run_workers(queue, sync, workers=3)):
            await until(lambda: len(handled) == 2 and running == 0, "two rounds")
            await asyncio.sleep(0.02)
        assert handled == ["a", "a"]
        assert most == 1

    asyncio.run(scenario())


def test_a_failed_key_is_retried_later_and_later() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue(Clock())
        attempts: list[float] = []

        async def sync(key: str) -> None:
            attempts.append(time.monotonic())
            if len(attempts) < 4:
                raise ClientError(409, "Conflict", "try again")

        queue.add("a")
        async with background(run_workers(queue, sync)):
            await until(lambda: len(attempts) == 4, "four attempts")
            await until(lambda: queue.retries("a") == 0, "forgotten after success")
        gaps = [later - earlier for earlier, later in itertools.pairwise(attempts)]
        # 5, 10 and 20 ms at least
        assert gaps[0] >= 0.005
        assert gaps[1] >= 0.010
        assert gaps[2] >= 0.020

    asyncio.run(scenario())


class _ShortWatches:
    """A client whose server ends every watch at once."""

    def __init__(self) -> None:
        self.watches = 0

    async def list(self, *place: Any, **query: Any) -> dict[str, Any]:
        return {"metadata": {"resourceVersion": "1"}, "items": []}

    async def watch(self, *place: Any, **query: Any) -> AsyncIterator[Any]:
        self.watches += 1
        for event in ():
            yield event


def test_a_server_that_ends_watches_at_once_is_asked_less_and_less() -> None:
    async def scenario() -> None:
        client: Any = _ShortWatches()
        began = time.monotonic()
        async with background(Informer(client, "v1", "pods").run()):
            await until(lambda: client.watches >= 4, "four watches")
        # Pauses of at least 0.1, 0.2 and 0.4 s.
        assert time.monotonic() - began >= 0.7

    asyncio.run(scenario())
