"""What the tag of a node image depends on, and what its Dockerfile says."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from clusters.binaries.programs import CONTAINERD
from clusters.binaries.releases import RELEASES, find_release
from clusters.kind.image import archive, probe, recipe, rootfs, store
from clusters.kind.image.recipe import dockerfile


def tag(version: str = "1.37") -> str:
    return recipe.recipe(find_release(version)).tag


def test_a_tag_tells_the_version_and_the_recipe() -> None:
    assert re.fullmatch(r"drakit/node:v1\.37\.2-[0-9a-f]{12}", tag())
    assert tag() == tag()
    assert len({tag(minor) for minor in RELEASES}) == len(RELEASES)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SUITE", "trixie"),
        ("PACKAGES", ("bash",)),
        ("_STEPS", ("true",)),
        ("_FORMAT", 0),
        ("CRICTL", CONTAINERD[0]),
    ],
)
def test_each_part_of_the_recipe_changes_the_tag(
    name: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tag()
    monkeypatch.setattr(recipe, name, value)
    assert tag() != before


def test_another_architecture_is_another_image(monkeypatch: pytest.MonkeyPatch) -> None:
    before = tag()
    monkeypatch.setattr(archive.platform, "machine", lambda: "riscv64")
    assert tag() != before


@pytest.mark.parametrize("file", ["pause/main.go", "coredns/go.sum"])
def test_each_source_changes_the_tag(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = tag()
    sources = tmp_path / "go"
    shutil.copytree(probe.SOURCES, sources)
    monkeypatch.setattr(probe, "SOURCES", sources)
    assert tag() == before
    (sources / file).write_text("changed")
    assert tag() != before


def test_each_file_of_a_node_changes_the_tag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = tag()
    shutil.copytree(recipe.FILES, tmp_path / "files")
    monkeypatch.setattr(recipe, "FILES", tmp_path / "files")
    assert tag() == before
    (tmp_path / "files" / "more").write_text("x")
    assert tag() != before


def test_the_dockerfile() -> None:
    lines = dockerfile("0123456789ab").splitlines()
    assert lines[:7] == [
        "FROM scratch",
        'LABEL io.drakit.recipe="0123456789ab"',
        "ADD rootfs.tar /",
        "COPY files/ /",
        "COPY bin/ /usr/local/bin/",
        "COPY ubin/ /usr/bin/",
        "RUN find /lib/systemd/system/sysinit.target.wants/ -name systemd-tmpfiles-setup.service -delete \\",
    ]
    assert lines[-3:] == [
        "ENV container=docker",
        "STOPSIGNAL SIGRTMIN+3",
        'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]',
    ]
    steps = [line for line in lines if line.startswith(" && ")]
    assert all(line.endswith(" \\") for line in steps[:-1])
    assert " && systemctl enable kubelet.service containerd.service undo-mount-hacks.service \\" in steps


def test_where_one_part_of_a_hash_ends_counts() -> None:
    assert store.digest("ab", "c") != store.digest("a", "bc")


def test_go_tests_do_not_change_a_program(tmp_path: Path) -> None:
    (tmp_path / "main.go").write_text("package main")
    before = store.tree_digest(tmp_path)
    (tmp_path / "main_test.go").write_text("package main")
    assert store.tree_digest(tmp_path) == before
    (tmp_path / "main.go").chmod(0o755)
    assert store.tree_digest(tmp_path) != before


STATUS = """Package: iptables
Depends: libc6 (>= 2.36), libmnl0 (>= 1.0.3-4~) | other, netbase (>= 6.0)
Description: administration tools
 Depends: this is a text

Package: libmnl0
Pre-Depends: libc6

Package: libc6
Depends: libgcc-s1:any

Package: libgcc-s1
Depends: libc6

Package: netbase

Package: bash
"""


def test_packages_come_with_all_that_they_depend_on() -> None:
    assert rootfs.closure(STATUS, ("iptables", "not-there")) == [
        "iptables",
        "libc6",
        "libmnl0",
        "netbase",
        "libgcc-s1",
    ]


def test_paths_of_packages_are_below_usr() -> None:
    assert rootfs.merged("/lib/x86_64-linux-gnu/libc.so.6") == "usr/lib/x86_64-linux-gnu/libc.so.6"
    assert rootfs.merged("/etc/protocols") == "etc/protocols"
    assert rootfs.merged("/lib64") == "usr/lib64"
