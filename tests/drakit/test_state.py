from __future__ import annotations

import threading
from pathlib import Path

import pytest

from drakit.state import Folder, Record, StateError, all_folders


@pytest.fixture(autouse=True)
def state_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def record(name: str) -> Record:
    return Record(
        name, "1.37", "https://127.0.0.1:1", "k", "", ["node-1"], "", 1.5, {"DRADeviceTaints": False}
    )


def test_a_folder_belongs_to_one_keeper_and_goes_with_it() -> None:
    folder = Folder("lab")
    assert (folder.exists(), folder.running(), all_folders()) == (False, False, [])
    with folder.held():
        assert folder.running() and [found.name for found in all_folders()] == ["lab"]
        with pytest.raises(StateError, match='cluster "lab" runs already'), Folder("lab").held():
            pass
        assert folder.exists()
        with Folder("other").held():
            assert [found.name for found in all_folders()] == ["lab", "other"]
    assert (folder.exists(), folder.running()) == (False, False)


def test_a_record_is_read_as_it_was_written() -> None:
    folder = Folder("lab")
    with folder.held():
        assert folder.record() is None
        folder.write_record(record("lab"))
        assert folder.record() == record("lab")


def test_looking_whether_a_cluster_runs_never_keeps_one_from_starting() -> None:
    folder, stop = Folder("lab"), threading.Event()

    def look() -> None:
        while not stop.is_set():
            folder.running()

    watchers = [threading.Thread(target=look) for _ in range(2)]
    for watcher in watchers:
        watcher.start()
    try:
        for _ in range(50):
            with folder.held():
                pass
    finally:
        stop.set()
        for watcher in watchers:
            watcher.join()


def test_of_many_that_want_a_folder_one_has_it_at_a_time() -> None:
    holding, most, refused = [0], [0], [0]
    guard = threading.Lock()

    def hold() -> None:
        for _ in range(20):
            try:
                with Folder("lab").held():
                    with guard:
                        holding[0] += 1
                        most[0] = max(most[0], holding[0])
                    with guard:
                        holding[0] -= 1
            except StateError:
                with guard:
                    refused[0] += 1

    threads = [threading.Thread(target=hold) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most[0], refused[0] < 80, Folder("lab").exists()) == (1, True, False)


def test_a_dead_folder_is_swept_before_it_is_used_again(state_home: Path) -> None:
    left = state_home / "dk-left"
    left.mkdir()
    folder = Folder("lab")
    with folder.held() as traces:
        # As a keeper of another process that was killed: its lock is free, its content is there.
        traces("0123456789abcdef", left)
        text = (folder.path / "lock").read_text()
        folder.write_record(record("lab"))
        kept = folder.path.rename(state_home / "kept")
    kept.rename(folder.path)
    assert (folder.path / "lock").read_text() == text
    assert not folder.running() and folder.record() is not None
    with folder.held():
        assert folder.record() is None
        assert not left.exists()


def test_stopping_what_is_dead_removes_it() -> None:
    folder = Folder("lab")
    folder.path.mkdir(parents=True)
    (folder.path / "lock").write_text("not what a keeper writes")
    assert not folder.running()
    folder.stop()
    assert not folder.exists()


@pytest.mark.parametrize("name", ["", "-a", "a-", "A", "a.b", "a/b", "a" * 41, "a\n", "ä"])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(StateError, match="is no name for a cluster"):
        Folder(name)


@pytest.mark.parametrize("name", ["a", "a" * 40, "dev-2", "0"])
def test_names(name: str) -> None:
    assert Folder(name).name == name
