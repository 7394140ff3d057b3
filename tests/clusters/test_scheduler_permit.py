"""What is between the choice of a node and the binding."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

import pytest

from clusters.embedded.scheduler.cache import Cache
from clusters.embedded.scheduler.cycle import Profile, SchedulingCycle
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
