"""The mount namespace of a cluster: what is seen where, and that it goes with the last who holds it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from clusters.interface import ClusterError
from clusters.local.mounts import MountNamespace

pytestmark = [pytest.mark.go, pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")]


@pytest.fixture
def namespace(tmp_path: Path) -> Iterator[MountNamespace]:
    root = tmp_path / "root"
    root.mkdir()
    namespace = MountNamespace(root)
    yield namespace
    namespace.close()


def run(namespace: MountNamespace, script: str, covers: Mapping[str, Path] | None = None) -> str:
    done = subprocess.run(
        namespace.inside(["/bin/sh", "-c", script], covers),
        pass_fds=(namespace.descriptor,),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_mount_below_the_root_is_seen_by_all_of_the_namespace_and_nobody_else(
    namespace: MountNamespace, tmp_path: Path
) -> None:
    place, private = tmp_path / "root" / "place", tmp_path / "private"
    place.mkdir()
    private.mkdir()
    # Also from a namespace made of it, as a kubelet's is.
    run(
        namespace, f"mount -t tmpfs none {place} && echo secret > {place}/token", {str(private): place.parent}
    )
    assert run(namespace, f"cat {place}/token") == "secret\n"
    assert run(namespace, f"cat {place}/token", {str(private): place.parent}) == "secret\n"
    assert list(place.iterdir()) == []
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


def test_a_cover_is_for_one_process_alone(namespace: MountNamespace, tmp_path: Path) -> None:
    own, theirs = tmp_path / "own", tmp_path / "theirs"
    for folder in (own, theirs):
        folder.mkdir()
        (folder / "name").write_text(folder.name)
    assert run(namespace, f"cat {theirs}/name", {str(theirs): own}) == "own"
    assert run(namespace, f"cat {theirs}/name") == "theirs"
    assert (theirs / "name").read_text() == "theirs"


def test_a_place_that_the_host_has_not_appears_beside_what_it_has(
    namespace: MountNamespace, tmp_path: Path
) -> None:
    own, there = tmp_path / "own", tmp_path / "there"
    own.mkdir()
    (own / "x").write_text("mine")
    there.mkdir()
    (there / "file").write_text("a file")
    (there / "folder").mkdir()
    (there / "folder" / "y").write_text("in a folder")
    (there / "link").symlink_to("file")
    script = f"cd {there}; cat file link folder/y new/deep/x; ls; echo z > folder/z"
    assert run(namespace, script, {f"{there}/new/deep": own}) == (
        "a filea filein a foldermine" + "file\nfolder\nlink\nnew\n"
    )
    # What is written beside it goes to the host, as anywhere.
    assert (there / "folder" / "z").read_text() == "z\n"
    assert sorted(path.name for path in there.iterdir()) == ["file", "folder", "link"]


def test_a_file_can_be_covered(namespace: MountNamespace, tmp_path: Path) -> None:
    (tmp_path / "panic").write_text("10\n")
    setting = Path("/proc/sys/kernel/panic")
    before = setting.read_text()
    assert run(namespace, f"echo 77 > {setting}; cat {setting}", {str(setting): tmp_path / "panic"}) == "77\n"
    assert setting.read_text() == before


def test_who_may_not_have_one_is_told_what_is_missing(tmp_path: Path) -> None:
    if shutil.which("setpriv") is None:
        pytest.skip("there is no setpriv to take a capability away")
    script = (
        "import pathlib, sys; from clusters.local.mounts import MountNamespace; "
        "MountNamespace(pathlib.Path(sys.argv[1]))"
    )
    done = subprocess.run(
        ["setpriv", "--bounding-set=-sys_admin", sys.executable, "-c", script, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.splitlines()[-1] == (
        f"{ClusterError.__module__}.ClusterError: kubelets need a mount namespace of their own, which is not to be had "
        "here: unshare: Operation not permitted; a container needs CAP_SYS_ADMIN for it (docker run --privileged)"
    )
