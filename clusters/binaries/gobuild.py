"""Builds binaries with the ordinary Go client from modules that are pinned beside this file, in `go/`."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from clusters.binaries.cache import Progress
from clusters.binaries.command import Command
from clusters.binaries.errors import BinariesError, NotHadError
from clusters.binaries.releases import E2E, ETCD, RELEASES, Release
from clusters.guardian import OWNER, Guardian

MODULES: Final = Path(__file__).parent / "go"

_QUIET_SECONDS: Final = 2.0
_TELL_SECONDS: Final = 10.0
_LAST_LINES: Final = 12
# The toolchain fetches a newer one by itself since this version.
_SELF_UPDATING: Final = (1, 21)
# What a user has set for other builds must not change these.
_FOREIGN: Final = ("GOOS", "GOARCH", "GO111MODULE", "GOWORK", "GOEXPERIMENT")


def module(release: Release, name: str) -> Path:
    """The folder of the Go module that pins a binary."""
    return MODULES / ("etcd" if name == ETCD else f"v{release.minor}")


def needs(folder: Path) -> str:
    """The Go version that a module asks for: `1.26.0`."""
    found = re.search(r"^go (\S+)$", (folder / "go.mod").read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else "1.26"


def arguments(release: Release, name: str, target: Path) -> list[str]:
    """The arguments of `go` that build one binary.

    Without its version a Kubernetes binary takes itself for v0.0.0, and its feature gates for those of no release.
    """
    if name == ETCD:
        return ["build", "-trimpath", "-ldflags", "-s -w", "-o", str(target), "go.etcd.io/etcd/server/v3"]
    place = "k8s.io/component-base/version"
    values = {"gitVersion": release.kubernetes, "gitMajor": release.git_major, "gitMinor": release.git_minor}
    flags = " ".join(["-s -w", *(f"-X {place}.{key}={value}" for key, value in values.items())])
    # What go vet thinks of Kubernetes is of no interest, and it thinks for minutes.
    verb, package = (["test", "-c", "-vet=off"], "test/e2e") if name == E2E else (["build"], f"cmd/{name}")
    return [*verb, "-trimpath", "-ldflags", flags, "-o", str(target), f"k8s.io/kubernetes/{package}"]


def environment(work: Path) -> dict[str, str]:
    """The variables of a build; everything temporary goes below `work`."""
    kept = {key: value for key, value in os.environ.items() if key not in _FOREIGN}
    return kept | {
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=readonly -buildvcs=false",
        "GOWORK": "off",
        "GOTMPDIR": str(work),
    }


def check(release: Release, name: str) -> str:
    """The Go version that would build a binary. Raises NotHadError when there is none that can."""
    if name != ETCD and not release.pinned:
        pinned = ", ".join(known.kubernetes for known in RELEASES.values())
        raise NotHadError(f"the modules of {release.kubernetes} are not pinned (pinned are {pinned})")
    return toolchain(module(release, name))


def toolchain(folder: Path) -> str:
    """The Go version that would build a module. Raises NotHadError when there is none that can."""
    wanted = needs(folder)
    program = shutil.which("go")
    if program is None:
        raise NotHadError(f'there is no program "go" in PATH; Go {wanted} or newer is needed')
    asked = ["GOVERSION", "GOTOOLCHAIN"]
    try:
        done = subprocess.run(  # noqa: S603 - the user's Go
            [program, "env", *asked], cwd="/", capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotHadError(f"{program} cannot be run: {error}") from None
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines:
        raise NotHadError(f"{program} env: {(done.stderr.strip() or 'no answer').splitlines()[-1]}")
    have = lines[0]
    choice = lines[1] if len(lines) > 1 else ""
    if _numbers(have) < _numbers(wanted) and (_numbers(have) < _SELF_UPDATING or choice == "local"):
        remedy = " or GOTOOLCHAIN=auto" if _numbers(have) >= _SELF_UPDATING else ""
        raise NotHadError(f"{program} is {have}; Go {wanted} or newer{remedy} is needed")
    return have


def _numbers(version: str) -> tuple[int, ...]:
    found = re.search(r"\d+(\.\d+)*", version)
    # A development version has no number and is newer than any other.
    return tuple(int(part) for part in f"{found[0]}.0.0".split(".")[:3]) if found else (99,)


def build(release: Release, name: str, work: Path, progress: Progress) -> Path:
    """Build one binary below the folder `work` and return its path; as `run`.

    Raises NotHadError when there is no Go for it.
    """
    version = check(release, name)
    target = work / name
    job = Job(
        f"{name} {release.version(name)}", module(release, name), arguments(release, name, target), target
    )
    return run(job, version, work, progress)


@dataclass(frozen=True)
class Job:
    """A build: what is built, in which module, the arguments of `go`, and the file that they write."""

    what: str
    module: Path
    arguments: Sequence[str]
    target: Path


def run(job: Job, version: str, work: Path, progress: Progress) -> Path:
    """Run a build below the folder `work` with the Go of that version and return the path of what was built.

    The builder and everything it has started die with this process. Raises BinariesError with the last lines of its
    output when the build fails.
    """
    what, target, log = job.what, job.target, work / f"{job.target.name}.log"
    temporary = work / "tmp"
    temporary.mkdir(exist_ok=True)
    start = time.monotonic()
    guardian = Guardian()
    try:
        process = Command(
            ["go", *job.arguments],
            job.module,
            environment(temporary) | {OWNER: guardian.owner},
            log,
            guardian,
        )
        process.start()
        try:
            _follow(process, what, version, start, progress)
        except BaseException:
            process.stop()
            raise
    finally:
        guardian.close()
    if process.error is not None:
        raise BinariesError(f"go build of {what} failed: {process.error}")
    if process.code != 0 or not target.is_file():
        raise BinariesError(_failure(what, process.code, log))
    seconds = time.monotonic() - start
    if seconds > _QUIET_SECONDS:
        progress(f"built {what} in {seconds:.0f} s")
    return target


def _follow(run: Command, what: str, version: str, start: float, progress: Progress) -> None:
    tell, hint = _QUIET_SECONDS, f" with {version}; the first build takes minutes"
    while True:
        run.join(max(0.0, start + tell - time.monotonic()))
        if not run.is_alive():
            return
        progress(f"building {what}{hint}" if hint else f"building {what}: {tell:.0f} s")
        tell, hint = (tell // _TELL_SECONDS + 1) * _TELL_SECONDS, ""


def _failure(what: str, code: int, log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-_LAST_LINES:]
    text = "\n".join(lines)
    if "no space left on device" in text:
        hint = 'free some space, also in the place that "go env GOCACHE" tells, or set GOCACHE'
    elif re.search(r"dial tcp|i/o timeout|no such host|proxyconnect|TLS handshake|GOPROXY|x509:", text):
        hint = "Go's modules could not be downloaded: GOPROXY names a mirror, HTTPS_PROXY a way out"
    elif code < 0 or "signal: killed" in text:
        hint = "it was killed; a build of Kubernetes needs about 3 GB of memory"
    else:
        hint = "run it again, or name a folder with the binaries (DRAKIT_BINARIES)"
    end = f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
    return f"go build of {what} failed ({end}); {hint}\n" + text
