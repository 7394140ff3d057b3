"""`drakit binaries`: what it prints, its exit codes, and what it removes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from release_server import ARCH, KUBELET, FakeGo, Releases

from clusters.binaries import find
from clusters.binaries.cache import Shelf
from drakit.main import main


def _put(cache: Path, version: str, *names: str) -> None:
    for name in names:
        path = cache / version / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(2_000_000))
        path.chmod(0o755)


_SERVERS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl")


def test_list_of_an_empty_cache(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["binaries", "list"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "VERSION      STATE      SIZE  BINARIES",
        "v1.34.4      not there  -     -",
        "v1.35.4      not there  -     -",
        "v1.36.3      not there  -     -",
        "v1.37.2      not there  -     -",
        "etcd-v3.7.3  not there  -     -",
        f"cache: {cache}",
    ]


def test_list_tells_what_is_there(
    cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _put(cache, "v1.37.2", *_SERVERS)
    _put(cache, "v1.36.3", "kubectl", "kubelet")
    _put(cache, "v1.37.0", "kubectl")
    _put(cache, "etcd-v3.7.3", "etcd")
    held = find("1.37", ["kubelet"])
    monkeypatch.setenv("DRAKIT_BINARIES", "/mine")
    assert main(["binaries", "list"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "VERSION      STATE             SIZE   BINARIES",
        "v1.34.4      not there         -      -",
        "v1.35.4      not there         -      -",
        (
            "v1.36.3      partial           4 MB   kubectl, kubelet; without kube-apiserver, "
            "kube-controller-manager, kube-scheduler"
        ),
        (
            "v1.37.0      partial, other    2 MB   kubectl; without kube-apiserver, kube-controller-manager, "
            "kube-scheduler, kubelet"
        ),
        (
            "v1.37.2      complete, in use  10 MB  kube-apiserver, kube-controller-manager, kube-scheduler, "
            "kubectl, kubelet"
        ),
        "etcd-v3.7.3  complete          2 MB   etcd",
        f"cache: {cache}",
        "DRAKIT_BINARIES names a folder, which is used instead: /mine",
    ]
    assert held.version == "v1.37.2"


def test_list_as_json(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _put(cache, "v1.37.2", "kubelet")
    assert main(["binaries", "list", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["cache"], document["folder"]) == (str(cache), None)
    assert document["versions"][3] == {
        "version": "v1.37.2",
        "known": True,
        "binaries": {"kubelet": 2_000_000},
        "missing": ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"],
        "inUse": False,
    }


def test_fetch_prints_the_paths(releases: Releases, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    releases.add(KUBELET, b"x")
    releases.add(f"/v1.37.2/bin/linux/{ARCH}/kubectl", b"y")
    assert main(["binaries", "fetch", "1.37", "kubelet"]) == 0
    assert capsys.readouterr() == (f"{cache}/v1.37.2/kubelet\n", "")
    assert main(["binaries", "fetch", "1.37", "kubelet", "kubectl"]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{cache}/v1.37.2/kubelet\n{cache}/v1.37.2/kubectl\n"
    assert printed.err == "drakit: in the cache already: kubelet\n"
    assert main(["binaries", "fetch", "1.37", "kubelet"]) == 0
    assert capsys.readouterr().err == "drakit: all in the cache already\n"


def test_fetch_from_a_mirror(releases: Releases, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAKIT_RELEASE_URL", "http://127.0.0.1:1")
    releases.add(KUBELET, b"x")
    assert main(["binaries", "fetch", "1.37", "kubelet", "--release-url", releases.url]) == 0


def test_fetch_that_cannot_be(unreachable: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["binaries", "fetch", "1.37", "kubelet"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("drakit: kubelet of Kubernetes v1.37.2 cannot be had:\n")
    assert '"drakit binaries build 1.37", which needs Go 1.26.0 or newer' in printed.err


def test_build_makes_all_but_the_end_to_end_tests(go: FakeGo, cache: Path) -> None:
    assert main(["binaries", "build", "1.36"]) == 0
    assert sorted(path.name for path in (cache / "v1.36.3").iterdir()) == sorted(_SERVERS)
    assert (cache / "etcd-v3.7.3" / "etcd").exists()


def test_failed_build_has_an_exit_code(go: FakeGo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_GO_FAILS", "no")
    assert main(["binaries", "build", "1.36", "kubelet"]) == 1


@pytest.mark.parametrize("verb", ["fetch", "build"])
@pytest.mark.parametrize("words", [["1.2"], ["1.37", "kube-dns"], ["nonsense"], []])
def test_wrong_usage(verb: str, words: list[str]) -> None:
    assert main(["binaries", verb, *words]) == 2


def test_cache_that_cannot_be_written(go: FakeGo, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache.parent.parent.mkdir(parents=True)
    cache.parent.write_text("a file where a folder should be")
    assert main(["binaries", "build", "1.37", "kubelet"]) == 1
    assert "the cache cannot be used: " in (error := capsys.readouterr().err)
    assert "XDG_CACHE_HOME names another place for it" in error
    assert go.calls == []


def test_relative_cache_home_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Shelf("v1.37.2").folder == tmp_path / ".cache" / "drakit" / "binaries" / "v1.37.2"


def _versions(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir() if path.name != ".locks")


@pytest.fixture
def full(cache: Path) -> Path:
    """A cache with two known releases, two others, and etcd."""
    _put(cache, "v1.37.2", "kubelet")
    _put(cache, "v1.37.1", "kubelet")
    _put(cache, "v1.3.7", "kubelet")
    _put(cache, "v1.36.3", "kubelet", "kubectl")
    _put(cache, "etcd-v3.7.3", "etcd")
    _put(cache, "etcd-v3.6.1", "etcd")
    return cache


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (["--version", "1.36"], ["etcd-v3.6.1", "etcd-v3.7.3", "v1.3.7", "v1.37.1", "v1.37.2"]),
        (["--version", "v1.37.1"], ["etcd-v3.6.1", "etcd-v3.7.3", "v1.3.7", "v1.36.3", "v1.37.2"]),
        (["--version", "1.3"], ["etcd-v3.6.1", "etcd-v3.7.3", "v1.36.3", "v1.37.1", "v1.37.2"]),
        (["--version", "etcd-v3.7.3"], ["etcd-v3.6.1", "v1.3.7", "v1.36.3", "v1.37.1", "v1.37.2"]),
        (["--older-than-known"], ["etcd-v3.7.3", "v1.36.3", "v1.37.2"]),
        (["--all"], []),
    ],
)
def test_prune_removes_what_it_is_told(full: Path, words: list[str], left: list[str]) -> None:
    before = _versions(full)
    assert main(["binaries", "prune", *words, "--dry-run"]) == 0
    assert _versions(full) == before
    assert main(["binaries", "prune", *words]) == 0
    assert _versions(full) == left


def test_prune_leaves_what_is_in_use(full: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = find("1.36", ["kubelet", "etcd"])
    for words in (["--all", "--dry-run"], ["--all"]):
        assert main(["binaries", "prune", *words]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["etcd-v3.6.1: 2 MB would be freed", "etcd-v3.7.3: in use, left"]
    assert lines[6:] == [
        "etcd-v3.6.1: 2 MB freed",
        "etcd-v3.7.3: in use, left",
        "v1.3.7: 2 MB freed",
        "v1.36.3: in use, left",
        "v1.37.1: 2 MB freed",
        "v1.37.2: 2 MB freed",
    ]
    assert found.path("kubelet").exists() and found.path("etcd").exists()
    del found
    assert main(["binaries", "prune", "--all"]) == 0
    assert _versions(full) == []


def test_prune_leaves_what_is_being_made(full: Path) -> None:
    with Shelf("v1.37.2").filling(print) as work:
        assert main(["binaries", "prune", "--version", "1.37.2"]) == 1
        assert work.exists()


def test_prune_takes_what_a_killed_run_has_left(full: Path) -> None:
    (full / "v1.37.2" / ".work-x").mkdir()
    (full / "v1.37.2" / ".work-x" / "kubelet").write_bytes(b"half")
    assert main(["binaries", "prune", "--version", "1.37.2"]) == 0
    assert not (full / "v1.37.2").exists()


@pytest.mark.parametrize(
    "words", [[], ["--all", "--older-than-known"], ["--version", "1.37", "--all"], ["--version", "9"]]
)
def test_prune_wants_one_choice(full: Path, words: list[str]) -> None:
    before = _versions(full)
    assert main(["binaries", "prune", *words]) == 2
    assert _versions(full) == before


def test_prune_of_an_empty_cache(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["binaries", "prune", "--all"]) == 0
    assert capsys.readouterr().err == "drakit: nothing to remove\n"
