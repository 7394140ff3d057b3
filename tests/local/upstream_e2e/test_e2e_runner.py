"""How the run of upstream's specs is planned and its report read; needs no binary."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from e2e_runner import Outcome, read_report, run, shared_out
from e2e_specs import LEAST, chosen, known


def spec(name: str, state: str, message: str = "", kind: str = "It") -> dict[str, Any]:
    found: dict[str, Any] = {
        "ContainerHierarchyTexts": ["[sig-node]", "DRA"],
        "LeafNodeType": kind,
        "LeafNodeText": name,
        "State": state,
        "RunTime": 1_500_000_000,
    }
    if message:
        location = {"FileName": "/src/test/e2e/dra/dra.go", "LineNumber": 100}
        found["Failure"] = {"Message": message, "Location": location}
    return found


def write(path: Path, *specs: dict[str, Any]) -> Path:
    path.write_text(json.dumps([{"SpecReports": list(specs)}, {"SpecReports": None}]))
    return path


def test_report_has_the_chosen_specs_only(tmp_path: Path) -> None:
    report = write(
        tmp_path / "report.json",
        spec("works", "passed"),
        spec("breaks", "failed", "timed out"),
        spec("not asked for", "skipped"),
        spec("cannot run here", "skipped", "needs two nodes"),
        spec("", "passed", kind="BeforeSuite"),
    )
    assert read_report(report) == [
        Outcome("[sig-node] DRA works", "passed", 1.5),
        Outcome("[sig-node] DRA breaks", "failed", 1.5, "timed out\nat dra.go:100"),
        Outcome("[sig-node] DRA cannot run here", "skipped", 1.5, "needs two nodes\nat dra.go:100"),
    ]


def test_groups_take_about_as_long_as_each_other() -> None:
    weights = {"a": 50.0, "b": 30.0, "c": 20.0, "d": 5.0}
    assert shared_out(weights, weights, 2) == [["a", "d"], ["b", "c"]]
    assert shared_out(["a"], weights, 4) == [["a"]]


def test_specs_that_fit_into_the_time_are_the_shortest() -> None:
    names = [one.name for one in known()]
    assert len(set(names)) == len(names) >= LEAST
    assert [one.name for one in chosen(0)] == sorted(names)
    short = chosen(1, processes=1)
    assert 0 < len(short) < LEAST
    assert sum(one.seconds for one in short) <= 60
    assert len(chosen(1, processes=2)) > len(short)


def test_each_process_gets_its_specs_by_name(tmp_path: Path) -> None:
    binary = tmp_path / "fake"
    binary.write_text(
        f"#!{sys.executable}\n"
        "import json, sys\n"
        "options = dict(one.split('=', 1) for one in sys.argv[1:] if '=' in one)\n"
        "found = {'ContainerHierarchyTexts': [], 'LeafNodeType': 'It', 'State': 'passed',\n"
        "         'LeafNodeText': options['--ginkgo.focus']}\n"
        "open(options['--ginkgo.json-report'], 'w').write(json.dumps([{'SpecReports': [found]}]))\n"
    )
    binary.chmod(0o755)
    weights = {"a [x]": 2.0, "b": 1.0, "c": 1.0}
    done = run(binary, tmp_path / "kubeconfig", weights, tmp_path, weights=weights, processes=2, seconds=30)
    assert [outcome.name for outcome in done] == [r"(^| )(a \[x\])$", "(^| )(b|c)$"]


def test_process_that_writes_no_report_fails_its_specs(tmp_path: Path) -> None:
    binary = tmp_path / "fake"
    binary.write_text("#!/bin/sh\necho no cluster\n")
    binary.chmod(0o755)
    (outcome,) = run(binary, tmp_path / "k", ["a"], tmp_path, weights={}, seconds=30)
    assert (outcome.name, outcome.state) == ("a", "aborted")
    assert "no cluster" in outcome.failure
