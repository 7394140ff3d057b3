from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from release_server import FakeGo, Releases, serving


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, no folder that the user names, no proxies, and nothing but the system's programs in PATH."""
    for name in list(os.environ):
        if name.startswith("DRAKIT_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return tmp_path / "cache" / "drakit" / "binaries"


@pytest.fixture
def releases(monkeypatch: pytest.MonkeyPatch) -> Iterator[Releases]:
    """A server that is asked instead of the official ones."""
    with serving() as found:
        monkeypatch.setenv("DRAKIT_RELEASE_URL", found.url)
        monkeypatch.setenv("DRAKIT_ETCD_URL", found.url)
        yield found


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGo:
    """A stand-in for Go 1.26 in PATH."""
    folder = tmp_path / "go"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("FAKE_GO_VERSION", "go1.26.8")
    monkeypatch.setenv("FAKE_GO_TOOLCHAIN", "local")
    return FakeGo(folder)


@pytest.fixture
def unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers that nobody can connect to."""
    monkeypatch.setenv("DRAKIT_RELEASE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("DRAKIT_ETCD_URL", "http://127.0.0.1:1")
