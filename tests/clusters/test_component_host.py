from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from component_harness import api_server, client_of, config_map

from clusters.clock import Clock
from clusters.embedded.apiserver.thread import ServerThread
from clusters.embedded.components.component import Context
from clusters.embedded.components.host import ComponentHost
from clusters.embedded.components.informer import Informer


@pytest.fixture
def server() -> Iterator[ServerThread]:
    with api_server() as thread:
        yield thread


class _Counter:
    """A component that counts its lives in a list of the test, and crashes in the first."""

    def __init__(self, lives: list[int]) -> None:
        self._lives = lives

    async def run(self, context: Context) -> None:
        self._lives.append(len(self._lives))
        context.log.info("life %d", len(self._lives))
        if len(self._lives) == 1:
            raise RuntimeError("first life")
        await asyncio.Event().wait()


def test_a_crashed_component_comes_back_and_stopped_ones_stay_away(server: ServerThread) -> None:
    host = ComponentHost()
    lives: list[int] = []

    def context(log: logging.Logger) -> Context:
        return Context(client_of(server), Clock(), {}, log)

    try:
        host.register("counter", lambda: _Counter(lives), context)
        host.start("counter")
        deadline = time.monotonic() + 5
        while len(lives) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert host.running("counter")
        host.restart("counter")
        while len(lives) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        host.stop("counter")
        assert not host.running("counter")
        assert lives == [0, 1, 2]
        assert any("first life" in line for line in host.logs("counter"))
    finally:
        host.close()


class _Slow:
    """A component that needs a moment to end."""

    def __init__(self, ending: threading.Event) -> None:
        self._ending = ending

    async def run(self, context: Context) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self._ending.set()
            await asyncio.sleep(0.2)


def test_a_component_that_is_started_while_it_is_being_stopped_runs(server: ServerThread) -> None:
    host = ComponentHost()
    ending = threading.Event()
    try:
        host.register("slow", lambda: _Slow(ending), lambda log: Context(client_of(server), Clock(), {}, log))
        host.start("slow")
        time.sleep(0.05)
        stopping = threading.Thread(target=host.stop, args=("slow",))
        stopping.start()
        assert ending.wait(5)
        host.start("slow")
        stopping.join()
        assert host.running("slow")
    finally:
        host.close()


def test_a_component_comes_back_when_its_client_could_not_be_made(server: ServerThread) -> None:
    host = ComponentHost()
    lives: list[int] = [0]
    attempts: list[int] = []

    def context(log: logging.Logger) -> Context:
        attempts.append(1)
        if len(attempts) == 1:
            raise OSError("too many open files")
        return Context(client_of(server), Clock(), {}, log)

    try:
        host.register("counter", lambda: _Counter(lives), context)
        host.start("counter")
        deadline = time.monotonic() + 5
        while len(lives) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert host.running("counter")
        assert any("too many open files" in line for line in host.logs("counter"))
    finally:
        host.close()


class _Grouped:
    """Fails in a group that fails as well, and lives on after that."""

    def __init__(self, lives: list[int]) -> None:
        self._lives = lives

    async def run(self, context: Context) -> None:
        self._lives.append(1)
        if len(self._lives) == 1:
            # As a group that fails while it waits: the task is left with a cancellation that nobody asked for.
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                raise OSError("the group failed") from None
        await asyncio.Event().wait()


def test_a_component_stops_that_has_crashed_in_a_group(server: ServerThread) -> None:
    host = ComponentHost()
    lives: list[int] = []
    try:
        host.register(
            "grouped", lambda: _Grouped(lives), lambda log: Context(client_of(server), Clock(), {}, log)
        )
        host.start("grouped")
        deadline = time.monotonic() + 20
        while len(lives) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert host.running("grouped")
        host.stop("grouped")
        assert not host.running("grouped")
    finally:
        host.close()


class _Follower:
    """A component whose handler fails in its first life."""

    def __init__(self, seen: list[str]) -> None:
        self._seen = seen

    async def run(self, context: Context) -> None:
        informer = Informer(context.client, "v1", "configmaps", "default")

        def handler(old: Any, new: Any) -> None:
            self._seen.append(new["metadata"]["name"])
            if len(self._seen) == 1:
                raise KeyError("no such field")

        informer.add_handler(handler)
        await informer.run()


def test_a_component_whose_handler_fails_begins_anew_and_misses_nothing(server: ServerThread) -> None:
    async def create() -> None:
        async with client_of(server) as client:
            await client.create("v1", "configmaps", config_map("a"), "default")

    host = ComponentHost()
    seen: list[str] = []
    try:
        host.register(
            "follower", lambda: _Follower(seen), lambda log: Context(client_of(server), Clock(), {}, log)
        )
        host.start("follower")
        asyncio.run(create())
        deadline = time.monotonic() + 5
        while len(seen) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert seen == ["a", "a"]
        assert any("no such field" in line for line in host.logs("follower"))
    finally:
        host.close()
