"""What a driver does to devices, by threads and processes that may die at any moment."""

from __future__ import annotations

import functools
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fake_hw import journal, machines, state, tree
from fake_hw.backend import Backend
from fake_hw.errors import ConfigureError, ConfigureTimeoutError, DeviceNotFoundError, TreeError
from fake_hw.faults import Faults
from fake_hw.journal import Clock

BDF = "0000:65:01.0"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "host"
    tree.create(machines.get("a30-1"), root, mknod=False)
    return root


def kinds(root: Path) -> list[str]:
    return [event.kind for event in journal.read(root)]


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Another thread or process has to get somewhere first; it takes milliseconds, on a busy machine seconds."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen in 30 s"
        time.sleep(0.005)


def test_configure_and_reset_lead_back_to_the_start(root: Path) -> None:
    backend = Backend(root, clock=Clock(monotonic_ns=lambda: 42))
    assert backend.configured() == {}
    backend.configure(BDF, "u1", {"timeslice": "Long"})
    use = backend.configured()[BDF]["u1"]
    assert (use.settings, use.shared, use.since_ns) == ({"timeslice": "Long"}, False, 42)
    assert backend.reset(BDF, "u1") is True
    assert backend.configured() == {}


def test_resetting_what_is_not_configured_is_harmless_and_noted(root: Path) -> None:
    assert Backend(root).reset(BDF, "u1") is False
    (event,) = journal.read(root)
    assert (event.kind, event.claim, event.detail) == ("reset", "u1", "was not configured")


def test_two_claims_on_one_device_are_not_refused_but_show(root: Path) -> None:
    backend = Backend(root)
    backend.configure(BDF, "u1")
    backend.configure(BDF, "u2")
    assert set(backend.configured()[BDF]) == {"u1", "u2"}
    assert [overlap.claims for overlap in journal.overlaps(journal.read(root))] == [("u1", "u2")]


def test_repeating_keeps_the_beginning_and_replaces_the_settings(root: Path) -> None:
    times = iter(range(10))
    backend = Backend(root, clock=Clock(monotonic_ns=lambda: next(times)))
    backend.configure(BDF, "u1", {"timeslice": "Short"})
    backend.configure(BDF, "u1", {"timeslice": "Long"}, shared=True)
    use = backend.configured()[BDF]["u1"]
    assert (use.settings, use.shared, use.since_ns) == ({"timeslice": "Long"}, True, 0)
    assert kinds(root) == ["configure", "configure"]


def test_a_device_that_is_not_there_is_named(root: Path) -> None:
    with pytest.raises(DeviceNotFoundError, match=r"0000:66:00\.0: no such GPU below"):
        Backend(root).configure("0000:66:00.0", "u1")
    assert kinds(root) == ["configure-failed"]


@pytest.mark.parametrize("setting", ["timeslice", "timeSlice", "mig"])
def test_a_setting_for_a_feature_that_the_device_lacks_is_refused(root: Path, setting: str) -> None:
    Faults(root).missing(f"{BDF}/gpu/features/mig")
    Faults(root).text(f"{BDF}/gpu/features/timeslice", b"unsupported\n")
    with pytest.raises(ConfigureError, match=f'"{setting}" needs the feature {setting.lower()}'):
        Backend(root).configure(BDF, "u1", {setting: "x"})
    Backend(root).configure(BDF, "u1")
    assert Backend(root).configured()[BDF]["u1"].settings == {}


def test_a_directory_that_is_no_tree_is_named(tmp_path: Path) -> None:
    with pytest.raises(TreeError, match="not a fake hardware tree"):
        Backend(tmp_path).configure(BDF, "u1")


def test_a_device_loses_its_configuration_when_it_vanishes(root: Path) -> None:
    backend = Backend(root)
    backend.configure(BDF, "u1")
    Faults(root).vanish(BDF)
    assert backend.configured() == {}
    with pytest.raises(DeviceNotFoundError):
        backend.configure(BDF, "u2")
    assert backend.reset(BDF, "u1") is False
    Faults(root).bring_back(BDF)
    backend.configure(BDF, "u2")
    assert journal.overlaps(journal.read(root)) == []
    assert kinds(root) == ["configure", "vanish", "configure-failed", "reset", "return", "configure"]


def test_only_the_nth_call_from_now_fails(root: Path) -> None:
    backend = Backend(root)
    backend.configure(BDF, "u0")
    Faults(root).fail_configure(call=2)
    backend.configure(BDF, "u1")
    with pytest.raises(ConfigureError, match="injected fault"):
        backend.configure(BDF, "u2")
    backend.configure(BDF, "u3")
    assert set(backend.configured()[BDF]) == {"u0", "u1", "u3"}


def test_all_calls_of_a_device_fail_until_it_is_healed(root: Path) -> None:
    backend = Backend(root)
    Faults(root).fail_configure(BDF)
    for _ in range(2):
        with pytest.raises(ConfigureError):
            backend.configure(BDF, "u1")
    Faults(root).heal()
    backend.configure(BDF, "u1")


def test_a_blocked_call_waits_for_its_release(root: Path) -> None:
    Faults(root).block_configure(BDF)
    thread = threading.Thread(target=Backend(root).configure, args=(BDF, "u1"))
    thread.start()
    try:
        wait_until(lambda: kinds(root) == ["configure-blocked"], "the blocked call")
        assert Backend(root).configured() == {}
        assert Backend(root).reset(BDF, "u0") is False  # the lock of the tree is not held meanwhile
    finally:
        Faults(root).release()
        thread.join(30)
    assert kinds(root) == ["configure-blocked", "reset", "configure"]


def test_a_blocked_call_gives_up_at_its_deadline_and_tells_the_remedy(root: Path) -> None:
    Faults(root).block_configure()
    with pytest.raises(ConfigureTimeoutError, match=f"release it with: fault .* release {BDF}"):
        Backend(root, block_seconds=0).configure(BDF, "u1")
    assert kinds(root) == ["configure-blocked"]


def test_a_death_between_journal_and_copy_loses_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Backend(root).configure(BDF, "u1")

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(state, "replace", die)
        Backend(root).configure(BDF, "u2")
    assert set(Backend(root).configured()[BDF]) == {"u1", "u2"}
    Backend(root).reset(BDF, "u1")
    assert set(Backend(root).configured()[BDF]) == {"u2"}


def test_a_copy_that_is_ahead_of_the_journal_is_not_believed(root: Path) -> None:
    Backend(root).configure(BDF, "u1")
    (root / "run/fake_hw/journal.jsonl").write_bytes(b"")
    assert Backend(root).configured() == {}


def test_threads_of_one_backend_do_not_lose_records(root: Path) -> None:
    backend = Backend(root)

    def use(number: int) -> None:
        for turn in range(10):
            backend.configure(BDF, f"u{number}-{turn}", shared=True)
            if turn % 2:
                backend.reset(BDF, f"u{number}-{turn}")

    threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    # 4 threads with 10 configures and 5 resets each; the even turns stay.
    assert len(journal.read(root)) == 60
    assert set(backend.configured()[BDF]) == {f"u{n}-{turn}" for n in range(4) for turn in range(0, 10, 2)}


WRITER = """
import sys
from pathlib import Path
from fake_hw.backend import Backend
backend = Backend(Path(sys.argv[1]))
for turn in range(10**6):
    backend.configure("0000:65:01.0", f"{sys.argv[2]}-{turn}")
    backend.reset("0000:65:01.0", f"{sys.argv[2]}-{turn}")
"""


def test_killed_processes_leave_a_whole_journal_that_agrees_with_the_state(root: Path) -> None:
    def has_records(pid: int) -> bool:
        return sum(event.pid == pid for event in journal.read(root)) >= 15

    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(root), name]) for name in ("a", "b")]
    try:
        for writer in writers:
            wait_until(functools.partial(has_records, writer.pid), f"15 records of process {writer.pid}")
            writer.send_signal(signal.SIGKILL)
            writer.wait(30)
    finally:
        for writer in writers:
            writer.kill()
            writer.wait(30)
    events = journal.read(root)
    held = {event.claim for event in events if event.kind == "configure"}
    held -= {event.claim for event in events if event.kind == "reset"}
    assert {event.pid for event in events} == {writer.pid for writer in writers}
    assert set(Backend(root).configured().get(BDF, {})) == held
    assert len(held) <= 2
    Backend(root).configure(BDF, "after")
    assert "after" in Backend(root).configured()[BDF]
