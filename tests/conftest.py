from __future__ import annotations

import os
import random

import pytest
from hypothesis import HealthCheck, settings

# How fast a machine is, and what else it does, is not what property tests are about.
settings.register_profile("drakit", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("drakit")


@pytest.fixture
def fresh_seed() -> int:
    """Another one in every run, shown when the test fails; DRAKIT_SEED repeats it."""
    seed = int(os.environ.get("DRAKIT_SEED") or random.SystemRandom().randrange(2**32))
    print(f"DRAKIT_SEED={seed}")  # noqa: T201
    return seed


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What a seed has found must not be tried away with another one, wherever failed tests are run again."""
    for item in items:
        if "fresh_seed" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.flaky(reruns=0))
