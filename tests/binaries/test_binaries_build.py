"""Builds with Go: who builds, who waits, and what is left when a builder dies. `go` is a stand-in here."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from release_server import FakeGo

from clusters.binaries import STANDARD, BinariesError, build, find
from clusters.binaries.gobuild import MODULES

_SECONDS = 30.0
_PROGRAM = """
import sys
from clusters.binaries import build
found = build("1.37", sys.argv[1:], progress=lambda line: print(line, flush=True))
print("found", *found.paths.values(), flush=True)
"""


_STARTED: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    """What a test that fails has started must not disturb others."""
    yield
    for process in _STARTED:
        with process:
            process.kill()
    _STARTED.clear()


def _run(*command: str, **more: Any) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True, **more)
    _STARTED.append(process)
    return process


def _until(what: Callable[[], object], why: str) -> None:
    deadline = time.monotonic() + _SECONDS
    while not what():
        assert time.monotonic() < deadline, f"not within {_SECONDS:g} s: {why}"
        time.sleep(0.01)


def _start(*names: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return _run("-c", _PROGRAM, *names, env=environment, stderr=subprocess.STDOUT)


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], _SECONDS)
    assert ready, "the process printed nothing"
    return process.stdout.readline().strip()


def _rest(process: subprocess.Popen[str]) -> list[str]:
    return process.communicate(timeout=_SECONDS)[0].splitlines()


def _alive(pid: int) -> bool:
    """Whether a process runs; what nobody has waited for yet does not."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


def _entries(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir()) if folder.exists() else []


def test_everything_is_built_once_and_then_taken_from_the_cache(go: FakeGo, cache: Path) -> None:
    found = build("1.37", STANDARD)
    assert found.path("etcd").read_text() == "built go.etcd.io/etcd/server/v3"
    assert _entries(cache / "v1.37.2") == sorted(set(STANDARD) - {"etcd"})
    assert len(go.calls) == 6
    go.folder.joinpath("go").unlink()
    assert build("1.37", STANDARD).paths == found.paths
    assert find("1.37", ["kubectl"]).path("kubectl") == cache / "v1.37.2" / "kubectl"


def test_only_what_is_missing_is_built(go: FakeGo) -> None:
    build("1.37", ["kubectl"])
    build("1.37", ["kubelet", "kubectl"])
    assert go.packages == ["k8s.io/kubernetes/cmd/kubectl", "k8s.io/kubernetes/cmd/kubelet"]


def test_settings_of_other_builds_do_not_matter(go: FakeGo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOFLAGS", "-mod=vendor")
    monkeypatch.setenv("GOWORK", "/x/go.work")
    monkeypatch.setenv("CGO_ENABLED", "1")
    build("1.36", ["kubelet"])
    assert go.calls[0].split()[1:6] == [
        str(MODULES / "v1.36"),
        "-mod=readonly",
        "-buildvcs=false",
        "off",
        "0",
    ]


def test_failed_build_shows_its_last_lines_and_leaves_nothing(
    go: FakeGo, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_GO_FAILS", "x.go:1:1: syntax error")
    with pytest.raises(
        BinariesError, match=r"go build of kubelet v1\.37\.2 failed \(exit code 1\)"
    ) as caught:
        build("1.37", ["kubelet"])
    assert str(caught.value).endswith("\nx.go:1:1: syntax error")
    assert not (cache / "v1.37.2").exists()


@pytest.mark.parametrize(
    ("output", "remedy"),
    [
        ("dial tcp: lookup proxy.golang.org: no such host", "GOPROXY names a mirror"),
        ("write /x: no space left on device", "GOCACHE"),
    ],
)
def test_failed_build_names_a_remedy(
    go: FakeGo, monkeypatch: pytest.MonkeyPatch, output: str, remedy: str
) -> None:
    monkeypatch.setenv("FAKE_GO_FAILS", output)
    with pytest.raises(BinariesError, match=remedy):
        build("1.37", ["kubelet"])


def test_without_go_all_remedies_are_told(unreachable: None) -> None:
    with pytest.raises(BinariesError) as caught:
        find("1.37", ["kubelet"])
    assert str(caught.value).splitlines() == [
        "kubelet of Kubernetes v1.37.2 cannot be had:",
        "  download: 127.0.0.1:1 cannot be reached: Connection refused",
        '  go build: there is no program "go" in PATH; Go 1.26.0 or newer is needed',
        "What helps, one of:",
        "  DRAKIT_BINARIES=DIR, a folder with the binaries",
        "  DRAKIT_RELEASE_URL=URL, a mirror of the releases, and HTTPS_PROXY where there is a proxy",
        "  Go 1.26.0 or newer in PATH (https://go.dev/dl), and GOPROXY where the modules have a mirror",
    ]


@pytest.mark.parametrize(
    ("version", "toolchain", "remedy"),
    [("go1.25.9", "local", " or GOTOOLCHAIN=auto"), ("go1.20", "", ""), ("go1.9", "auto", "")],
)
def test_old_go_is_told(
    go: FakeGo, monkeypatch: pytest.MonkeyPatch, version: str, toolchain: str, remedy: str
) -> None:
    monkeypatch.setenv("FAKE_GO_VERSION", version)
    monkeypatch.setenv("FAKE_GO_TOOLCHAIN", toolchain)
    with pytest.raises(BinariesError, match=f"is {version}; Go 1.26.0 or newer{remedy} is needed"):
        build("1.37", ["kubelet"])
    assert go.calls == []


@pytest.mark.parametrize(
    ("version", "toolchain"), [("go1.24.1", "auto"), ("devel abcdef", "local"), ("go1.26", "local")]
)
def test_go_that_is_new_enough_or_updates_itself(
    go: FakeGo, monkeypatch: pytest.MonkeyPatch, version: str, toolchain: str
) -> None:
    monkeypatch.setenv("FAKE_GO_VERSION", version)
    monkeypatch.setenv("FAKE_GO_TOOLCHAIN", toolchain)
    build("1.37", ["kubelet"])
    assert len(go.calls) == 1


def test_version_that_is_not_pinned_is_not_built(go: FakeGo) -> None:
    with pytest.raises(
        BinariesError, match=r"the modules of v1\.37\.1 are not pinned \(pinned are v1\.34\.4, "
    ):
        build("1.37.1", ["kubelet"])
    assert go.calls == []


@pytest.mark.process
def test_two_processes_build_once(go: FakeGo, cache: Path) -> None:
    os.mkfifo(go.gate)
    first = _start("kubelet", "kubectl")
    _until(lambda: go.calls, "the first builds")
    second = _start("kubectl", "kubelet")
    while (line := _line(second)) != "waiting for another run that is getting v1.37.2":
        pytest.fail(f"the second does not wait: {line}")
    go.let_go()
    outputs = [_rest(process) for process in (first, second)]
    assert [process.returncode for process in (first, second)] == [0, 0]
    folder = cache / "v1.37.2"
    assert outputs[0][-1] == f"found {folder}/kubelet {folder}/kubectl"
    assert outputs[1][-1] == f"found {folder}/kubectl {folder}/kubelet"
    assert sorted(go.packages) == ["k8s.io/kubernetes/cmd/kubectl", "k8s.io/kubernetes/cmd/kubelet"]


def test_two_threads_build_once(go: FakeGo) -> None:
    os.mkfifo(go.gate)
    waiting = threading.Event()

    def progress(line: str) -> None:
        if line.startswith("waiting for another run"):
            waiting.set()

    threads = [
        threading.Thread(target=build, args=("1.37", ["kubelet"]), kwargs={"progress": progress})
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    assert waiting.wait(_SECONDS)
    _until(lambda: go.calls, "one builds")
    go.let_go()
    for thread in threads:
        thread.join(_SECONDS)
    assert go.packages == ["k8s.io/kubernetes/cmd/kubelet"]


def test_versions_do_not_wait_for_each_other(go: FakeGo) -> None:
    os.mkfifo(go.gate)
    threads = [threading.Thread(target=build, args=(version, ["kubelet"])) for version in ("1.37", "1.36")]
    for thread in threads:
        thread.start()
    _until(lambda: len(go.calls) == 2, "both build at the same time")
    go.let_go()
    for thread in threads:
        thread.join(_SECONDS)
        assert not thread.is_alive()


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_builder_that_dies_leaves_nothing_that_counts(
    go: FakeGo, cache: Path, number: signal.Signals
) -> None:
    os.mkfifo(go.gate)
    builder = _start("kubelet")
    _until(lambda: go.calls and _entries(cache / "v1.37.2"), "the build is in its middle")
    child = int(go.calls[0].split()[0])
    builder.send_signal(number)
    _rest(builder)
    assert builder.returncode != 0
    _until(lambda: not _alive(child), "the builder's children die with it")
    assert not (cache / "v1.37.2" / "kubelet").exists()
    go.gate.unlink()
    assert build("1.37", ["kubelet"]).path("kubelet").read_text() == "built k8s.io/kubernetes/cmd/kubelet"
    assert _entries(cache / "v1.37.2") == ["kubelet"]


@pytest.mark.process
def test_interrupted_command_says_so(go: FakeGo, cache: Path) -> None:
    os.mkfifo(go.gate)
    command = _run("-m", "drakit", "binaries", "build", "1.37", "kubelet", stderr=subprocess.PIPE)
    _until(lambda: go.calls, "the build is in its middle")
    child = int(go.calls[0].split()[0])
    command.send_signal(signal.SIGTERM)
    printed = command.communicate(timeout=_SECONDS)
    assert (command.returncode, printed[0]) == (130, "")
    assert printed[1].splitlines()[-1] == "drakit: interrupted; everything it started is stopped"
    assert not _alive(child)
    assert not (cache / "v1.37.2").exists()


@pytest.mark.process
def test_waiting_run_goes_on_when_the_builder_dies(go: FakeGo, cache: Path) -> None:
    os.mkfifo(go.gate)
    builder = _start("kubelet")
    _until(lambda: go.calls, "the first builds")
    waiting = _start("kubelet")
    assert _line(waiting).startswith("waiting for another run")
    go.gate.unlink()
    builder.kill()
    _rest(builder)
    assert _rest(waiting)[-1] == f"found {cache}/v1.37.2/kubelet"
    assert len(go.calls) == 2


def test_long_build_tells_how_long_it_takes(go: FakeGo) -> None:
    os.mkfifo(go.gate)
    lines: list[str] = []

    def progress(line: str) -> None:
        lines.append(line)
        if len(lines) == 1:
            go.let_go()

    build("1.37", ["kubelet"], progress=progress)
    assert lines[0] == "building kubelet v1.37.2 with go1.26.8; the first build takes minutes"
    assert lines[-1].startswith("built kubelet v1.37.2 in ")
