"""The OCI runtime of a private engine, on what Docker 20.10 hands to runc for a privileged container and its exec."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clusters.kind import runc_nocap

CAPTURED = json.loads((Path(__file__).parent / "data" / "oci_privileged.json").read_text())
# As /proc/PID/status writes them: all 41 capabilities, and all without number 24.
ALL = "CapBnd:\t000001ffffffffff\n"
SANDBOX = "Name:\tbash\nCapEff:\t000001fffeffffff\nCapBnd:\t000001fffeffffff\n"


def captured(name: str) -> dict[str, Any]:
    return json.loads(json.dumps(CAPTURED[name]))


def process_of(name: str) -> dict[str, Any]:
    document = captured(name)
    return document["process"] if name == "config.json" else document


def test_a_root_with_every_capability_grants_all_and_a_sandbox_does_not() -> None:
    assert runc_nocap.grants_all(ALL)
    assert not runc_nocap.grants_all(SANDBOX)


@pytest.mark.parametrize("name", ["config.json", "process"])
def test_what_a_sandbox_cannot_grant_is_taken_from_a_process_and_nothing_else(name: str) -> None:
    before, process = process_of(name), process_of(name)
    assert before["oomScoreAdj"] == -500
    assert before["rlimits"] == [{"type": "RLIMIT_NOFILE", "hard": 1048576, "soft": 1048576}]
    runc_nocap.lessen(process)
    assert process.pop("oomScoreAdj") == 0
    assert "rlimits" not in process
    for kind in ("bounding", "effective", "permitted"):
        assert set(before["capabilities"][kind]) - set(process["capabilities"][kind]) == {"CAP_SYS_RESOURCE"}
        assert len(process["capabilities"][kind]) == 37
    for key in ("args", "env", "cwd", "user"):
        assert process[key] == before[key]


def test_a_process_without_any_of_it_stays_as_it_is() -> None:
    process = {
        "args": ["sh"],
        "oomScoreAdj": 300,
        "capabilities": {"bounding": ["CAP_CHOWN"], "ambient": None},
    }
    runc_nocap.lessen(process)
    assert process == {
        "args": ["sh"],
        "oomScoreAdj": 300,
        "capabilities": {"bounding": ["CAP_CHOWN"], "ambient": None},
    }


@pytest.mark.parametrize(
    ("words", "path", "whole"),
    [
        ("--root /r --log /l create --bundle /b/x --pid-file /p ID", "/b/x/config.json", True),
        ("--root /r run -b=/b/x ID", "/b/x/config.json", True),
        ("create ID", "config.json", True),
        ("--root /r exec --process /tmp/p1 --detach ID", "/tmp/p1", False),
        ("exec --process=/tmp/p1 ID", "/tmp/p1", False),
        ("exec -p /tmp/p1 ID", "/tmp/p1", False),
    ],
)
def test_the_file_of_a_command_is_found(words: str, path: str, whole: bool) -> None:
    assert runc_nocap.document(words.split()) == (Path(path), whole)


@pytest.mark.parametrize(
    "words", ["start ID", "kill ID 9", "delete --force ID", "exec ID sh", "--version", "state ID"]
)
def test_other_commands_have_no_file(words: str) -> None:
    assert runc_nocap.document(words.split()) is None


@pytest.mark.process
def test_runc_gets_the_same_words_after_the_file_was_rewritten(tmp_path: Path) -> None:
    runc = tmp_path / "runc"
    runc.write_text('#!/bin/sh\necho "$@"\n')
    runc.chmod(runc.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "config.json").write_text(json.dumps(captured("config.json")))
    words = ["--root", "/r", "create", "--bundle", str(tmp_path), "a b"]
    done = subprocess.run(
        [sys.executable, "-I", "-S", runc_nocap.__file__, str(runc), *words],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"--root /r create --bundle {tmp_path} a b\n"
    process = json.loads((tmp_path / "config.json").read_text())["process"]
    granted = runc_nocap.grants_all(Path(f"/proc/{os.getpid()}/status").read_text())
    assert ("CAP_SYS_RESOURCE" in process["capabilities"]["bounding"]) is granted
    assert process["oomScoreAdj"] == (-500 if granted else 0)
