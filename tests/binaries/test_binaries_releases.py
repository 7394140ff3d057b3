"""Versions and names that users write, and the modules that are pinned for them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from clusters.binaries import NAMES, RELEASES, BinariesError, Release, find
from clusters.binaries.gobuild import MODULES, arguments, needs
from clusters.binaries.releases import find_release


@pytest.mark.parametrize("version", ["1.37", "v1.37", "1.37.2", "v1.37.2"])
def test_versions_of_the_pinned_release(version: str) -> None:
    assert find_release(version) == Release("v1.37.2", "v3.7.3", pinned=True)


def test_other_patch_version_is_not_pinned() -> None:
    assert find_release("1.36.0") == Release("v1.36.0", "v3.7.3", pinned=False)


def test_parts_of_a_version() -> None:
    release = find_release("1.36")
    assert (release.minor, release.staging, release.git_major, release.git_minor) == (
        "1.36",
        "v0.36.3",
        "1",
        "36",
    )


@pytest.mark.parametrize("version", ["1.33", "1.38", "1.38.0", "2.37"])
def test_minor_versions_that_are_not_supported(version: str) -> None:
    with pytest.raises(BinariesError, match=r"not supported; supported are 1\.34, 1\.35, 1\.36, 1\.37"):
        find(version, ["kubelet"])


@pytest.mark.parametrize("version", ["", "latest", "1", "1.37.2.1", "1.37.2-rc.1", "../1.37", "1.37\n"])
def test_what_is_no_version(version: str) -> None:
    with pytest.raises(BinariesError, match="is no version of Kubernetes; write it as one of"):
        find(version, ["kubelet"])


def test_unknown_name() -> None:
    with pytest.raises(BinariesError, match=f'no binary "kube-dns"; there are {", ".join(NAMES)}'):
        find("1.37", ["kubelet", "kube-dns"])


@pytest.mark.parametrize("minor", RELEASES)
def test_module_pins_its_release_and_all_of_its_parts(minor: str) -> None:
    release = RELEASES[minor]
    text = (MODULES / f"v{minor}" / "go.mod").read_text()
    assert f"require k8s.io/kubernetes {release.kubernetes}\n" in text
    replaced = re.findall(r"^\t(k8s\.io/\S+) => (\S+) (\S+)$", text, re.MULTILINE)
    assert len(replaced) > 30
    assert {(old == new, version) for old, new, version in replaced} == {(True, release.staging)}
    sums = (MODULES / f"v{minor}" / "go.sum").read_text()
    assert f"k8s.io/kubernetes {release.kubernetes} h1:" in sums


def test_module_pins_etcd() -> None:
    text = (MODULES / "etcd" / "go.mod").read_text()
    assert {f"v{found}" for found in re.findall(r"go\.etcd\.io/etcd/server/v3 v(\S+)", text)} == {
        release.etcd for release in RELEASES.values()
    }


def test_binaries_are_told_their_version() -> None:
    words = arguments(find_release("1.36"), "kubelet", Path("/x/kubelet"))
    place = "-X k8s.io/component-base/version"
    assert words == [
        "build",
        "-trimpath",
        "-ldflags",
        f"-s -w {place}.gitVersion=v1.36.3 {place}.gitMajor=1 {place}.gitMinor=36",
        "-o",
        "/x/kubelet",
        "k8s.io/kubernetes/cmd/kubelet",
    ]


def test_end_to_end_tests_are_a_test_binary() -> None:
    words = arguments(find_release("1.37"), "e2e.test", Path("/x/e2e.test"))
    assert words[:3] == ["test", "-c", "-vet=off"] and words[-1] == "k8s.io/kubernetes/test/e2e"


def test_go_version_of_a_module() -> None:
    assert needs(MODULES / "v1.34") == "1.24.0"
    assert needs(MODULES / "v1.37") == "1.26.0"
