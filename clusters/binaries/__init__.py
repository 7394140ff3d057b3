"""The binaries of Kubernetes and etcd that clusters of real processes are made of, and where they come from."""

from clusters.binaries.errors import BinariesError
from clusters.binaries.releases import E2E, NAMES, RELEASES, STANDARD, Release
from clusters.binaries.supply import Binaries, build, fetch, find

__all__ = [
    "E2E",
    "NAMES",
    "RELEASES",
    "STANDARD",
    "Binaries",
    "BinariesError",
    "Release",
    "build",
    "fetch",
    "find",
]
