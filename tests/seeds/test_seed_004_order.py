"""Seed 004: the workload is there before the driver."""

from __future__ import annotations

import pytest
from seeds_api import GPU_NODE
from seeds_kit import World, nvidia_driver


@pytest.mark.process
@pytest.mark.seed("S004-25")
def test_the_pod_runs_as_soon_as_the_slice_is_published(world: World) -> None:
    world.submit("nvidia-device-classes", "single-gpu-claim-template")
    world.pod("early", templates={"gpu": "single-gpu"})
    claim = world.generated("early", "gpu")
    assert "3 cannot allocate all claims" in world.unschedulable("early")["message"]
    assert world.state(claim) == "pending"
    with nvidia_driver(world.cluster):
        assert world.phase("early")["spec"]["nodeName"] == GPU_NODE
        assert world.state(claim) == "allocated,reserved"
        world.delete("Pod", "early")
        world.gone("Pod", "early")
