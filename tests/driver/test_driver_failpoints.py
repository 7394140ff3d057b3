"""SIGKILL at every write, fsync, rename and unlink of state and every hardware change, then a restart."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from driver.sdk import failpoints

HERE = Path(__file__).parent


def test_no_claim_is_lost_or_doubled_wherever_the_driver_is_killed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, HERE / "failpoint_runner.py", tmp_path], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    cases = json.loads(done.stdout)
    wrong = [case for case in cases if case["problem"]]
    assert wrong == []
    killed = Counter(case["point"] for case in cases if case["killed"])
    assert set(killed) == set(failpoints.POINTS), "a failpoint that is never reached proves nothing"
    # In the first scenario: prepare remembers twice, unprepare twice.
    rounds = Counter(case["point"] for case in cases if case["killed"] and case["scenario"] == "round")
    assert rounds["checkpoint.rename"] == 4
    # Two devices are configured and reset. Each case has a copy of the tree, so the start rewrites the CDI file of
    # claim 2 (paths have changed); then the file of claim 1 is written, written again and removed.
    assert (rounds["hardware.configure"], rounds["hardware.reset"], rounds["cdi.rename"]) == (2, 2, 3)


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
