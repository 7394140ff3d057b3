"""What is between the choice of a node and the binding."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from clusters.embedded.scheduler.cache import Cache
from clusters.embedded.scheduler.cycle import Profile, SchedulingCycle
from clusters.embedded.scheduler.dynamic_resources.claim_tracker import ClaimTracker
from clusters.embedded.scheduler.dynamic_resources.plugin import DynamicResources
from clusters.embedded.scheduler.framework.plugin import CycleState, OutdatedPlanError, Plugin
from clusters.embedded.scheduler.framework.runtime import Framework
from clusters.embedded.scheduler.queue.nominator import Nominator

POD = {"metadata": {"namespace": "ns", "name": "p", "uid": "u"}, "spec": {"containers": []}}


class Refusing(Plugin):
    name = "Refusing"

    def __init__(self, problem: Exception) -> None:
        self.problem = problem
        self.undone = 0

    async def permit(self, state: CycleState, pod: Any, node: str) -> None:
        raise self.problem

    async def unreserve(self, state: CycleState, pod: Any, node: str) -> None:
        self.undone += 1


class Queue:
    nominator = Nominator(lambda uid: None)


@pytest.mark.parametrize("problem", [OutdatedPlanError("somebody was faster"), RuntimeError("a fault")])
def test_whatever_goes_wrong_the_pod_can_be_scheduled_again(problem: Exception) -> None:
    cache, plugin = Cache(), Refusing(problem)
    framework = Framework("default-scheduler", [plugin], {}, lambda node: ())
    profile = Profile(framework, cast(Any, None), 0)
    nothing = cast(Any, None)
    cycle = SchedulingCycle(
        {},
        cast(Any, Queue()),
        cache,
        nothing,
        nothing,
        nothing,
        logging.getLogger(),
        nominate_before_binding=False,
    )
    with pytest.raises(type(problem)):
        asyncio.run(cycle._assume(CycleState(), POD, "n1", profile))
    assert (cache.is_assumed("u"), plugin.undone) == (False, 1)


@pytest.mark.parametrize(("uid", "waits"), [("reserved", True), ("free", False)])
def test_a_claim_that_may_be_about_to_be_allocated_is_not_planned(uid: str, waits: bool) -> None:
    session = SimpleNamespace(is_reserved={"reserved"}.__contains__)
    access = SimpleNamespace(
        claims=ClaimTracker(True),
        clock=None,
        gates=SimpleNamespace(filter_timeout=False, binding_conditions=False),
        reservations=SimpleNamespace(session=session),
    )
    plugin = DynamicResources(cast(Any, access), cast(Any, None), 0.0, 0.0)
    status = plugin._check_unallocated(
        {"metadata": {"namespace": "ns", "name": "c", "uid": uid}, "spec": {}, "status": {}}
    )
    assert (status is not None) == waits
    assert status is None or status.message == "resource claim ns/c is in the process of being allocated"
