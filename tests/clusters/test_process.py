from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters.guardian import Guardian, start_ticks
from clusters.process import DriverProcess, StartError, run_command


@pytest.fixture
def guardian() -> Iterator[Guardian]:
    guardian = Guardian()
    yield guardian
    guardian.close()


def process(guardian: Guardian, tmp_path: Path, code: str, stop_seconds: float = 5.0) -> DriverProcess:
    return DriverProcess(
        [sys.executable, "-c", code],
        environment={"GREETING": "hello"},
        log=tmp_path / "log",
        guardian=guardian,
        stop_signal=signal.SIGTERM,
        stop_seconds=stop_seconds,
    )


def until(probe: object, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not probe():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it did not happen in time"
        threading.Event().wait(0.01)


def test_output_of_every_run_is_kept(guardian: Guardian, tmp_path: Path) -> None:
    driver = process(
        guardian, tmp_path, "import os, sys; print(os.environ['GREETING']); print('oops', file=sys.stderr)"
    )
    driver.start()
    assert driver.wait(10) == 0
    driver.start()
    assert driver.wait(10) == 0
    assert sorted(driver.output().split()) == ["hello", "hello", "oops", "oops"]
    assert driver.tail(1) in ("hello", "oops")
    driver.kill()


def test_a_clean_stop_gives_the_own_exit_code(guardian: Guardian, tmp_path: Path) -> None:
    code = "import signal, sys; signal.signal(15, lambda *_: sys.exit(7)); print('up', flush=True); signal.pause()"
    driver = process(guardian, tmp_path, code)
    driver.start()
    until(lambda: "up" in driver.output())
    assert driver.stop() == 7


def test_a_process_that_ignores_its_stop_signal_is_killed_with_its_children(
    guardian: Guardian, tmp_path: Path
) -> None:
    code = (
        "import signal, subprocess, sys; signal.signal(15, signal.SIG_IGN);"
        "child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()']); print(child.pid, flush=True); signal.pause()"
    )
    driver = process(guardian, tmp_path, code, stop_seconds=0.2)
    driver.start()
    until(lambda: driver.output().strip())
    child = int(driver.output())
    assert driver.stop() is None
    assert driver.exit_code == -signal.SIGKILL
    until(lambda: _gone(child))


def _gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def test_a_missing_program_is_told(guardian: Guardian, tmp_path: Path) -> None:
    driver = DriverProcess(
        ["/no/such/program"],
        environment={},
        log=tmp_path / "log",
        guardian=guardian,
        stop_signal=signal.SIGTERM,
        stop_seconds=1,
    )
    with pytest.raises(StartError, match='no program "/no/such/program"'):
        driver.start()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["/no/such/program"], 'hooks.x: no program "/no/such/program"'),
        ([sys.executable, "-c", "import sys; sys.exit('it is broken')"], "ended with code 1: it is broken"),
        ([sys.executable, "-c", "import signal; signal.pause()"], "did not end within 0.3 s"),
    ],
)
def test_a_command_that_fails_is_told_with_its_last_words(command: list[str], message: str) -> None:
    with pytest.raises(StartError, match=message):
        run_command(command, what="hooks.x", timeout=0.3 if "pause" in command[-1] else 20)


KIT = """
import os, pathlib, signal, subprocess, sys
from clusters.guardian import Guardian
folder = pathlib.Path(sys.argv[1]); folder.mkdir()
guardian = Guardian()
guardian.watch_folder(folder)
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], process_group=0)
guardian.watch_group(child.pid)
print(child.pid, flush=True)
signal.pause()
"""


def test_when_the_kit_is_killed_its_processes_and_folders_go(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    kit = subprocess.Popen([sys.executable, "-c", KIT, str(folder)], stdout=subprocess.PIPE, text=True)
    assert kit.stdout is not None
    child = int(kit.stdout.readline())
    assert folder.exists() and not _gone(child)
    kit.kill()
    kit.wait()
    kit.stdout.close()
    until(lambda: _gone(child) and not folder.exists())


def test_start_ticks_tell_processes_apart() -> None:
    assert start_ticks(os.getpid()) == start_ticks(os.getpid())
    assert start_ticks(2**22 + 1) is None
