"""The suites on a kind cluster: both known-good drivers, on the cluster that is kept."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from kind_kit import GO_DRIVER, Drakit

from conformance import catalogue
from drakit.state import Record

pytestmark = [pytest.mark.kind, pytest.mark.timeout(2400)]

OPTIONS = ("--tier", "kind", "--feature-gates", "all", "--keep", "--json")


def report(drakit: Drakit, *words: str) -> dict[str, Any]:
    return dict(json.loads(drakit.run("conformance", *words, *OPTIONS)))


def verdicts(found: dict[str, Any]) -> dict[str, str]:
    return {item["id"]: item["verdict"] for item in found["results"] if item["verdict"] != "disabled"}


def test_the_go_driver_gets_no_false_alarm(shared: Drakit, record: Record) -> None:
    built = subprocess.run(
        ["go", "build", "-o", "build/godriver", "."],
        cwd=GO_DRIVER,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    # What is about clusters the reference driver's run has judged, with the kit's own drivers.
    about = [item.id for item in catalogue.requirements().values() if item.subject == "driver"]
    focus = [word for name in about for word in ("--focus", name)]
    found = report(shared, str(GO_DRIVER / "driver.yaml"), *focus)
    assert (found["cluster"]["tier"], found["cluster"]["kubernetes"]) == ("kind", "1.37")
    assert found["cluster"]["gates"]["DRAOptionalNodeOperations"] is True
    assert {item["cause"] for item in found["results"] if item["verdict"] == "skip"} <= {"driver"}


def test_a_kept_cluster_is_used_again(shared: Drakit, record: Record) -> None:
    chosen = {"ALC-CDI-01": "pass", "ALC-KUB-01": "pass", "ALC-REL-07": "pass", "DRV-REG-01": "pass"}
    focus = [word for name in chosen for word in ("--focus", name)]
    before = shared.clusters()
    found = report(shared, "driver/reference.yaml", *focus)
    assert verdicts(found) == chosen
    assert shared.clusters() == before
    [result] = [item for item in found["results"] if item["id"] == "ALC-CDI-01"]
    assert "--tier kind" in json.dumps(result) or "reproduce" not in result
