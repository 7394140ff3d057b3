from __future__ import annotations

import contextlib
import logging
import queue
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
from kubelet_claims_harness import claim, claimed_pod
from kubelet_harness import Bench, bench, driver, run, state
from small_driver import NAME, SmallDriver

from clusters.clock import Clock
from clusters.embedded.kubelet.dra.claims import ClaimInfo, DriverState
from clusters.embedded.kubelet.dra.health import MAX_DEVICES, HealthCache, claim_health, read_report
from clusters.embedded.kubelet.rules import PreparedDevice
from node_api.messages import MODULES

LOG = logging.getLogger("test")


def report(device: str = "d0", health: int = 1, timeout: int = 0, message: str = "") -> Any:
    return SimpleNamespace(
        device=SimpleNamespace(pool_name="p", device_name=device),
        health=health,
        health_check_timeout_seconds=timeout,
        message=message,
    )


def cache_at(path: Path) -> tuple[HealthCache, Clock]:
    clock = Clock(lambda: 1_000_000.0)
    return HealthCache(path / "health", clock, LOG), clock


def test_a_report_counts_until_it_is_stale(tmp_path: Path) -> None:
    cache, clock = cache_at(tmp_path)
    assert cache.update("drv", read_report([report(timeout=5), report("d1", 2, 0, "hot")])) == {
        ("p", "d0"),
        ("p", "d1"),
    }
    clock.advance(5)
    assert cache.get("drv", "p", "d0").health == "Healthy"
    clock.advance(1)
    assert cache.get("drv", "p", "d0").health == "Unknown"
    # without a timeout of its own a report counts 30 s
    clock.advance(24)
    assert (cache.get("drv", "p", "d1").health, cache.get("drv", "p", "d1").message) == ("Unhealthy", "hot")
    clock.advance(1)
    assert (cache.get("drv", "p", "d1").health, cache.get("drv", "p", "d1").message) == ("Unknown", "")


def test_only_changes_are_told_and_unlisted_devices_keep_their_state(tmp_path: Path) -> None:
    cache, clock = cache_at(tmp_path)
    cache.update("drv", read_report([report("d0"), report("d1")]))
    assert cache.update("drv", read_report([report("d0")])) == set()
    assert cache.get("drv", "p", "d1").health == "Healthy"
    assert cache.update("drv", read_report([report("d0", 1, 0, "new text")])) == {("p", "d0")}
    # d1 is stale when the next report comes
    clock.advance(31)
    assert cache.update("drv", read_report([report("d0", 1, 0, "new text")])) == {("p", "d1")}


def test_messages_and_numbers_of_devices_are_limited(tmp_path: Path) -> None:
    (long,) = read_report([report(message="x" * 1025)])
    assert long.message == "x" * 1021 + "..."
    (exact,) = read_report([report(message="x" * 1024)])
    assert exact.message == "x" * 1024
    cache, _ = cache_at(tmp_path)
    cache.update("drv", read_report([report(f"d{index}") for index in range(MAX_DEVICES + 1)]))
    assert cache.get("drv", "p", f"d{MAX_DEVICES - 1}").health == "Healthy"
    assert cache.get("drv", "p", f"d{MAX_DEVICES}").health == "Unknown"


def test_health_is_known_again_after_a_restart_and_damage_is_no_loss(tmp_path: Path) -> None:
    cache, clock = cache_at(tmp_path)
    cache.update("drv", read_report([report("d0", 2, 7, "hot")]))
    again = HealthCache(tmp_path / "health", clock, LOG)
    found = again.get("drv", "p", "d0")
    assert (found.health, found.message, found.timeout) == ("Unhealthy", "hot", 7.0)
    (tmp_path / "health").write_text("{")
    assert HealthCache(tmp_path / "health", clock, LOG).get("drv", "p", "d0").health == "Unknown"


def test_devices_are_named_by_their_first_cdi_name_and_once(tmp_path: Path) -> None:
    cache, _ = cache_at(tmp_path)
    devices = (
        PreparedDevice(("r",), "p", "d0", ("a.com/c=x", "a.com/c=y")),
        PreparedDevice(("r",), "p", "d1", ("a.com/c=x",)),
        PreparedDevice((), "p", "d2", ()),
        PreparedDevice(("s",), "p", "d3", ("a.com/c=z",)),
    )
    info = ClaimInfo("u", "c", "default", drivers={"drv": DriverState(devices)})
    names = [item["resourceID"] for item in claim_health(info, "r/alternative", cache, messages=True)]
    assert names == ["a.com/c=x", "drv/p/d2"]


async def reported(made: Bench, health: str) -> Any:
    async def check() -> Any:
        found = await made.pod("p")
        listed = state(found).get("allocatedResourcesStatus") if found else None
        return listed if listed and listed[0]["resources"][0]["health"] == health else None

    return await made.until(check, f"the device is {health}")


def test_pods_tell_the_health_of_their_devices() -> None:
    async def scenario() -> None:
        async with bench() as made, driver(made, reports=0) as small:
            found = await claim(made)
            await claimed_pod(made, "p", "claim")
            await made.ready("p")
            name = f"a.com/c={found['metadata']['uid']}"
            unknown = [{"name": "claim:claim", "resources": [{"resourceID": name, "health": "Unknown"}]}]
            assert await reported(made, "Unknown") == unknown
            assert small.name == NAME

    run(scenario())


class Reporting(SmallDriver):
    """A driver whose health stream says what is put into `queue`; None ends it."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.queue: queue.Queue[str | None] = queue.Queue()

    def _health(self, service: str) -> grpc.RpcMethodHandler:
        module = MODULES[service]

        def stream(request: Any, context: grpc.ServicerContext) -> Any:
            while context.is_active():
                with contextlib.suppress(queue.Empty):
                    health = self.queue.get(timeout=0.02)
                    if health is None:
                        return
                    device = {"pool_name": "p", "device_name": "d"}
                    entry = {"device": device, "health": health, "message": f"is {health}"}
                    yield module.NodeWatchResourcesResponse(devices=[entry])

        return grpc.unary_stream_rpc_method_handler(
            stream,
            module.NodeWatchResourcesRequest.FromString,
            module.NodeWatchResourcesResponse.SerializeToString,
        )


def test_reports_of_a_driver_reach_its_pods_and_the_end_of_the_stream_makes_devices_unknown() -> None:
    async def scenario() -> None:
        async with bench(sync_frequency=0.3) as made, driver(made, Reporting) as small:
            await claim(made)
            await claimed_pod(made, "p", "claim")
            await made.ready("p")
            small.queue.put("HEALTHY")
            (entry,) = await reported(made, "Healthy")
            assert entry["resources"][0]["message"] == "is HEALTHY"
            small.queue.put("UNHEALTHY")
            await reported(made, "Unhealthy")
            assert state(await made.ready("p"))["restartCount"] == 0
            made.clock.advance(31)
            await reported(made, "Unknown")
            small.queue.put("HEALTHY")
            await reported(made, "Healthy")
            small.queue.put(None)
            await reported(made, "Unknown")

    run(scenario())
