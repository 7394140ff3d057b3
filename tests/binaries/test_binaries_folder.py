"""A folder that the user names: what must be in it, and how its faults are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.binaries import BinariesError, find


def _put(folder: Path, name: str, text: str = "echo Kubernetes v1.37.2", mode: int = 0o755) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(mode)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "mine"


def _refused(folder: Path, *names: str) -> str:
    with pytest.raises(BinariesError) as caught:
        find("1.37", names or ["kubelet", "etcd"], folder=folder)
    return str(caught.value)


def test_folder_is_used_before_the_cache(folder: Path) -> None:
    _put(folder, "kubelet")
    _put(folder, "etcd")
    found = find("1.37", ["kubelet", "etcd"], folder=folder)
    assert (found.version, found.path("etcd")) == ("v1.37.2", folder / "etcd")


def test_environment_names_the_folder(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _put(folder, "kubelet")
    monkeypatch.chdir(tmp_path)
    # Processes in other working folders run it.
    monkeypatch.setenv("DRAKIT_BINARIES", "mine")
    assert find("1.37", ["kubelet"]).path("kubelet") == folder / "kubelet"


def test_argument_is_stronger_than_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _put(folder, "kubelet")
    monkeypatch.setenv("DRAKIT_BINARIES", "/nowhere")
    assert find("1.37", ["kubelet"], folder=folder).path("kubelet") == folder / "kubelet"


def test_version_is_that_of_the_folder(folder: Path) -> None:
    _put(folder, "kubelet", "echo Kubernetes v1.37.9-vendor.1")
    assert find("1.37.2", ["kubelet"], folder=folder).version == "v1.37.9-vendor.1"


def test_kubectl_is_asked_in_its_own_way(folder: Path) -> None:
    _put(folder, "kubectl", '[ "$*" = "version --client" ] && echo Client Version: v1.36.1')
    assert find("1.36", ["kubectl"], folder=folder).version == "v1.36.1"


def test_etcd_alone_has_no_version_of_kubernetes(folder: Path) -> None:
    _put(folder, "etcd", "exit 1")
    assert find("1.36", ["etcd"], folder=folder).version == "v1.36.3"


def test_everything_that_is_missing_is_named(folder: Path) -> None:
    _put(folder, "kubectl")
    assert f"{folder}: kubelet, etcd missing; " in _refused(folder, "kubelet", "kubectl", "etcd")
    (folder / "kubelet").mkdir()
    assert f"{folder}: kubelet missing; " in _refused(folder, "kubelet")


def test_folder_that_is_none(folder: Path) -> None:
    assert _refused(folder) == f"{folder}: no such folder; it should hold kubelet, etcd"
    folder.write_text("")
    assert _refused(folder) == f"{folder}: not a folder; it should hold kubelet, etcd"


def test_binary_that_is_not_executable(folder: Path) -> None:
    _put(folder, "kubelet", mode=0o644)
    _put(folder, "etcd", mode=0o644)
    text = _refused(folder)
    assert text.startswith(f"not executable: {folder}/kubelet, {folder}/etcd; chmod +x helps")


@pytest.mark.parametrize(
    ("version", "hint"),
    [
        ("v1.36.2", ""),
        ("v1.3.7", ""),
        ("v11.37.2", ""),
        ("v1.370.2", ""),
        ("v0.0.0-master+abc", "; it was built without its version"),
    ],
)
def test_other_version(folder: Path, version: str, hint: str) -> None:
    _put(folder, "kubelet", f"echo Kubernetes {version}")
    assert f"{folder} holds Kubernetes {version}, and 1.37 is wanted{hint}; " in _refused(folder, "kubelet")


def test_binary_of_another_machine(folder: Path) -> None:
    _put(folder, "kubelet")
    (folder / "kubelet").write_bytes(b"\x7fELF\x02\x01" + bytes(100))
    assert _refused(folder, "kubelet") == f"{folder}/kubelet cannot be run here: Exec format error"


def test_binary_that_does_not_tell_its_version(folder: Path) -> None:
    _put(folder, "kubelet", "echo no such flag >&2; exit 2")
    assert (
        _refused(folder, "kubelet") == f"{folder}/kubelet does not tell its version (--version): no such flag"
    )
