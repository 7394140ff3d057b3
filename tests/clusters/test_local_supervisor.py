"""Components of a local cluster as processes: start, end, crash, ports, logs."""

from __future__ import annotations

import os
import signal
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clusters.guardian import Guardian
from clusters.interface import ClusterError
from clusters.local import probes, supervisor
from clusters.local.supervisor import Launch, Process, wait_serving

pytestmark = pytest.mark.process

SERVER = """
import signal, socket, sys
server = socket.socket()
try:
    server.bind(("127.0.0.1", int(sys.argv[1])))
except OSError as error:
    sys.exit("listen tcp 127.0.0.1:%s: bind: address already in use" % sys.argv[1])
server.listen()
signal.signal(signal.SIGTERM, lambda *_: (print("bye", flush=True), sys.exit(0)))
print("ready", flush=True)
while True:
    signal.pause()
"""

Make = Callable[..., Process]


@pytest.fixture
def guardian() -> Iterator[Guardian]:
    guardian = Guardian()
    yield guardian
    guardian.close()


@pytest.fixture
def make(tmp_path: Path, guardian: Guardian) -> Make:
    def make(*words: str, stop_seconds: float = 20.0, ready: Callable[[], bool] = lambda: True) -> Process:
        launch = Launch([sys.executable, "-c", *words], ready)
        return Process("part", lambda: launch, guardian=guardian, logs=tmp_path, stop_seconds=stop_seconds)

    return make


def server(tmp_path: Path, guardian: Guardian, ports: list[int], **options: float) -> Process:
    """A server on the first of the ports; each further start takes the next one until it has served."""

    def launch() -> Launch:
        if not process.has_served and len(ports) > 1 and tries:
            ports.pop(0)
        tries.append(ports[0])
        return Launch([sys.executable, "-c", SERVER, str(ports[0])], lambda: process.said_line("ready"))

    tries: list[int] = []
    process = Process("server", launch, guardian=guardian, logs=tmp_path, stop_seconds=20.0)
    return process


def test_a_process_stops_in_order_and_starts_again(tmp_path: Path, guardian: Guardian) -> None:
    process = server(tmp_path, guardian, [probes.free_port()])
    assert not process.running
    process.start()
    wait_serving([process])
    first = process.pid
    process.start()
    assert (process.pid, process.running, process.crashed) == (first, True, False)
    process.stop()
    assert (process.running, process.crashed) == (False, False)
    assert process.logs() == ["ready", "bye"]
    process.restart()
    assert process.running and process.pid != first
    process.kill()
    assert (process.running, process.crashed) == (False, False)
    assert process.logs() == ["ready", "bye", "ready"]
    assert stat.S_IMODE(process.log.stat().st_mode) == 0o600


def test_a_process_that_does_not_heed_the_signal_is_killed(make: Make) -> None:
    words = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "print('deaf', flush=True); time.sleep(60)"
    )
    process = make(words, stop_seconds=0.2)
    process.start()
    while not process.said_line("deaf"):
        time.sleep(0.01)
    process.stop()
    assert not process.running
    assert process.last_words() == "part ended with signal SIGKILL; the end of its log:\n  deaf"


def test_a_process_that_ends_while_it_starts_tells_its_last_words(make: Make) -> None:
    process = make("import sys; print('a\\nno such\\ndevice'); sys.exit(3)", ready=lambda: False)
    process.start()
    with pytest.raises(ClusterError) as caught:
        wait_serving([process])
    assert str(caught.value) == "part ended with exit code 3; the end of its log:\n  a\n  no such\n  device"
    assert process.crashed


def test_the_reason_of_a_panic_is_told_and_not_its_stack(make: Make) -> None:
    words = (
        "import sys; print('panic: no space left on device\\n\\ngoroutine 1 [running]:'); "
        "print('main.main()\\n' * 30); sys.exit(2)"
    )
    process = make(words)
    process.start()
    while process.running:
        time.sleep(0.01)
    assert process.last_words().splitlines() == [
        "part ended with exit code 2; the end of its log:",
        "  panic: no space left on device",
        "  (the disk is full, or fs.inotify.max_user_watches too small)",
    ]


def test_one_that_has_served_and_ended_is_told_while_another_is_waited_for(make: Make) -> None:
    first = make("import time; time.sleep(60)")

    def ready() -> bool:
        if first.running:
            os.kill(first.pid, signal.SIGKILL)
        return False

    second = make("import time; time.sleep(60)", ready=ready)
    first.start()
    second.start()
    with pytest.raises(ClusterError, match="part ended with signal SIGKILL; it printed nothing"):
        wait_serving([first, second])
    second.kill()


def test_a_limit_of_the_machine_comes_with_what_helps(make: Make) -> None:
    process = make("import sys; sys.exit('failed: inotify_init: too many open files')")
    process.start()
    while process.running:
        time.sleep(0.01)
    assert process.last_words().splitlines()[-1] == (
        "  (this machine has too few inotify instances for so many kubelets; as root: "
        "sysctl -w fs.inotify.max_user_instances=1024)"
    )


def test_one_that_does_not_serve_in_time_is_named(make: Make) -> None:
    process = make("import time; time.sleep(60)", ready=lambda: False)
    process.start()
    with pytest.raises(ClusterError, match=r"part does not serve after 0\.1 s; it printed nothing"):
        wait_serving([process], 0.1)
    process.kill()


def test_a_missing_program_is_named(tmp_path: Path, guardian: Guardian) -> None:
    launch = Launch([str(tmp_path / "etcd")], lambda: True)
    process = Process("etcd", lambda: launch, guardian=guardian, logs=tmp_path, stop_seconds=1.0)
    with pytest.raises(ClusterError, match=r"etcd: cannot start .*/etcd: No such file or directory"):
        process.start()


def test_a_taken_port_leads_to_another(tmp_path: Path, guardian: Guardian) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken, free = other.getsockname()[1], probes.free_port()
        process = server(tmp_path, guardian, [taken, free])
        process.start()
        wait_serving([process])
    assert process.running
    with socket.create_connection(("127.0.0.1", free)):
        pass
    # What others know it by stays.
    process.restart()
    with socket.create_connection(("127.0.0.1", free)):
        pass
    process.kill()


def test_a_port_that_stays_taken_is_told(tmp_path: Path, guardian: Guardian) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        process = server(tmp_path, guardian, [other.getsockname()[1]])
        process.start()
        with pytest.raises(ClusterError, match="address already in use"):
            wait_serving([process])


def test_what_a_process_has_started_ends_with_it(make: Make) -> None:
    words = (
        "import subprocess, sys, time; "
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], start_new_session=True); "
        "print(child.pid, flush=True); time.sleep(60)"
    )
    process = make(words)
    process.start()
    while not process.logs():
        time.sleep(0.01)
    child = int(process.logs()[0])
    process.kill()
    with pytest.raises(ProcessLookupError):
        # It may be a zombie for a moment, until init has noticed.
        for _ in range(500):
            os.kill(child, 0)
            time.sleep(0.01)


def test_a_process_does_not_see_the_proxies_of_the_user(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://192.0.2.9:3128")
    monkeypatch.setenv("KUBECONFIG", "/home/me/.kube/config")
    process = make("import os; print(os.environ.get('HTTPS_PROXY'), os.environ.get('KUBECONFIG'))")
    process.start()
    while process.running:
        time.sleep(0.01)
    assert process.logs() == ["None None"]


def test_a_long_log_begins_anew_and_its_end_is_still_told(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_LIMIT_BYTES", 100)
    pause = threading.Event()
    words = (
        "import signal; wanted = {signal.SIGUSR1}; signal.pthread_sigmask(signal.SIG_BLOCK, wanted); "
        "print('x' * 200, flush=True); signal.sigwait(wanted); print('after', flush=True)"
    )
    process = make(words)
    for _ in range(2):
        process.start()
        while not process.said_line("x" * 200):
            pause.wait(0.01)
        process.trim()
        assert process.log.stat().st_size == 0
        assert Path(f"{process.log}.1").read_text().endswith("x" * 200 + "\n")
        os.kill(process.pid, signal.SIGUSR1)
        while process.running:
            pause.wait(0.01)
        assert process.log.read_text() == "after\n"
        # The run began further on in the file than it is long now.
        assert process.last_words() == "part ended with exit code 0; the end of its log:\n  after"
        process.trim()
        assert process.logs() == ["after"]


def test_a_long_log_begins_anew_although_its_copy_has_no_room(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_LIMIT_BYTES", 100)
    process = make("print('x' * 200, flush=True)")
    process.start()
    while process.running:
        time.sleep(0.01)
    Path(f"{process.log}.1").mkdir()
    (Path(f"{process.log}.1") / process.log.name).mkdir()
    process.trim()
    assert process.log.stat().st_size == 0


def test_ports_are_given_once() -> None:
    assert len({probes.free_port() for _ in range(50)}) == 50
