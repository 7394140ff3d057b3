"""The module for vendors' pytest, in a project of its own: with a stand-in for the command, and with the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from clusters_kit import Up

from drakit.up import reference_driver

pytestmark = pytest.mark.process
ROOT = Path(__file__).parents[2]

RESULTS = {
    "A-1": {"verdict": "pass", "level": "MUST"},
    "A-2": {"verdict": "fail", "level": "MUST"},
    "A-3": {"verdict": "fail", "level": "SHOULD"},
    "A-4": {"verdict": "skip", "level": "MUST", "reason": "not declared"},
    "A-5": {"verdict": "known-gap", "level": "MUST", "reason": "kubernetes/kubernetes#1"},
    "A-6": {"verdict": "error", "level": "MAY"},
}
STAND_IN = """
import json, os, sys
from pathlib import Path
results = json.loads(Path(os.environ["RESULTS"]).read_text())
with Path(os.environ["CALLS"]).open("a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
if "--list" in sys.argv:
    print(json.dumps([{"id": i, "level": r["level"], "area": "a", "rule": f"rule {i}"} for i, r in results.items()]))
    sys.exit()
if "--broken" in sys.argv:
    sys.exit("drakit: driver.yaml: no such file")
folder = Path(sys.argv[sys.argv.index("--report") + 1])
folder.mkdir(exist_ok=True)
more = {"subject": "driver", "expected": "this", "seen": "that"}
rows = [
    {"id": i, "rule": f"rule {i}", **more, "reproduce": f"drakit conformance driver.yaml --focus {i}",
     "evidence": [{"kind": "calls", "title": "what it did", "text": "one\\ntwo"}], **r}
    for i, r in results.items()
]
(folder / "report.json").write_text(json.dumps({"results": rows}))
sys.exit(1)
"""


@dataclass
class Project:
    """A vendor's project: a folder with its tests, in which pytest runs as its own process."""

    folder: Path

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def stand_in(self, results: Any = RESULTS) -> tuple[str, ...]:
        self.write("results.json", json.dumps(results))
        return "--drakit-command", f"{sys.executable} {self.write('stand_in.py', STAND_IN)}"

    def run(self, *words: object, code: int, **more: str) -> str:
        own = {
            "PYTHONPATH": str(ROOT),
            "RESULTS": str(self.folder / "results.json"),
            "CALLS": str(self.folder / "calls"),
            "PYTEST_ADDOPTS": "",
        }
        base = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "--junitxml",
            self.folder / "junit.xml",
        ]
        done = subprocess.run(
            [*map(str, base), "--rootdir", str(self.folder), *map(str, words)],
            cwd=self.folder,
            env={**os.environ, **own, **more},
            capture_output=True,
            text=True,
            timeout=110,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def calls(self) -> list[list[str]]:
        """How the stand-in was called, lists of the catalogue aside."""
        found = [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]
        return [words for words in found if "--list" not in words]

    def outcomes(self) -> dict[str, str]:
        cases = ET.parse(self.folder / "junit.xml").getroot().iter("testcase")
        found = {}
        for case in cases:
            name = case.get("name", "").partition("[")[2].rstrip("]") or case.get("name", "")
            parts = [part for part in case if part.tag != "properties"]
            kind = parts[0].get("type", "").removeprefix("pytest.") if parts else ""
            found[name] = (kind or parts[0].tag) if parts else "passed"
        return found


@pytest.fixture
def project(tmp_path: Path) -> Project:
    found = Project(tmp_path)
    found.write("conftest.py", 'pytest_plugins = ["pytest_drakit"]\n')
    found.write("test_conformance.py", "from pytest_drakit import test_requirement  # noqa: F401\n")
    return found


def test_each_requirement_is_a_test_with_its_verdict(project: Project) -> None:
    text = project.run("-ra", *project.stand_in(), "--drakit-driver", "driver.yaml", code=1)
    assert project.outcomes() == {
        "A-1": "passed",
        "A-2": "failure",
        "A-3": "xfail",
        "A-4": "skip",
        "A-5": "xfail",
        "A-6": "failure",
    }
    assert "drakit: driver.yaml on embedded" in text
    shown = [
        "A-2 (MUST, driver) does not hold: rule A-2",
        "expected:  this",
        "seen:      that",
        "reproduce: drakit conformance driver.yaml --focus A-2",
        "",
        "--- calls: what it did",
        "one",
        "two",
    ]
    assert "\n".join(shown) in text
    assert "A-6 (MAY, driver) could not be judged: rule A-6" in text
    assert "SHOULD: expected this; seen that" in text
    assert "known gap: kubernetes/kubernetes#1" in text
    # One run of everything, from the folder in which pytest runs.
    [words] = project.calls()
    assert words[:2] == ["conformance", str(project.folder / "driver.yaml")]
    assert "--focus" not in words


def test_the_properties_of_a_requirement_are_in_the_junit_report(project: Project) -> None:
    project.run(*project.stand_in({"A-1": RESULTS["A-1"]}), "--drakit-driver", "d.yaml", code=0)
    found = {
        item.get("name"): item.get("value")
        for item in ET.parse(project.folder / "junit.xml").iter("property")
    }
    assert found == {"level": "MUST", "area": "a", "rule": "rule A-1"}


def test_only_what_is_selected_is_judged(project: Project) -> None:
    project.run(*project.stand_in(), "--drakit-driver", "d.yaml", "-k", "A-1 or A-4", code=0)
    [words] = project.calls()
    assert [words[at + 1] for at, word in enumerate(words) if word == "--focus"] == ["A-1", "A-4"]
    assert project.outcomes() == {"A-1": "passed", "A-4": "skip"}


def test_settings_come_from_the_ini_file_and_the_command_line_wins(project: Project) -> None:
    command = project.stand_in()[1]
    (project.folder / "sub").mkdir()
    project.write(
        "pytest.ini",
        f"[pytest]\ndrakit_driver = drivers/gpu.yaml\ndrakit_tier = local\ndrakit_report = out\n"
        f"drakit_command = {command}\ndrakit_arguments = --kubernetes-version 1.36\n",
    )
    project.run("-k", "A-1", "--drakit-tier", "kind", code=0)
    [words] = project.calls()
    assert words == [
        "conformance",
        str(project.folder / "drivers/gpu.yaml"),
        "--report",
        str(project.folder / "out"),
        "--tier",
        "kind",
        "--focus",
        "A-1",
        "--kubernetes-version",
        "1.36",
    ]
    assert (project.folder / "out" / "report.json").exists()


def test_workers_share_one_run(project: Project) -> None:
    project.run(*project.stand_in(), "--drakit-driver", "d.yaml", "-n", "3", code=1)
    assert len(project.calls()) == 1
    assert project.outcomes()["A-1"] == "passed"


def test_a_run_that_does_not_come_about_is_told_once(project: Project) -> None:
    words = ("--drakit-driver", "d.yaml", "--drakit-arguments=--broken")
    text = project.run("-ra", *project.stand_in(), *words, code=1)
    assert sorted(project.outcomes().values()) == ["failure", *5 * ["skip"]]
    assert "drakit could not judge (exit code 1):\ndrakit: driver.yaml: no such file" in text
    assert "the first requirement says why" in text


def test_a_report_of_an_earlier_run_does_not_count(project: Project) -> None:
    (project.folder / "out").mkdir()
    (project.folder / "out" / "report.json").write_text('{"results": []}')
    words = ("--drakit-driver", "d.yaml", "--drakit-report", "out", "--drakit-arguments=--broken")
    project.run(*project.stand_in(), *words, code=1)
    assert "failure" in project.outcomes().values()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            (),
            "drakit judges no driver yet: give --drakit-driver=DRIVER.yaml, or drakit_driver in the ini file",
        ),
        (
            ("--drakit-driver", "d.yaml", "--drakit-command", "/no/drakit"),
            "/no/drakit cannot be run: No such file",
        ),
        (("--drakit-driver", "d.yaml", "--drakit-command", "false"), "false conformance --list --json:"),
    ],
)
def test_mistakes_are_told_when_tests_are_collected(
    project: Project, words: tuple[str, ...], message: str
) -> None:
    assert message in project.run(*words, code=2)


def test_nothing_changes_for_who_does_not_ask(project: Project) -> None:
    project.write("conftest.py", "")
    project.write("test_conformance.py", "def test_own(): pass\n")
    assert "drakit" not in project.run("-q", code=0).replace(str(project.folder), "")


def test_the_module_itself_can_be_run(project: Project) -> None:
    project.write("test_conformance.py", "")
    (project.folder / "conftest.py").unlink()
    words = ("-p", "pytest_drakit", "--pyargs", "pytest_drakit", "--drakit-driver", "d.yaml")
    project.run(*words, *project.stand_in(), "-k", "A-1", code=0)
    assert project.outcomes() == {"A-1": "passed"}


def test_the_command_judges_the_reference_driver(project: Project) -> None:
    project.run(f"--drakit-driver={reference_driver()}", "-k", "DRV-REG-01 or ALC-CDI-01", code=0)
    assert project.outcomes() == {"DRV-REG-01": "passed", "ALC-CDI-01": "passed"}


# A project that uses pytest-kind


KIND = """#!/bin/sh
echo "$@" >> {calls}
case "$1 $2" in
  "get clusters") exit 0 ;;
  "create cluster") for word; do case $word in --kubeconfig=*) cat {config} > "${{word#*=}}" ;; esac; done ;;
  "delete cluster") exit 0 ;;
  *) exit 64 ;;
esac
"""


def test_a_project_with_pytest_kind_judges_on_its_cluster(up: Up, project: Project) -> None:
    """pytest-kind is real; what stands in for kind gives it an embedded cluster that has the driver."""
    config = up.record("--nodes", "2")["kubeconfig"]
    kind = project.write("kind", KIND.format(calls=project.folder / "kind-calls", config=config))
    kind.chmod(0o755)
    descriptor = {
        "schemaVersion": 1,
        "name": "gpu.drakit.dev",
        "installed": True,
        "deviceClasses": ["gpu.drakit.dev"],
        "capabilities": ["whole-devices"],
    }
    project.write("driver.yaml", json.dumps(descriptor))
    project.write("conftest.py", _example("conftest.py"))
    words = ("--drakit-driver", "driver.yaml", "--kind-bin", kind, "-k", "ALC-SCH-01 or DRV-REG-01")
    project.run(*words, code=0)
    assert project.outcomes() == {"ALC-SCH-01": "passed", "DRV-REG-01": "skip"}
    verbs = [line.split()[:2] for line in (project.folder / "kind-calls").read_text().splitlines()]
    assert verbs == [["get", "clusters"], ["create", "cluster"], ["delete", "cluster"]]


def _example(name: str) -> str:
    """A file that the manual shows."""
    text = (ROOT / "docs" / "pytest.md").read_text()
    found = [block.split("```")[0] for block in text.split("```python\n")[1:]]
    [block] = [block for block in found if block.startswith(f"# {name}") and "kind_cluster" in block]
    return block
