"""Which releases of Kubernetes and etcd are run, and the names of their binaries."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from clusters.binaries.errors import BinariesError

ETCD: Final = "etcd"
E2E: Final = "e2e.test"
"""Kubernetes' own end-to-end test binary; only on request, as it is large."""

STANDARD: Final = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    ETCD,
    "kubectl",
)
"""What a cluster of processes needs, and kubectl; the first one takes longest to build."""

NODE: Final = ("kubeadm", "kube-proxy")
"""What a node image needs on top of them."""

NAMES: Final = (*STANDARD, *NODE, E2E)


@dataclass(frozen=True)
class Release:
    """One release of Kubernetes, with the etcd that is run with it; versions are written as tags, `v1.37.2`.

    `pinned` says that the Go modules of this very release are pinned here, so that it can be built.
    """

    kubernetes: str
    etcd: str
    pinned: bool = True

    @property
    def minor(self) -> str:
        """Major and minor version: `1.37`."""
        return self.kubernetes.removeprefix("v").rpartition(".")[0]

    @property
    def staging(self) -> str:
        """The version of k8s.io/api and its siblings in this release: `v0.37.2`."""
        return self.kubernetes.replace("v1.", "v0.", 1)

    @property
    def git_major(self) -> str:
        """What the binaries are told to be their major version."""
        return self.minor.partition(".")[0]

    @property
    def git_minor(self) -> str:
        """What the binaries are told to be their minor version."""
        return self.minor.partition(".")[2]

    def version(self, name: str) -> str:
        """The version of one binary."""
        return self.etcd if name == ETCD else self.kubernetes

    def folder(self, name: str) -> str:
        """The name of the cache's folder for a binary: etcd is shared by releases of Kubernetes."""
        return f"etcd-{self.etcd}" if name == ETCD else self.kubernetes


_ETCD_VERSION: Final = "v3.7.3"

RELEASES: Final = {
    release.minor: release
    for release in (
        Release("v1.34.4", _ETCD_VERSION),
        Release("v1.35.4", _ETCD_VERSION),
        Release("v1.36.3", _ETCD_VERSION),
        Release("v1.37.2", _ETCD_VERSION),
    )
}
"""The pinned release of each minor version: the newest patch whose modules the public Go module proxy serves."""


def find_release(version: str) -> Release:
    """The release that `1.37`, `v1.37`, `1.37.1` or `v1.37.1` names; a minor version alone means the pinned release.

    Raises BinariesError for what is no version, and for minor versions that are not supported.
    """
    known = ", ".join(RELEASES)
    found = re.fullmatch(r"v?(?P<minor>\d+\.\d+)(\.(?P<patch>\d+))?", version)
    if found is None:
        raise BinariesError(
            f'"{version}" is no version of Kubernetes; write it as one of {known}, or as 1.37.2'
        )
    release = RELEASES.get(found["minor"])
    if release is None:
        raise BinariesError(f"Kubernetes {version} is not supported; supported are {known}")
    if found["patch"] is None:
        return release
    tag = f"v{found['minor']}.{int(found['patch'])}"
    return release if tag == release.kubernetes else replace(release, kubernetes=tag, pinned=False)


def check_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names, each once. Raises BinariesError for an unknown one."""
    for name in names:
        if name not in NAMES:
            raise BinariesError(f'there is no binary "{name}"; there are {", ".join(NAMES)}')
    return tuple(dict.fromkeys(names))
