"""SIGKILL at every write, fsync, rename and unlink of state and every hardware change, then a restart."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import grpc
import pytest
from driver_kit import DRIVER
from driver_world import World, wait_until

from driver.sdk import failpoints
from fake_hw import journal
from node_api.cdi import resolve

pytestmark = pytest.mark.process

HERE = Path(__file__).parent


SWEEPS = {"checkpoint.sweep", "cdi.sweep"}
COPIES = {point for point in failpoints.POINTS if point.startswith("quarantine.")}
NOT_PASSED = {
    "round": SWEEPS | COPIES,
    "leftovers": COPIES,
    "corrupt": SWEEPS,
    # The hardware is as it was.
    "recovered": SWEEPS | {"hardware.configure"},
}
"""Scenario -> failpoints that have no part in it; each has a part in one of them."""


@pytest.mark.parametrize("scenario", NOT_PASSED)
def test_no_claim_is_lost_or_doubled_wherever_the_driver_is_killed(scenario: str) -> None:
    done = subprocess.run(
        [sys.executable, HERE / "failpoint_runner.py", scenario], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    cases = json.loads(done.stdout)
    assert [case for case in cases if case["problem"]] == []
    killed = Counter(case["point"] for case in cases if case["killed"])
    assert set(killed) == set(failpoints.POINTS) - NOT_PASSED[scenario]
    if scenario == "round":
        # Prepare remembers twice, unprepare twice.
        assert killed["checkpoint.rename"] == 4
        # Two devices are configured and reset. Each case has a copy of the tree, so the start rewrites the CDI file
        # of claim 2 (paths have changed); then the file of claim 1 is written, written again and removed.
        assert (killed["hardware.configure"], killed["hardware.reset"], killed["cdi.rename"]) == (2, 2, 3)


@pytest.mark.parametrize("group", sorted({point.partition(".")[0] for point in failpoints.POINTS}))
def test_a_driver_process_survives_sigkill_at_each_failpoint(world: World, group: str) -> None:
    """One node, killed at one failpoint after the other; each start has to cope with what the last end left."""
    held, claim, rival = (
        world.claim("held", "gpu-2"),
        world.claim("a", "gpu-0", "gpu-1"),
        world.claim("b", "gpu-1"),
    )
    uid = claim["metadata"]["uid"]
    world.start()
    answer = world.prepare(held)[held["metadata"]["uid"]]
    world.kill()
    for point in (point for point in failpoints.POINTS if point.startswith(f"{group}.")):
        if group == "quarantine":
            # Damaged anew each time, as a copy of the same damage is not kept twice.
            (world.plugin / "checkpoint.json").write_bytes(f"damaged before {point}".encode())
        for directory, file in ((world.plugin, "checkpoint.json"), (world.cdi, file_of(held))):
            (directory / f".{file}.0badcafe.tmp").touch()
        world.start(failpoint=point, register=False)
        must_have = round_until_killed(world, claim)
        world.start(register=False)
        wait_until(world.listening, 20, f"the driver after {point}")
        world.info = world.get_info()
        assert list(resolve(list(answer.devices[0].cdi_device_ids), [world.cdi]).files), point
        assert uid in world.held() or not must_have, point
        assert world.prepare(claim)[uid].error == "", point
        assert "already prepared" in world.prepare(rival)[rival["metadata"]["uid"]].error, point
        assert world.unprepare(claim)[uid].error == "", point
        assert world.prepare(held)[held["metadata"]["uid"]] == answer, point
        assert world.cdi_names() == [file_of(held)], point
        assert list(world.held()) == [held["metadata"]["uid"]], point
        world.kill()
    assert journal.overlaps(journal.read(world.hw)) == []


def file_of(claim: dict[str, Any]) -> str:
    """The name of its CDI file."""
    return f"{DRIVER}-gpu_{claim['metadata']['uid']}.json"


def round_until_killed(world: World, claim: dict[str, Any]) -> bool:
    """Prepare, prepare without the CDI file, unprepare, until the driver dies; whether it must still have the claim."""
    uid, must_have = claim["metadata"]["uid"], False
    with contextlib.suppress(grpc.RpcError):
        wait_until(lambda: world.listening() or world.dead(), 20, "the registration socket")
        world.info = world.get_info()
        assert world.prepare(claim)[uid].error == ""
        must_have = True
        (world.cdi / file_of(claim)).unlink()
        assert world.prepare(claim)[uid].error == ""
        must_have = False
        assert world.unprepare(claim)[uid].error == ""
    world.wait_killed()
    return must_have


def test_the_list_of_failpoints_is_printed() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "driver", "--list-failpoints"], capture_output=True, text=True, check=True
    )
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == list(failpoints.POINTS)


@pytest.mark.parametrize(
    ("text", "reason"),
    [("cdi.renam", "unknown failpoint 'cdi.renam'; known: checkpoint.write"), ("cdi.rename:0", "at least 1")],
)
def test_a_wrong_failpoint_is_refused(text: str, reason: str) -> None:
    with pytest.raises(failpoints.FailpointError, match=reason):
        failpoints.arm(text)


def test_every_failpoint_in_the_code_is_listed() -> None:
    with pytest.raises(KeyError):
        failpoints.reach("unlisted")
