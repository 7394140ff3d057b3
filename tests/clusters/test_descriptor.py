from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from clusters import descriptor
from clusters.document import DocumentError

WORDS = ["sharing", "whole-devices"]
MINIMAL = """
schemaVersion: 1
name: gpu.example.com
start: {command: [run, "{node}"]}
"""


def load(tmp_path: Path, text: str) -> descriptor.Descriptor:
    path = tmp_path / "driver.yaml"
    path.write_text(text)
    return descriptor.load(path, WORDS)


def problems(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(DocumentError) as caught:
        load(tmp_path, text)
    return caught.value.problems


def test_a_minimal_descriptor_gets_defaults(tmp_path: Path) -> None:
    found = load(tmp_path, MINIMAL)
    assert (found.name, found.start, found.stop_signal) == (
        "gpu.example.com",
        ("run", "{node}"),
        signal.SIGTERM,
    )
    assert (found.ready_seconds, found.stop_seconds, found.slice_repair_seconds) == (30.0, 10.0, 90.0)


def test_placeholders_are_replaced_and_foreign_braces_kept(tmp_path: Path) -> None:
    found = load(tmp_path, MINIMAL)
    words = found.expand(
        ["{python}", "--n={node}", "{descriptor_dir}/x", "{driver}", "${HOME} {1}"], {"node": "n1"}
    )
    assert words == [sys.executable, "--n=n1", f"{tmp_path.resolve()}/x", "gpu.example.com", "${HOME} {1}"]


def test_the_reference_descriptor_is_valid() -> None:
    from conformance import catalogue

    descriptor.load(Path("driver/reference.yaml"), catalogue.capabilities())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (MINIMAL + "capabilites: []", 'capabilites: unknown field; did you mean "capabilities"?'),
        (
            MINIMAL + "capabilities: [sharin]",
            'capabilities[0]: "sharin" is not one of sharing, whole-devices; did you mean "sharing"?',
        ),
        (
            MINIMAL + "permissions: [{apiGroups: [''], resources: [nodes], verbs: get}]",
            "permissions[0].verbs: must be a list, got a string",
        ),
        (
            MINIMAL + "hooks: {failDevice: [[x, '{divice}']]}",
            'hooks.failDevice[0]: unknown placeholder {divice}; did you mean "device"?',
        ),
        (
            MINIMAL + "stop: {signal: SIGKILL}",
            'stop.signal: "SIGKILL" is not one of SIGTERM, SIGINT, SIGQUIT, SIGHUP',
        ),
        (MINIMAL + "stop: {graceSeconds: true}", "stop.graceSeconds: must be a number, got true or false"),
        (
            MINIMAL + "sliceRepairSeconds: 0",
            "sliceRepairSeconds: must be a number of seconds greater than zero",
        ),
        (MINIMAL.replace("gpu.example.com", "GPU_1"), 'name: "GPU_1" is not a driver name'),
        (
            MINIMAL.replace("schemaVersion: 1", "schemaVersion: 2"),
            "schemaVersion: 2 is not known; this drakit reads 1",
        ),
        (MINIMAL.replace('{command: [run, "{node}"]}', "{}"), "start.command: is required: a list"),
        ("name: x\nname: y", 'line 2, column 1: not valid YAML: key "name" is given twice'),
        ("[1, 2]", "must be a mapping, got a list"),
        ("a: 1\n---\nb: 2", "line 2, column 1: a second document; there must be one in a file"),
        ("a: [", "line 1, column 5: not valid YAML"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_what_is_allowed(
    tmp_path: Path, text: str, expected: str
) -> None:
    assert any(problem.startswith(expected) for problem in problems(tmp_path, text)), problems(tmp_path, text)


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    assert len(problems(tmp_path, "schemaVersion: 1\nname: ''\nstart: {comand: [x]}\nfoo: 1")) == 4


def test_a_schema_version_of_another_type_is_one_problem_and_zero_is_unknown(tmp_path: Path) -> None:
    text = MINIMAL.replace("schemaVersion: 1", 'schemaVersion: "1"')
    assert problems(tmp_path, text) == ["schemaVersion: must be an integer, got a string"]
    zero = MINIMAL.replace("schemaVersion: 1", "schemaVersion: 0")
    assert problems(tmp_path, zero) == ["schemaVersion: 0 is not known; this drakit reads 1"]


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="no such file"):
        descriptor.load(tmp_path / "absent.yaml", WORDS)


def test_a_driver_that_is_somewhere_already_needs_no_command(tmp_path: Path) -> None:
    there = "schemaVersion: 1\nname: gpu.example.com\n"
    found = load(tmp_path, there + "installed: true\n")
    assert (found.installed, found.start, found.manifests) == (True, (), ())
    with pytest.raises(DocumentError, match="start: is required where drakit starts the cluster"):
        descriptor.check_start(found)
    found = load(tmp_path, there + "manifests: [a.yaml, sub/b.yaml]\n")
    assert found.manifests == (tmp_path / "a.yaml", tmp_path / "sub" / "b.yaml")
    # With a command it can also run where drakit starts the cluster.
    both = load(tmp_path, MINIMAL + "installed: true\n")
    descriptor.check_start(both)
    assert both.start == ("run", "{node}")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "start: is required: a mapping"),
        (
            "installed: true\nmanifests: [a.yaml]\n",
            'manifests: install a driver that is not there; leave them out, or "installed"',
        ),
        ("installed: true\nstart: {readySeconds: 3}\n", "start.command: is required: a list"),
        ("installed: yep\n", "installed: must be true or false, got a string"),
    ],
)
def test_a_driver_is_started_or_is_there(text: str, problem: str, tmp_path: Path) -> None:
    assert problem in problems(tmp_path, f"schemaVersion: 1\nname: gpu.example.com\n{text}")
