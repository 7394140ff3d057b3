"""Real builds with Go: that the pinned modules make binaries which know their version."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from kubectl_kit import VERSIONS, build

from clusters import binaries

pytestmark = [pytest.mark.go, pytest.mark.timeout(900)]


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def test_etcd_is_built_into_an_empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Go keeps what it compiled in the same place as before.
    monkeypatch.setenv("GOCACHE", _output("go", "env", "GOCACHE").strip())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    etcd = binaries.build("1.37", ["etcd"], progress=print).path("etcd")
    assert etcd == tmp_path / "drakit" / "binaries" / "etcd-v3.7.3" / "etcd"
    assert "etcd Version: 3.7.3\n" in _output(str(etcd), "--version")
    assert [path.name for path in etcd.parent.iterdir()] == ["etcd"]
    built = etcd.stat()
    assert binaries.build("1.36", ["etcd"]).path("etcd").stat() == built


@pytest.mark.parametrize("version", VERSIONS)
def test_kubectl_knows_its_version(version: str) -> None:
    release = binaries.RELEASES[version.removeprefix("v")]
    told = json.loads(_output(str(build(version)), "version", "--client", "--output=json"))["clientVersion"]
    assert (told["gitVersion"], told["major"], told["minor"]) == (
        release.kubernetes,
        release.git_major,
        release.git_minor,
    )


def test_folder_of_real_binaries_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRAKIT_BINARIES", raising=False)
    folder = build("v1.37").parent
    assert binaries.find("1.37", ["kubectl"], folder=folder).version == "v1.37.2"
    with pytest.raises(binaries.BinariesError, match=r"holds Kubernetes v1\.37\.2, and 1\.36 is wanted"):
        binaries.find("1.36", ["kubectl"], folder=folder)
