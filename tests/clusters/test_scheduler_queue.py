"""The queue of the scheduler: order, backoff, and what wakes a pod up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from clusters.clock import Clock
from clusters.embedded.scheduler.framework.events import (
    Action,
    ClusterEvent,
    Object,
    Registration,
    Resource,
)
from clusters.embedded.scheduler.framework.plugin import Plugin
from clusters.embedded.scheduler.framework.runtime import Framework
from clusters.embedded.scheduler.framework.status import Status, unresolvable
from clusters.embedded.scheduler.queue.entry import QueuedPod
from clusters.embedded.scheduler.queue.nominator import Nominator
from clusters.embedded.scheduler.queue.scheduling_queue import QueueTimes, SchedulingQueue

START = 1000.0
NODE_ADDED = ClusterEvent(Resource.NODE, Action.ADD)
CLASS_ADDED = ClusterEvent(Resource.CLASS, Action.ADD)


class Wants(Plugin):
    """Waits for new nodes that are not called `useless`."""

    name = "Wants"

    def events(self) -> Sequence[Registration]:
        return (
            Registration(NODE_ADDED, lambda pod, old, new: new is None or new["name"] != "useless"),
            Registration(ClusterEvent(Resource.TARGET_POD, Action.POD_LABEL)),
        )


class Gate(Plugin):
    """Keeps pods with the label `gated` back, until a class comes and finds them without."""

    name = "Gate"

    def events(self) -> Sequence[Registration]:
        return (Registration(CLASS_ADDED),)

    def pre_enqueue(self, pod: Object) -> Status | None:
        return unresolvable("gated") if pod["metadata"].get("labels", {}).get("gated") else None


def pod(name: str, priority: int = 0, version: int = 1, **labels: str) -> Object:
    return {
        "metadata": {
            "namespace": "default",
            "name": name,
            "uid": f"uid-{name}",
            "labels": labels,
            "resourceVersion": str(version),
        },
        "spec": {"priority": priority, "schedulerName": "default-scheduler", "containers": []},
    }


class Waiting:
    """A queue whose time stands still unless advanced."""

    def __init__(self, *, pop_from_backoff: bool = True) -> None:
        self.clock = Clock(lambda: START)
        self.queue = SchedulingQueue(
            self.clock,
            Nominator(lambda namespace, name: None),
            QueueTimes(),
            pop_from_backoff=pop_from_backoff,
        )
        framework = Framework("default-scheduler", [Gate(), Wants()], {}, lambda node: [])
        self.queue.use({"default-scheduler": framework})

    async def pop(self) -> QueuedPod:
        return await asyncio.wait_for(self.queue.pop(), 2)

    async def is_empty(self) -> bool:
        """Whether nothing is ready, after everything due has happened."""
        for _ in range(20):
            await asyncio.sleep(0)
        task = asyncio.ensure_future(self.queue.pop())
        for _ in range(5):
            await asyncio.sleep(0)
        if task.done():
            return False
        task.cancel()
        return True


def run(scenario: Callable[[Waiting], Awaitable[None]], **settings: Any) -> None:
    async def main() -> None:
        tester = Waiting(**settings)
        ticking = asyncio.create_task(tester.queue.run())
        try:
            await scenario(tester)
        finally:
            ticking.cancel()
            await asyncio.gather(ticking, return_exceptions=True)

    asyncio.run(main())


def test_higher_priority_comes_first_then_who_came_first() -> None:
    async def scenario(t: Waiting) -> None:
        for each in (pod("a"), pod("b"), pod("urgent", 10)):
            t.queue.add(each)
        assert [(await t.pop()).key[1] for _ in range(3)] == ["urgent", "a", "b"]

    run(scenario)


def test_errors_back_off_one_two_four_eight_ten_seconds() -> None:
    async def scenario(t: Waiting) -> None:
        t.queue.add(pod("p"))
        waits = []
        for _ in range(6):
            entry = await t.pop()
            t.queue.add_unschedulable(entry, frozenset())
            waited = 0
            while await t.is_empty():
                t.clock.advance(1)
                waited += 1
                assert waited < 20
            # Looking has taken it out; put it back in the same state.
            t.queue.done(entry.uid)
            t.queue._to_active(entry)
            waits.append(waited)
        # Ends of backoffs are whole seconds, and are over in the second after that.
        assert waits == [1 + 1, 2 + 1, 4 + 1, 8 + 1, 10 + 1, 10 + 1]

    run(scenario)


def test_a_refused_pod_waits_for_an_event_that_its_plugin_finds_helpful() -> None:
    async def scenario(t: Waiting) -> None:
        t.queue.add(pod("p"))
        t.queue.add_unschedulable(await t.pop(), {"Wants"})
        t.queue.move_all(CLASS_ADDED, None, {"name": "irrelevant"})
        t.queue.move_all(NODE_ADDED, None, {"name": "useless"})
        t.clock.advance(100)
        assert await t.is_empty()
        t.queue.move_all(NODE_ADDED, None, {"name": "good"})
        assert (await t.pop()).attempts == 2

    run(scenario)


def test_an_event_during_the_attempt_is_not_lost() -> None:
    async def scenario(t: Waiting) -> None:
        t.queue.add(pod("p"))
        entry = await t.pop()
        t.queue.move_all(NODE_ADDED, None, {"name": "good"})
        t.queue.add_unschedulable(entry, {"Wants"})
        assert (await t.pop()).uid == "uid-p"

    run(scenario)


def test_events_before_the_attempt_do_not_count() -> None:
    async def scenario(t: Waiting) -> None:
        t.queue.add(pod("other"))
        other = await t.pop()
        t.queue.move_all(NODE_ADDED, None, {"name": "good"})
        t.queue.add(pod("p"))
        t.queue.add_unschedulable(await t.pop(), {"Wants"})
        assert await t.is_empty()
        t.queue.add_unschedulable(other, {"Wants"})
        assert (await t.pop()).uid == "uid-other"

    run(scenario)


def test_an_idle_scheduler_does_not_wait_for_the_backoff_of_refused_pods() -> None:
    async def scenario(t: Waiting) -> None:
        t.queue.add(pod("p"))
        t.queue.add_unschedulable(await t.pop(), {"Wants"})
        t.queue.move_all(NODE_ADDED, None, {"name": "good"})
        assert (await t.pop()).uid == "uid-p"

    run(scenario)


def test_without_the_gate_it_does_wait() -> None:
    async def scenario(t: Waiting) -> None:
        t.queue.add(pod("p"))
        t.queue.add_unschedulable(await t.pop(), {"Wants"})
        t.queue.move_all(NODE_ADDED, None, {"name": "good"})
        assert await t.is_empty()
        t.clock.advance(2)
        assert (await t.pop()).uid == "uid-p"

    run(scenario, pop_from_backoff=False)


def test_gated_pods_are_looked_at_only_for_what_the_gate_waits_for() -> None:
    async def scenario(t: Waiting) -> None:
        gated = pod("p", gated="yes")
        t.queue.add(gated)
        assert await t.is_empty()
        t.queue.move_all(NODE_ADDED, None, {"name": "good"})
        assert await t.is_empty()
        # The object changes in place here, where an informer would have told of an update.
        gated["metadata"]["labels"] = {}
        t.queue.move_all(NODE_ADDED, None, {"name": "good"})
        assert await t.is_empty()
        t.queue.move_all(CLASS_ADDED, None, {"name": "gpu"})
        assert (await t.pop()).attempts == 1

    run(scenario)


def test_after_five_minutes_a_pod_is_tried_anyway() -> None:
    async def scenario(t: Waiting) -> None:
        t.queue.add(pod("p"))
        t.queue.add_unschedulable(await t.pop(), {"Wants"})
        for _ in range(10):
            t.clock.advance(30)
            assert await t.is_empty()
        t.clock.advance(30)
        assert (await t.pop()).uid == "uid-p"

    run(scenario)


def test_an_update_of_the_pod_itself_wakes_it_up_when_it_matters() -> None:
    async def scenario(t: Waiting) -> None:
        old = pod("p")
        t.queue.add(old)
        t.queue.add_unschedulable(await t.pop(), {"Wants"})
        same = pod("p", version=2)
        same["metadata"]["annotations"] = {"a": "b"}
        t.queue.update(old, same)
        assert await t.is_empty()
        new = pod("p", version=3, team="x")
        t.queue.update(same, new)
        assert (await t.pop()).pod is new

    run(scenario)


def test_a_deleted_pod_is_gone_from_wherever_it_waited() -> None:
    async def scenario(t: Waiting) -> None:
        active, refused, failed = pod("active"), pod("refused"), pod("failed")
        t.queue.add(refused)
        t.queue.add_unschedulable(await t.pop(), {"Wants"})
        t.queue.add(failed)
        t.queue.add_unschedulable(await t.pop(), frozenset())
        t.queue.add(active)
        for each in (active, refused, failed):
            t.queue.delete(each)
        t.clock.advance(1000)
        assert await t.is_empty()

    run(scenario)
