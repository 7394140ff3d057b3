"""The pipelines that are there to be copied: valid for their services, with commands and options that there are."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from drakit.main import cli

DOCS = Path(__file__).parents[2] / "docs"
SCHEMAS = {
    "github-actions.yml": "vendor.github-workflows",
    "gitlab-ci.yml": "vendor.gitlab-ci",
}
JOBS = {"embedded", "kind", "local"}


def check(file: Path, schema: str) -> subprocess.CompletedProcess[str]:
    """By a schema that comes with the package: nothing is fetched."""
    command = [sys.executable, "-m", "check_jsonschema", "--no-cache", "--builtin-schema", schema, str(file)]
    proxy = {"HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9", "PATH": ""}
    return subprocess.run(command, capture_output=True, text=True, env=proxy, timeout=60)


def test_every_pipeline_has_a_schema() -> None:
    assert {path.name for path in (DOCS / "pipelines").iterdir()} == set(SCHEMAS)


@pytest.mark.process
@pytest.mark.parametrize(("name", "schema"), SCHEMAS.items())
def test_a_pipeline_is_valid_for_its_service(name: str, schema: str, tmp_path: Path) -> None:
    done = check(DOCS / "pipelines" / name, schema)
    assert done.returncode == 0, done.stdout + done.stderr
    # A job without anything to do shows that the schema is asked.
    document = load(name)
    jobs = document.get("jobs", document)
    jobs["embedded"] = {"timeout": 7, "runs-on": 7}
    broken = tmp_path / name
    broken.write_text(yaml.safe_dump(document))
    assert check(broken, schema).returncode == 1


def load(name: str) -> Any:
    return yaml.safe_load((DOCS / "pipelines" / name).read_text())


def scripts(name: str) -> Iterator[tuple[str, str]]:
    """Each line that a job runs, with the job's name."""
    document = load(name)
    for job, body in document.get("jobs", document).items():
        if job not in JOBS:
            continue
        for step in body.get("steps", ()):
            yield from ((job, line) for line in step.get("run", "").splitlines())
        for part in ("before_script", "script", "after_script"):
            yield from ((job, line) for line in body.get(part, ()))


def calls(name: str) -> list[tuple[str, list[str]]]:
    """The words of each call of drakit, with the job's name."""
    found = []
    for job, line in scripts(name):
        words = shlex.split(line)
        at = next((number for number, word in enumerate(words) if Path(word).name == "drakit"), None)
        if at is not None and not re.search(r"venv|pip", line):
            found.append((job, words[at + 1 :]))
    return found


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_calls_of_a_pipeline_are_ones_that_drakit_takes(name: str) -> None:
    for _, words in calls(name):
        command = cli.get_command(click.Context(cli), words[0])
        assert command is not None, words
        options = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options, words


@pytest.mark.parametrize("name", SCHEMAS)
def test_each_tier_is_looked_at_and_judged_with_a_report(name: str) -> None:
    judged = {}
    for job, words in calls(name):
        judged.setdefault(job, []).append(words)
    assert set(judged) == JOBS
    for job, both in judged.items():
        doctor, conformance = both[:2]
        assert doctor == ["doctor", "--tier", job]
        tier = [] if job == "embedded" else ["--tier", job]
        assert conformance == ["conformance", "$DRIVER", *tier, "--report", "report"]
    assert ["down", "--all"] in judged["kind"]


def test_reports_are_kept_when_a_job_fails() -> None:
    for job in load("github-actions.yml")["jobs"].values():
        upload = job["steps"][-1]
        assert (upload["uses"].partition("@")[0], upload["if"]) == ("actions/upload-artifact", "always()")
    common = load("gitlab-ci.yml")[".conformance"]["artifacts"]
    assert (common["when"], common["reports"]) == ("always", {"junit": "report/junit.xml"})


def test_the_manual_shows_every_pipeline() -> None:
    text = (DOCS / "ci.md").read_text()
    assert [name for name in SCHEMAS if f"pipelines/{name}" not in text] == []
