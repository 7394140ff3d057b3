"""Which kind command is taken. Commands are stand-ins: they print what real ones print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from clusters.binaries import programs
from clusters.binaries.cache import Shelf
from clusters.kind import binary
from clusters.kind.errors import KindError

pytestmark = pytest.mark.process


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder in PATH beside those of the system, which have no kind; the cache is empty."""
    place = tmp_path / "bin"
    place.mkdir()
    monkeypatch.setenv("PATH", f"{place}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return place


def stand_in(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_the_kind_of_path_is_taken(folder: Path) -> None:
    kind = stand_in(folder / "kind", '[ "$*" = version ] && echo "kind v0.32.1 go1.26.1 linux/amd64"')
    assert binary.find(print) == binary.Kind(kind, "v0.32.1")


def test_an_old_kind_is_refused_with_a_word_on_what_helps(folder: Path) -> None:
    kind = stand_in(folder / "kind", 'echo "kind v0.30.0 go1.24.6 linux/amd64"')
    with pytest.raises(KindError) as raised:
        binary.find(print)
    assert str(raised.value) == (
        f"{kind} is kind v0.30.0, and v0.31.0 or newer is needed; bring it up to date (https://kind.sigs.k8s.io), "
        f"or take it out of PATH: drakit builds {programs.KIND.version} then"
    )


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo hello", "hello"),
        ("exit 0", "no output"),
        ("echo 'kind v0.33.0'; echo broken >&2; exit 3", "broken"),
    ],
)
def test_a_kind_that_tells_no_version_is_refused(folder: Path, script: str, reason: str) -> None:
    kind = stand_in(folder / "kind", script)
    with pytest.raises(KindError, match=re.escape(f"{kind} does not tell its version: {reason}")):
        binary.find(print)


def test_a_kind_that_cannot_be_run_is_refused(folder: Path) -> None:
    kind = folder / "kind"
    kind.write_bytes(b"\x7fELF of another machine")
    kind.chmod(0o755)
    with pytest.raises(KindError, match=re.escape(f"{kind} cannot be run here: Exec format error")):
        binary.find(print)


def test_without_one_in_path_that_of_the_cache_is_taken(folder: Path) -> None:
    shelf = Shelf(programs.KIND.shelf)
    shelf.folder.mkdir(parents=True)
    stand_in(shelf.path("kind"), "exit 1")
    found = binary.find(print)
    assert (found.path, found.version) == (shelf.path("kind"), programs.KIND.version)
    # It must not be pruned as long as it is used.
    assert shelf.in_use()


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("kind v0.33.0 go1.26.8 linux/amd64\n", (0, 33, 0)),
        ("kind version 0.33.0\n", (0, 33, 0)),
        ("kind v0.34.0-alpha.12+0123456789abcd go1.27.0 darwin/arm64\n", (0, 34, 0)),
        ("kind v1.0.12 go1.30.0 linux/amd64", (1, 0, 12)),
        ("no version", None),
    ],
)
def test_versions_are_read(text: str, numbers: tuple[int, int, int] | None) -> None:
    assert binary.parse(text) == numbers
