from __future__ import annotations

from pathlib import Path

import pytest

from node_api.files import remove, remove_temporaries, temporary_target, write_atomic

STEPS = ["write", "fsync", "rename", "dirsync"]


class Died(Exception):
    pass


def test_steps_come_in_the_order_that_makes_the_file_durable(tmp_path: Path) -> None:
    path, seen = tmp_path / "a", []
    write_atomic(path, b"old", mode=0o600)
    write_atomic(path, b"new content", mode=0o640, step=lambda step: seen.append((step, path.read_bytes())))
    before, after = b"old", b"new content"
    assert seen == [("write", before), ("fsync", before), ("rename", before), ("dirsync", after)]
    assert path.stat().st_mode & 0o777 == 0o640
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("at", STEPS)
def test_a_failure_leaves_the_old_or_the_new_content(tmp_path: Path, at: str) -> None:
    path = tmp_path / "a"
    write_atomic(path, b"old", mode=0o600)

    def die(step: str) -> None:
        if step == at:
            raise Died

    with pytest.raises(Died):
        write_atomic(path, b"new", mode=0o600, step=die)
    assert path.read_bytes() == (b"new" if at == "dirsync" else b"old")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_removing_says_whether_the_file_was_there(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a", b"", mode=0o600)
    assert remove(tmp_path / "a") is True
    assert remove(tmp_path / "a") is False


def test_only_own_temporary_files_are_cleaned(tmp_path: Path) -> None:
    for name in (".acme-1.json.0123abcd.tmp", ".other.json.0123abcd.tmp", ".acme-2.json.x.tmp", "acme.json"):
        (tmp_path / name).write_text("")
    assert remove_temporaries(tmp_path, "acme") == [".acme-1.json.0123abcd.tmp"]
    left = [".acme-2.json.x.tmp", ".other.json.0123abcd.tmp", "acme.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == left


def test_a_temporary_name_tells_its_file() -> None:
    assert temporary_target(".acme-1.json.0123abcd.tmp") == "acme-1.json"
    assert temporary_target("acme-1.json") is None
