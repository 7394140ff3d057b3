from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import ssl
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from clusters.client import ClientError
from clusters.clock import Clock, parse_stamp, stamp
from clusters.embedded.apiserver.auth.tokens import StaticTokens
from clusters.embedded.apiserver.auth.users import MASTERS, User
from clusters.embedded.apiserver.config import ServerConfig
from clusters.embedded.apiserver.thread import ServerThread
from clusters.embedded.components.client import ApiClient
from clusters.embedded.components.component import Context
from clusters.embedded.components.events import EventRecorder
from clusters.embedded.components.host import ComponentHost
from clusters.embedded.components.informer import Informer
from clusters.embedded.components.workqueue import WorkQueue, run_workers
from clusters.tls import client_context


@pytest.fixture
def server() -> Any:
    thread = ServerThread(ServerConfig(tokens=StaticTokens({"admin": User("admin", groups=(MASTERS,))})))
    thread.start()
    yield thread
    thread.stop()


def client_of(server: ServerThread, agent: str = "test") -> ApiClient:
    return ApiClient(server.url, client_context(server.ca_pem), "admin", agent)


async def until(condition: Callable[[], bool], what: str, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def background(*work: Awaitable[Any]) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
        "data": data,
    }


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


def test_equal_events_become_one_with_a_count(server: ServerThread) -> None:
    async def scenario() -> None:
        async with client_of(server) as client:
            recorder = EventRecorder(client, "kubelet", Clock(), "node-1")
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "p", "namespace": "default", "uid": "u"},
            }
            async with background(recorder.run()):
                for _ in range(3):
                    recorder.event(pod, "Warning", "Failed", "no such device")
                recorder.event(pod, "Normal", "Started", "Container started")
                events: list[Any] = []
                while sorted((item["reason"], item["count"]) for item in events) != [
                    ("Failed", 3),
                    ("Started", 1),
                ]:
                    events = (await client.list("v1", "events", "default"))["items"]
                    await asyncio.sleep(0.01)
            assert events[0]["source"] == {"component": "kubelet", "host": "node-1"}
            assert events[0]["involvedObject"]["name"] == "p"

    asyncio.run(asyncio.wait_for(scenario(), 10))


def test_a_repeated_action_becomes_a_series(server: ServerThread) -> None:
    async def scenario() -> None:
        async with client_of(server) as client:
            recorder = EventRecorder(client, "default-scheduler", Clock(), "default-scheduler-host")
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "p", "namespace": "default", "uid": "u"},
            }
            async with background(recorder.run()):
                for _ in range(2):
                    recorder.action(
                        pod, "Warning", "FailedScheduling", "Scheduling", "0/1 nodes are available: 1 x."
                    )
                events: list[Any] = []
                while not events or "series" not in events[0]:
                    events = (await client.list("events.k8s.io/v1", "events", "default"))["items"]
                    await asyncio.sleep(0.01)
            assert len(events) == 1
            assert events[0]["series"]["count"] == 2

    asyncio.run(asyncio.wait_for(scenario(), 10))


def pod_object(name: str = "p", version: str = "1") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "uid": "u", "resourceVersion": version}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


async def written(
    client: ApiClient, condition: Callable[[list[Any]], bool], version: str = "v1"
) -> list[Any]:
    """The events of the server as soon as they are as awaited."""
    deadline = time.monotonic() + 5
    while True:
        events = (await client.list(version, "events", "default"))["items"]
        if condition(events):
            return list(events)
        assert time.monotonic() < deadline, events
        await asyncio.sleep(0.01)


def test_the_tenth_message_of_a_reason_becomes_a_combined_event(server: ServerThread) -> None:
    async def scenario() -> None:
        async with client_of(server) as client:
            recorder = EventRecorder(client, "kubelet", Clock(), "node-1")
            async with background(recorder.run()):
                for number in range(12):
                    # Containers of one Pod count together.
                    path = f"spec.containers{{c{number % 2}}}"
                    recorder.event(pod_object(), "Warning", "Failed", f"message {number}", field_path=path)
                events = await written(client, lambda found: sum(item["count"] for item in found) == 12)
        single = {item["message"] for item in events if item["count"] == 1}
        combined = [item for item in events if item["count"] > 1]
        # Messages 0 to 8 stand alone; the tenth, 9, and the two after it are one event.
        assert single == {f"message {number}" for number in range(9)}
        assert [(item["count"], item["message"]) for item in combined] == [
            (3, "(combined from similar events): message 11")
        ]

    asyncio.run(scenario())


def test_of_a_flood_of_events_about_an_object_25_are_written_and_one_more_in_five_minutes(
    server: ServerThread,
) -> None:
    async def scenario() -> None:
        async with client_of(server) as client:
            clock = Clock()
            recorder = EventRecorder(client, "kubelet", clock, "node-1")
            async with background(recorder.run()):
                for _ in range(30):
                    recorder.event(pod_object(), "Warning", "Failed", "no such device")
                recorder.event(pod_object(), "Normal", "Started", "Container started")
                events = await written(client, lambda found: len(found) == 2)
                assert {(item["reason"], item["count"]) for item in events} == {
                    ("Failed", 25),
                    ("Started", 1),
                }
                clock.advance(300)
                recorder.event(pod_object(), "Warning", "Failed", "no such device")
                # What was cut has been counted.
                await written(client, lambda found: max(item["count"] for item in found) == 31)

    asyncio.run(scenario())


def test_events_wait_for_a_server_that_is_away(server: ServerThread) -> None:
    async def scenario() -> None:
        async with client_of(server) as client:
            clock = Clock()
            recorder = EventRecorder(client, "kubelet", clock, "node-1")
            async with background(recorder.run()):
                await asyncio.to_thread(server.stop)
                recorder.event(pod_object(), "Warning", "Failed", "no such device")
                recorder.action(pod_object(), "Warning", "FailedScheduling", "Scheduling", "no room")
                # Twice 10 s and a quarter: neither of the first two repetitions finds the server.
                for _ in range(2):
                    await asyncio.sleep(0.1)
                    clock.advance(12.5)
                await asyncio.to_thread(server.start)

                def both(found: list[Any]) -> bool:
                    clock.advance(12.5)
                    return len(found) == 2

                await written(client, both)

    asyncio.run(scenario())


def test_events_beyond_a_thousand_that_wait_are_dropped() -> None:
    async def scenario() -> None:
        nowhere = ApiClient("https://127.0.0.1:1", ssl.create_default_context(), "", "")
        recorder = EventRecorder(nowhere, "kubelet", Clock())
        for number in range(1200):
            recorder.event(pod_object(f"p{number}"), "Normal", "Started", "Container started")
        assert recorder.waiting == 1000

    asyncio.run(scenario())


def test_an_event_about_a_long_or_strange_name_is_written(server: ServerThread) -> None:
    async def scenario() -> None:
        async with client_of(server) as client:
            recorder = EventRecorder(client, "kubelet", Clock())
            async with background(recorder.run()):
                recorder.event(pod_object("p" * 253), "Normal", "Started", "Container started")
                recorder.event(pod_object("Node_1"), "Normal", "Started", "Container started")
                events = await written(client, lambda found: len(found) == 2)
        assert all(len(item["metadata"]["name"]) == 36 for item in events)

    asyncio.run(scenario())


def test_of_a_series_the_begin_is_written_at_once_and_the_count_when_it_has_ended(
    server: ServerThread,
) -> None:
    async def scenario() -> None:
        async with client_of(server) as client:
            clock = Clock()
            recorder = EventRecorder(client, "default-scheduler", clock, "default-scheduler-host")

            def fail(version: str, note: str) -> None:
                recorder.action(pod_object("p", version), "Warning", "FailedScheduling", "Scheduling", note)

            def counts(found: list[Any]) -> list[tuple[str, int]]:
                return sorted((item["note"], (item.get("series") or {}).get("count", 1)) for item in found)

            api = "events.k8s.io/v1"
            async with background(recorder.run()):
                # The note does not tell events apart, the version of the Pod does.
                for version, note in (("1", "a"), ("1", "b"), ("1", "c"), ("2", "d")):
                    fail(version, note)
                await written(client, lambda found: counts(found) == [("a", 2), ("d", 1)], api)
                await asyncio.sleep(0.05)
                clock.advance(361)
                await written(client, lambda found: counts(found) == [("a", 3), ("d", 1)], api)
                # Both are over and forgotten.
                fail("1", "e")
                await written(client, lambda found: counts(found) == [("a", 3), ("d", 1), ("e", 1)], api)

    asyncio.run(scenario())


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
