from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from component_harness import api_server, background, client_of

from clusters.clock import Clock
from clusters.embedded.apiserver.thread import ServerThread
from clusters.embedded.components.client import ApiClient
from clusters.embedded.components.events import EventRecorder


@pytest.fixture
def server() -> Iterator[ServerThread]:
    with api_server() as thread:
        yield thread


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
