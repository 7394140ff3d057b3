"""What `drakit up` prints, typed as printed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubectl_kit import VERSIONS, build

pytestmark = [pytest.mark.go, pytest.mark.timeout(900)]


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    # A blank in the path: what is printed is quoted for the shell.
    state = tmp_path / "my state"
    with tempfile.TemporaryDirectory(prefix="dt-", dir="/tmp") as temporary:
        found = {**os.environ, "XDG_STATE_HOME": str(state), "TMPDIR": temporary, "HOME": str(tmp_path)}
        yield found
        down = [sys.executable, "-m", "drakit", "down", "--all"]
        subprocess.run(down, env=found, check=True, capture_output=True, timeout=60)
        assert not list(Path(temporary).iterdir())


@pytest.mark.parametrize("version", VERSIONS)
def test_every_printed_line_works_when_it_is_typed(
    version: str, environment: dict[str, str], tmp_path: Path
) -> None:
    environment["PATH"] = f"{build(version).parent}:{tmp_path}:{os.environ['PATH']}"
    (tmp_path / "drakit").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m drakit "$@"\n')
    (tmp_path / "drakit").chmod(0o755)
    up = subprocess.run(
        ["drakit", "up", "--name", "lab", "--nodes", "1", "--gpus", "1"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert up.returncode == 0, up.stderr
    lines = [line.strip() for line in up.stdout.splitlines() if line.startswith("  ")]
    assert [line.split()[:2] for line in lines[1:]] == [
        ["kubectl", "get"],
        ["kubectl", "apply"],
        ["kubectl", "wait"],
        ["kubectl", "logs"],
        ["drakit", "status"],
        ["drakit", "down"],
    ]
    script = "set -e\n" + "\n".join(lines)
    typed = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert (typed.returncode, typed.stderr) == (0, ""), typed
    out = typed.stdout.splitlines()
    assert out[0].startswith("NAME") and out[1].startswith("node/node-1   Ready")
    assert "pod/example created" in out and "pod/example condition met" in out
    probe = json.loads(next(line for line in out if line.startswith("{")))
    assert [device["path"] for device in probe["devices"]] == ["/dev/fakegpu0"]
    assert out[-1] == 'cluster "lab" is gone'
