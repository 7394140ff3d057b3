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

from clusters import output
from clusters.guardian import Guardian, kill_group, start_ticks
from clusters.process import Commands, DriverProcess, StartError, child_environment


@pytest.fixture
def guardian() -> Iterator[Guardian]:
    guardian = Guardian()
    yield guardian
    guardian.close()


def process(guardian: Guardian, code: str, stop_seconds: float = 5.0) -> DriverProcess:
    return DriverProcess(
        [sys.executable, "-c", code],
        environment={"GREETING": "hello"},
        guardian=guardian,
        stop_signal=signal.SIGTERM,
        stop_seconds=stop_seconds,
    )


def until(probe: object, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not probe():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it did not happen in time"
        threading.Event().wait(0.01)


def test_output_of_every_run_is_kept(guardian: Guardian) -> None:
    driver = process(
        guardian, "import os, sys; print(os.environ['GREETING']); print('oops', file=sys.stderr)"
    )
    driver.start()
    assert driver.wait(10) == 0
    driver.start()
    assert driver.wait(10) == 0
    assert sorted(driver.output().split()) == ["hello", "hello", "oops", "oops"]
    assert driver.tail(1) in ("hello", "oops")
    driver.kill()


def test_a_clean_stop_gives_the_own_exit_code(guardian: Guardian) -> None:
    code = "import signal, sys; signal.signal(15, lambda *_: sys.exit(7)); print('up', flush=True); signal.pause()"
    driver = process(guardian, code)
    driver.start()
    until(lambda: "up" in driver.output())
    assert driver.stop() == 7


def test_time_without_a_processor_is_counted(guardian: Guardian) -> None:
    processor = min(os.sched_getaffinity(0))
    # Two that always have something to do share one.
    code = f"import os; os.sched_setaffinity(0, {{{processor}}}); os.fork()\nwhile True: pass"
    driver = process(guardian, code)
    assert driver.starved == 0
    driver.start()
    until(lambda: driver.starved > 0.05, 60.0)
    driver.kill()
    assert driver.starved == 0


def test_a_process_that_ignores_its_stop_signal_is_killed_with_its_children(
    guardian: Guardian,
) -> None:
    code = (
        "import signal, subprocess, sys; signal.signal(15, signal.SIG_IGN);"
        "child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()']);"
        "print(child.pid, flush=True); signal.pause()"
    )
    driver = process(guardian, code, stop_seconds=0.2)
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


def test_a_missing_program_is_told(guardian: Guardian) -> None:
    driver = DriverProcess(
        ["/no/such/program"],
        environment={},
        guardian=guardian,
        stop_signal=signal.SIGTERM,
        stop_seconds=1,
    )
    with pytest.raises(StartError, match='no program "/no/such/program"'):
        driver.start()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["/no/such/program"], 'hooks.x: no program "/no/such/program"; build it or correct the path'),
        (["no-such-program"], 'hooks.x: no program "no-such-program" in PATH'),
        (["./no-such-program"], "{descriptor_dir} is the descriptor's folder"),
        (["/etc/passwd"], 'cannot start "/etc/passwd": it is not executable; chmod'),
        (
            [sys.executable, "-c", "import sys; sys.exit('it is broken')"],
            "ended with exit code 1: it is broken",
        ),
        ([sys.executable, "-c", "import sys; sys.exit(3)"], "ended with exit code 3 and said nothing"),
        ([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], "ended with signal SIGKILL"),
        (
            [sys.executable, "-c", "import os; os.write(1, b'\\xff\\xfe oh\\n'); os._exit(2)"],
            "exit code 2: \ufffd\ufffd oh",
        ),
        ([sys.executable, "-c", "import signal; signal.pause()"], "did not end within 0.3 s; it must"),
    ],
)
def test_a_command_that_fails_is_told_with_its_last_words(
    guardian: Guardian, command: list[str], message: str
) -> None:
    commands = Commands(guardian)
    with pytest.raises(StartError) as caught:
        commands.run(command, "hooks.x", 0.3 if "pause" in command[-1] else 20)
    assert message in str(caught.value)
    commands.close()


def test_a_script_without_its_interpreter_is_told(guardian: Guardian, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    with pytest.raises(StartError, match="the interpreter that its first line names does not exist"):
        Commands(guardian).run([str(script)], "hooks.x")


# Starts a sleeper in a session of its own, tells its number, and ends.
DAEMON = """
import subprocess, sys
child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'], start_new_session=True)
print(child.pid, flush=True)
"""


def test_what_a_driver_leaves_in_another_session_dies_with_it(guardian: Guardian) -> None:
    driver = process(guardian, DAEMON + "import signal; signal.pause()")
    driver.start()
    until(lambda: driver.output().strip())
    child = int(driver.output())
    assert not _gone(child)
    driver.kill()
    until(lambda: _gone(child))


def test_what_a_command_leaves_in_the_background_lives_until_the_close(
    guardian: Guardian, tmp_path: Path
) -> None:
    told = tmp_path / "pid"
    commands = Commands(guardian)
    commands.run(
        [sys.executable, "-c", DAEMON + f"open({str(told)!r}, 'w').write(str(child.pid))"], "hooks.x"
    )
    child = int(told.read_text())
    assert not _gone(child)
    commands.close()
    until(lambda: _gone(child))


def test_a_command_that_runs_at_the_close_ends(guardian: Guardian) -> None:
    commands = Commands(guardian)
    caught: list[StartError] = []

    def run() -> None:
        try:
            commands.run([sys.executable, "-c", "import signal; signal.pause()"], "prepareNode[0]")
        except StartError as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: commands._running)
    commands.close()
    thread.join(10)
    assert "signal SIGKILL" in str(caught[0])
    with pytest.raises(StartError, match="the run is over"):
        commands.run(["true"], "hooks.x")


def test_after_the_close_a_driver_does_not_start_again(guardian: Guardian) -> None:
    driver = process(guardian, "import signal; signal.pause()")
    driver.start()
    driver.close()
    with pytest.raises(StartError, match="the run is over"):
        driver.start()


def test_endless_output_is_kept_up_to_a_limit(guardian: Guardian, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "HEAD_BYTES", 100_000)
    monkeypatch.setattr(output, "TAIL_BYTES", 10_000)
    code = "import os\nos.write(1, b'first\\n')\nwhile True: os.write(1, bytes(range(256)) * 256)"
    driver = process(guardian, code)
    driver.start()
    until(lambda: "bytes left out" in driver.output())
    text = driver.output()
    assert text.startswith("first\n")
    assert len(text) <= 100_000 + 10_000 + len("\n[99999999999 bytes left out]\n")
    driver.close()


def test_the_environment_of_a_driver_leads_to_no_other_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/home/me/.kube/config")
    monkeypatch.setenv("NO_PROXY", "example.com")
    monkeypatch.setenv("KEPT", "yes")
    found = child_environment("mark", {"A": "1"}, {"A": "2"})
    assert "KUBECONFIG" not in found and found["NO_PROXY"] == "example.com,127.0.0.1"
    assert (found["A"], found["KEPT"], found["DRAKIT_OWNER"]) == ("2", "yes", "mark")


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


def test_a_group_whose_number_means_another_now_is_left_alone(guardian: Guardian) -> None:
    other = subprocess.Popen(["sleep", "60"], process_group=0)
    try:
        guardian.kill_group(other.pid)
        kill_group(other.pid, (start_ticks(other.pid) or 0) - 1)
        guardian.watch_group(other.pid)
        guardian.forget_group(other.pid)
        guardian.kill_group(other.pid)
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(0.1)
        guardian.watch_group(other.pid)
        guardian.kill_group(other.pid)
        assert other.wait(10.0) == -signal.SIGKILL
    finally:
        other.kill()
        other.wait()
