"""What the documents show works as it stands there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from drakit import allocate, lint
from drakit.json_lines import Answer, reply
from drakit.offline.expressions import Evaluator
from drakit.offline.linting import RULES, Target
from drakit.offline.linting import lint as find
from drakit.offline.settings import chosen_gates
from drakit.up import reference_driver

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.process
def test_the_example_of_tests_on_a_cluster_passes(tmp_path: Path) -> None:
    [example] = re.findall(r"```python\n(.*?)```", (DOCS / "cluster.md").read_text(), re.DOTALL)
    (tmp_path / "test_example.py").write_text(example)
    shutil.copy(reference_driver(), tmp_path / "gpu.yaml")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout.splitlines()[-1][:8]) == (0, "1 passed"), done.stdout + done.stderr


def test_the_examples_of_the_allocator_print_what_they_say(capsys: pytest.CaptureFixture[str]) -> None:
    examples = re.findall(r"```python\n(.*?)```", (DOCS / "allocator.md").read_text(), re.DOTALL)
    exec(compile("\n".join(examples), "allocator.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == [
        "['gpu-0']",
        "[]",
        "False in-use",
        "{'gpu.example.com/n1/gpu-0': 'in-use', 'gpu.example.com/n1/gpu-1': 'free'}",
    ]


@pytest.mark.process
@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("allocate", ["allocate"]),
        ("explain", ["explain", "claim", "two"]),
        ("devices", ["devices"]),
        ("cel", ["cel", 'device.attributes["gpu.example.com"].memory > 40']),
    ],
)
def test_commands_print_what_their_page_shows(page: str, words: list[str], tmp_path: Path) -> None:
    [cluster] = re.findall(r"```yaml\n(.*?)```", (DOCS / "allocate.md").read_text(), re.DOTALL)
    if page == "explain":
        cluster = cluster.replace("count: 2", "count: 3")
    (tmp_path / "cluster.yaml").write_text(cluster)
    done = subprocess.run(
        [sys.executable, "-m", "drakit", *words, "-f", "cluster.yaml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    shown = re.findall(r"\n\n```\n(.*?)```", (DOCS / f"{page}.md").read_text(), re.DOTALL)[0]
    assert [line.rstrip() for line in done.stdout.splitlines()] == shown.splitlines(), done.stderr


def test_lint_finds_what_its_page_shows() -> None:
    text = (DOCS / "lint.md").read_text()
    [manifest] = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    found = find([("claim.yaml", manifest)], [], Target("1.37", chosen_gates("")))
    [shown] = re.findall(r"prints:\n\n```\n(.*?)```", text, re.DOTALL)
    assert [f"{finding.severity}: {finding}" for finding in found] == shown.splitlines()[:-1]


@pytest.mark.parametrize(
    ("page", "answer"),
    [("allocate", allocate.Answers().answer), ("cel", Evaluator().answer), ("lint", lint.answer)],
)
def test_lines_have_the_answer_that_their_page_shows(page: str, answer: Answer) -> None:
    text = (DOCS / f"{page}.md").read_text()
    [(line, shown)] = re.findall(rf"<!-- line {page} -->\n```\n(.*)\n```\n\n    (.*)\n", text)
    assert reply(line.encode(), answer) == json.loads(shown)


def test_the_page_about_lint_has_every_rule() -> None:
    table = "".join(f"| `{name}` | {rule.severity} | {rule.meaning} |\n" for name, rule in RULES.items())
    expected = f"<!-- rules -->\n| rule | severity | what it finds |\n| --- | --- | --- |\n{table}<!-- end of rules -->"
    assert expected in (DOCS / "lint.md").read_text()
