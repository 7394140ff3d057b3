"""`drakit up --tier local`, and what is left of it however it ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.go,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.geteuid() != 0, reason="kubelets need root"),
]

SECONDS = 240.0
MARK = "DRAKIT_UP_LOCAL_TEST"
PROGRAMS = {"etcd", "kube-apiserver", "kube-controller", "kube-scheduler", "kubelet"}


def until(probe: Callable[[], Any], what: str, seconds: float = SECONDS) -> Any:
    deadline, pause = time.monotonic() + seconds, threading.Event()
    while not (found := probe()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        pause.wait(0.05)
    return found


@dataclass
class Drakit:
    """The command with a state folder and a temporary folder of its own."""

    environment: dict[str, str]
    temporary: Path

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "drakit", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
            # A shell that runs these tests in the background has it ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def run(self, *words: str, code: int = 0) -> str:
        process = self.start(*words)
        out, err = process.communicate(timeout=SECONDS)
        assert process.returncode == code, err + out
        assert "Traceback" not in err, err
        return out

    def status(self, code: int = 0) -> dict[str, Any]:
        [state] = json.loads(self.run("status", "--json", code=code))
        return dict(state)

    def processes(self) -> dict[int, str]:
        """Names of all programs that this has started, by process id."""
        found = {}
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                try:
                    if f"{MARK}={self.temporary}".encode() in (folder / "environ").read_bytes():
                        found[int(folder.name)] = (folder / "comm").read_text().strip()
                except OSError:
                    continue
        return found

    def kill_keeper(self, *, guardian: bool) -> None:
        """Kill the process that holds the cluster; without a guardian that one first."""
        lock = json.loads(next(Path(self.environment["XDG_STATE_HOME"]).rglob("lock")).read_text())
        if not guardian:
            for pid in self.processes():
                # What is about to end is no guardian.
                with contextlib.suppress(OSError):
                    if "guardian.py" in Path(f"/proc/{pid}/cmdline").read_text():
                        os.kill(pid, signal.SIGKILL)
        os.kill(lock["pid"], signal.SIGKILL)

    def check_clean(self) -> None:
        until(lambda: not self.processes(), f"the end of {self.processes()}")
        until(lambda: not list(self.temporary.iterdir()), "no file is left")
        assert str(self.temporary) not in Path("/proc/self/mountinfo").read_text()


@pytest.fixture
def drakit(tmp_path: Path) -> Iterator[Drakit]:
    with tempfile.TemporaryDirectory(prefix="dt-", dir="/tmp") as temporary:
        own = {"XDG_STATE_HOME": str(tmp_path), "TMPDIR": temporary, MARK: temporary}
        drakit = Drakit({**os.environ, **own}, Path(temporary))
        yield drakit
        subprocess.run(
            [sys.executable, "-m", "drakit", "down", "--all"],
            env=drakit.environment,
            check=True,
            capture_output=True,
            timeout=SECONDS,
        )
        drakit.check_clean()


def test_a_cluster_is_there_until_it_is_told_to_end(drakit: Drakit) -> None:
    up = drakit.start("up", "--tier", "local", "--nodes", "2", "--gpus", "2")
    out, err = up.communicate(timeout=SECONDS)
    assert up.returncode == 0, err
    assert out.splitlines()[0] == (
        'cluster "drakit" is ready: Kubernetes 1.37.2 (local), 2 nodes with driver gpu.drakit.dev'
    )
    said = [line.rpartition(" (")[0].partition(" https")[0] for line in err.splitlines()]
    assert said[-3:] == [
        "drakit: API server at",
        "drakit: 2 nodes Ready",
        "drakit: 4 devices of gpu.drakit.dev",
    ]
    state = drakit.status()
    assert (state["tier"], state["version"], state["state"]) == ("local", "1.37.2", "running")
    assert (state["nodesReady"], state["devices"]) == (2, 4)
    assert set(drakit.processes().values()) >= PROGRAMS
    logs = {path.name for path in Path(state["logs"]).iterdir()}
    assert {
        "etcd.log",
        "apiserver.log",
        "controller-manager.log",
        "scheduler.log",
        "runtime.log",
        "kubelet-node-1.log",
        "kubelet-node-2.log",
        "driver-node-1.log",
    } <= logs
    assert "Successfully registered node" in drakit.run("logs", "kubelet-node-1")
    # A component that ends is told.
    [scheduler] = [pid for pid, name in drakit.processes().items() if name == "kube-scheduler"]
    os.kill(scheduler, signal.SIGKILL)

    def told() -> bool:
        out, _ = drakit.start("status", "--json").communicate(timeout=SECONDS)
        return list(json.loads(out)[0].get("dead", {})) == ["scheduler"]

    until(told, "it is told")
    drakit.run("down")
    drakit.check_clean()


@pytest.mark.parametrize("guardian", [True, False])
def test_nothing_is_left_of_a_cluster_whose_keeper_is_killed(drakit: Drakit, guardian: bool) -> None:
    drakit.run("up", "--tier", "local", "--nodes", "1", "--gpus", "1")
    drakit.kill_keeper(guardian=guardian)
    if not guardian:
        drakit.run("down")
    drakit.check_clean()


def test_nothing_is_left_of_a_start_whose_keeper_and_guardian_are_killed(drakit: Drakit) -> None:
    up = drakit.start("up", "--tier", "local", "--nodes", "1")
    until(lambda: "kube-apiserver" in drakit.processes().values(), "the API server runs")
    drakit.kill_keeper(guardian=False)
    _, err = up.communicate(timeout=SECONDS)
    assert up.returncode == 3
    assert "the process of the cluster ended with signal SIGKILL" in err
    drakit.check_clean()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("program", ["kube-apiserver", "kubelet"])
def test_nothing_is_left_of_a_start_that_is_interrupted(
    drakit: Drakit, number: signal.Signals, program: str
) -> None:
    up = drakit.start("up", "--tier", "local", "--nodes", "1")
    until(lambda: program in drakit.processes().values(), f"{program} runs")
    up.send_signal(number)
    _, err = up.communicate(timeout=SECONDS)
    assert up.returncode != 0
    assert "Traceback" not in err
    drakit.check_clean()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--kubernetes-version", "1.33"], "1.33 is not known; there are 1.37, 1.36, 1.35, 1.34"),
        (["--binaries", "/nowhere"], "/nowhere"),
        (["--feature-gates", "DRADeviceTaint=true"], 'did you mean "DRADeviceTaints"'),
        (
            ["--feature-gates", "DRADerivedAttributes=true", "--kubernetes-version", "1.36"],
            "DRADerivedAttributes",
        ),
    ],
)
def test_what_cannot_be_is_told(drakit: Drakit, words: list[str], said: str) -> None:
    up = drakit.start("up", "--tier", "local", *words)
    _, err = up.communicate(timeout=SECONDS)
    assert up.returncode == 2
    assert said in err
    assert "Traceback" not in err
