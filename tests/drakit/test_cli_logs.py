"""drakit logs, and what drakit status says about components that do not run."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cli_kit import SECONDS
from clusters_kit import QUICK, Up

from drakit.running import Running
from drakit.state import Folder

pytestmark = pytest.mark.process


def test_logs_of_a_cluster_are_listed_and_printed(up: Up) -> None:
    record = up.record(*QUICK, "--name", "lab")
    names = up("logs", "--name", "lab").out.split()
    assert {"apiserver", "scheduler", "kubelet-node-1", "keeper"} <= set(names)
    done = up("logs", "apiserver", "--name", "lab")
    assert done.code == 0 and done.out.endswith(f"I serving on {record['server']}\n")
    Path(record["logs"], "scheduler.log").write_text("one\ntwo\x1b[31m\nthree\n")
    assert up("logs", "scheduler", "--name", "lab").out == "one\ntwo\N{REPLACEMENT CHARACTER}[31m\nthree\n"
    assert up("logs", "scheduler", "--name", "lab", "--tail", "1").out == "three\n"
    assert up("logs", "scheduler", "--name", "lab", "--tail", "0").out == ""


def test_a_component_or_cluster_that_is_not_there_is_told(up: Up) -> None:
    done = up("logs", "scheduler")
    assert (done.code, done.err) == (2, 'drakit: no cluster "drakit"\n')
    up.record(*QUICK)
    done = up("logs", "apisrver")
    assert done.code == 2
    assert done.err.startswith(
        'drakit: no component "apisrver", did you mean "apiserver"?; there are apiserver, '
    )
    done = up("logs", "--tail", "3")
    assert done.code == 2 and done.err.startswith("drakit: which component? there are apiserver, ")


def test_follow_prints_what_comes_and_ends_with_the_cluster(up: Up) -> None:
    record = up.record(*QUICK)
    log = Path(record["logs"], "scheduler.log")
    following = up.start("logs", "scheduler", "-f", "--tail", "0")
    assert following.stdout is not None
    deadline = time.monotonic() + SECONDS
    while not _reads(following.pid, log):
        assert time.monotonic() < deadline, "the command reads the log"
        time.sleep(0.02)
    with log.open("a") as file:
        file.write("first\n")
    assert following.stdout.readline() == "first\n"
    # As when a long log begins anew.
    log.rename(log.with_name("scheduler.log.1"))
    log.write_text("second\n")
    assert following.stdout.readline() == "second\n"
    up("down")
    done = up.cli.finish(following)
    assert (done.code, done.err) == (0, "")


def _reads(pid: int, path: Path) -> bool:
    """Whether the process has the file open."""
    try:
        return any(entry.samefile(path) for entry in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


def test_status_names_components_that_do_not_run(up: Up) -> None:
    record = up.record(*QUICK)
    code, [state] = up.status()
    assert (code, state["tier"], "dead" in state) == (0, "embedded", False)
    Path(record["logs"], "scheduler.log").write_text("well\nno\x1b memory\n\n")
    # What the process of the cluster writes down when it sees that.
    (up.folders / "drakit" / "dead.json").write_text('["scheduler", "driver-node-1"]')
    code, [state] = up.status()
    assert (code, state["state"], state["dead"]) == (
        1,
        "running",
        {"scheduler": "no\x1b memory", "driver-node-1": ""},
    )
    done = up("status")
    assert done.out.splitlines()[2:] == [
        "scheduler of drakit does not run; its last line: no\N{REPLACEMENT CHARACTER} memory",
        "  drakit logs scheduler --name drakit",
        "driver-node-1 of drakit does not run",
        "  drakit logs driver-node-1 --name drakit",
    ]


@dataclass
class _Component:
    running: bool = True


def test_the_keeper_writes_down_what_does_not_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    components = {"apiserver": _Component(), "scheduler": _Component()}
    cluster: Any = SimpleNamespace(
        ended=lambda: [name for name, component in components.items() if not component.running]
    )
    folder = Folder("lab")
    with folder.held():
        running = Running(folder, cluster, None)
        running.look()
        assert folder.dead() == []
        components["scheduler"].running = False
        running.look()
        assert folder.dead() == ["scheduler"]
        components["scheduler"].running = True
        running.look()
        assert folder.dead() == []
