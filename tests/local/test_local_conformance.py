"""The command on real Kubernetes: the second known-good driver, and two kinds of clusters side by side."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from go_kit import about_drivers, build_driver

pytestmark = [
    pytest.mark.go,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(os.geteuid() != 0, reason="kubelets need root"),
]

ROOT = Path(__file__).parents[2]


def conformance(*words: str, code: int = 0) -> str:
    """Standard output of a run that ends so."""
    done = subprocess.run(
        [sys.executable, "-m", "drakit", "conformance", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def verdicts(report: dict[str, Any]) -> dict[str, str]:
    return {item["id"]: item["verdict"] for item in report["results"] if item["verdict"] != "disabled"}


def test_the_go_driver_gets_no_false_alarm_on_real_kubernetes() -> None:
    words = (str(build_driver()), "--tier", "local", "--json", *about_drivers())
    report = json.loads(conformance(*words))
    assert report["cluster"] == {"tier": "local", "kubernetes": "1.37", "gates": {}}
    # What it does not declare is left out, and nothing else.
    assert {item["cause"] for item in report["results"] if item["verdict"] == "skip"} <= {"driver"}


def test_both_verdicts_stand_side_by_side(tmp_path: Path) -> None:
    chosen = ("ALC-CDI-01", "ALC-REL-06", "DRV-REG-01")
    focus = [word for name in chosen for word in ("--focus", name)]
    words = ("driver/reference.yaml", "--compare", "embedded,local", "--report", str(tmp_path), *focus)
    document = json.loads(conformance(*words, "--json"))
    assert (document["kind"], document["tiers"], document["differences"]) == (
        "comparison",
        ["embedded", "local"],
        [],
    )
    expected = {"ALC-CDI-01": "pass", "ALC-REL-06": "known-gap", "DRV-REG-01": "pass"}
    for tier in ("embedded", "local"):
        assert verdicts(document["reports"][tier]) == expected
        assert verdicts(json.loads((tmp_path / tier / "report.json").read_text())) == expected
        assert (tmp_path / tier / "junit.xml").exists()
