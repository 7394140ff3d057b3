"""Checks of what real components as plain processes need, and of the tool that builds them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from clusters.binaries import gobuild
from clusters.binaries.errors import BinariesError
from clusters.binaries.folders import ENVIRONMENT
from clusters.binaries.releases import RELEASES, Release, find_release
from clusters.doctor.host import Host
from clusters.doctor.model import KIND, LOCAL, Check, Finding, Wanted, missing, ok, unknown, warning

COMPONENTS: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")
_INSTALL: Final = "install it from https://go.dev/dl and put it into PATH"
_SELF_UPDATING: Final = (1, 21)


def look_user(host: Host, wanted: Wanted) -> int:
    """Who we are."""
    return host.user_id()


def judge_root(user: int) -> Finding:
    """Real kubelets mount the volumes of Pods."""
    if user == 0:
        return ok("this is root")
    return missing(f"this is user {user}", "run drakit as root (sudo), or use --tier embedded")


def look_namespace(host: Host, wanted: Wanted) -> tuple[int, str]:
    """Try it, which only root can."""
    user = host.user_id()
    return user, host.mount_namespace_problem() if user == 0 else ""


def judge_namespace(facts: tuple[int, str]) -> Finding:
    """What kubelets mount is to be seen by nobody else."""
    user, problem = facts
    if user != 0:
        return unknown("only root can try", "see check root")
    if problem:
        return missing(
            f"a process cannot have a mount namespace of its own: {problem}",
            "in a container, run it with CAP_SYS_ADMIN (docker run --privileged)",
        )
    return ok("a process can have one")


@dataclass(frozen=True)
class Go:
    """The go command: where, the version that it says, its GOTOOLCHAIN, and the version that is needed."""

    path: Path | None
    version: str
    toolchain: str
    needed: str

    @property
    def problem(self) -> str:
        """Why it cannot build; "" when it can."""
        if self.path is None:
            return "there is no program go in PATH"
        if not self.version:
            return f"{self.path} does not tell its version"
        have = _numbers(self.version)
        if have < _numbers(self.needed) and (have < _SELF_UPDATING or self.toolchain == "local"):
            return f"{self.path} is {self.version}, and {self.needed} or newer is needed"
        return ""


def look_go(host: Host, wanted: Wanted) -> Go:
    """Ask the go command; a version of Kubernetes that is not known is judged as the latest."""
    release = RELEASES.get(wanted.minor) or list(RELEASES.values())[-1]
    needed = gobuild.needs(gobuild.module(release, "kubelet"))
    path = host.which("go")
    if path is None:
        return Go(None, "", "", needed)
    lines = host.run(str(path), "env", "GOVERSION", "GOTOOLCHAIN").out.splitlines()
    version, toolchain = (*lines, "", "")[:2]
    return Go(path, version if re.match(r"go\d|devel", version) else "", toolchain, needed)


def _numbers(version: str) -> tuple[int, ...]:
    found = re.findall(r"\d+", version)
    # A development version has no number and is newer than any other.
    return tuple(int(part) for part in (*found, "0", "0")[:3]) if found else (99,)


def judge_go(go: Go) -> Finding:
    """Only needed for what cannot be had otherwise, which the checks of those things say."""
    if problem := go.problem:
        remedy = _INSTALL if go.path is None or not go.version else f"{_INSTALL}, or set GOTOOLCHAIN=auto"
        return warning(f"{problem}: nothing can be built", remedy)
    return ok(f"{go.path}: {go.version}")


@dataclass(frozen=True)
class Programs:
    """The binaries of a local cluster: of which release, in which folder, what is not there, and what is known of Go.

    `problem` tells what is wrong with the version.
    """

    problem: str = ""
    release: Release | None = None
    folder: Path | None = None
    named: bool = False
    lacking: tuple[str, ...] = ()
    go: Go | None = None


def look_programs(host: Host, wanted: Wanted) -> Programs:
    """Look into the folder that is named, or into the cache."""
    try:
        release = find_release(wanted.version)
    except BinariesError as error:
        return Programs(str(error))
    given = host.env(ENVIRONMENT)
    named = wanted.binaries or (Path(given) if given else None)
    cache = host.cache_folder()
    places = {name: (named or cache / release.folder(name)) / name for name in COMPONENTS}
    lacking = tuple(name for name, path in places.items() if host.kind_of(path) != "file")
    return Programs("", release, named or cache, named is not None, lacking, look_go(host, wanted))


def judge_programs(facts: Programs) -> Finding:
    """What is not there is fetched or built when it is needed."""
    if facts.release is None:
        return missing(facts.problem, "choose another --kubernetes-version")
    version, lacking = facts.release.kubernetes, ", ".join(facts.lacking)
    if not facts.lacking:
        return ok(f"{version} in {facts.folder}")
    if facts.named:
        return missing(
            f"{facts.folder} lacks {lacking}",
            f"put them there, or let neither --binaries nor {ENVIRONMENT} name the folder",
        )
    fetch = f"drakit binaries fetch {facts.release.minor}"
    if facts.go is not None and not facts.go.problem and facts.release.pinned:
        return warning(
            f"{version}: {lacking} not in {facts.folder}; a first start downloads or builds them",
            f"{fetch}, or build, does it beforehand",
        )
    return warning(
        f"{version}: {lacking} not in {facts.folder}, and there is no Go to build them; a first start downloads them",
        f"{fetch} does it beforehand; where no release can be downloaded, {_INSTALL}",
    )


CHECKS: Final[tuple[Check[Any], ...]] = (
    Check("root", "This is root, as kubelets mount volumes.", (LOCAL,), look_user, judge_root),
    Check(
        "mount-namespaces",
        "A process can have a mount namespace of its own.",
        (LOCAL,),
        look_namespace,
        judge_namespace,
    ),
    Check(
        "binaries",
        "The binaries of Kubernetes are there, or can be had (--kubernetes-version, --binaries).",
        (LOCAL,),
        look_programs,
        judge_programs,
    ),
    Check("go", "Go is new enough to build what cannot be downloaded.", (LOCAL, KIND), look_go, judge_go),
)
