"""Runs Kubernetes' own end-to-end test binary against a cluster and reads what came of each spec.

Flags and report: kubernetes v1.37.2 `test/e2e/framework/test_context.go`, ginkgo v2 `types/types.go`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOCUS = r"DRA.*(control plane|CRUD|Conformance)|ResourceSlice Controller|life of a ResourceClaim"
"""The specs about DRA that need no driver behind a tunnel into a container."""
PROCESSES = 4
"""How many processes share the specs: these wait much more than they compute."""

# The kit's nodes run nothing of their own that would have to be ready.
_CLUSTER_FLAGS = (
    "--provider=skeleton",
    "--minStartupPods=0",
    "--system-pods-startup-timeout=1s",
    "--allowed-not-ready-nodes=10",
    "--num-nodes=2",
)
_LISTING_SECONDS = 120.0
_GRACE_SECONDS = 60.0
"""Beyond ginkgo's own limit, which ends a run with a report."""


@dataclass(frozen=True)
class Outcome:
    """What came of one spec: ginkgo's state, seconds, and why it did not pass."""

    name: str
    state: str
    seconds: float
    failure: str = ""


def listed(binary: Path, folder: Path, focus: str = FOCUS) -> list[str]:
    """The names of the specs of a focus, without running them."""
    report = folder / "listing.json"
    command = [
        str(binary),
        *_CLUSTER_FLAGS,
        f"--ginkgo.focus={focus}",
        "--ginkgo.dry-run",
        f"--ginkgo.json-report={report}",
    ]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "KUBECONFIG": os.devnull},
        capture_output=True,
        text=True,
        timeout=_LISTING_SECONDS,
        check=False,
    )
    assert report.is_file(), f"no listing: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return sorted(outcome.name for outcome in read_report(report))


def read_report(path: Path) -> list[Outcome]:
    """The specs of a JSON report that were chosen."""
    found = []
    for suite in json.loads(path.read_text()):
        for spec in suite["SpecReports"] or []:
            # A spec that skips itself says why; one that was not chosen says nothing.
            if spec["LeafNodeType"] == "It" and (spec["State"] != "skipped" or _failure(spec)):
                found.append(
                    Outcome(_name(spec), spec["State"], spec.get("RunTime", 0) / 1e9, _failure(spec))
                )
    return found


def run(
    binary: Path,
    kubeconfig: Path,
    names: Iterable[str],
    folder: Path,
    *,
    weights: dict[str, float],
    processes: int = PROCESSES,
    seconds: float,
) -> list[Outcome]:
    """Run specs by name in several processes at a time, for so many seconds at most.

    `weights` are the seconds that specs are expected to take. Logs and reports stay in the folder.
    """
    groups = shared_out(names, weights, processes)
    if not groups:
        return []
    with ThreadPoolExecutor(len(groups)) as pool:
        results = pool.map(
            lambda item: _run_group(binary, kubeconfig, item[1], folder / f"group-{item[0]}", seconds),
            enumerate(groups),
        )
        return [outcome for group in results for outcome in group]


def shared_out(names: Iterable[str], weights: dict[str, float], count: int) -> list[list[str]]:
    """Groups of about equal length: the longest first, each to the group that has least to do."""
    groups: list[list[str]] = [[] for _ in range(count)]
    loads = [0.0] * count
    for name in sorted(names, key=lambda one: (-weights.get(one, 1.0), one)):
        least = loads.index(min(loads))
        groups[least].append(name)
        loads[least] += weights.get(name, 1.0)
    return [group for group in groups if group]


def _run_group(
    binary: Path, kubeconfig: Path, names: Sequence[str], folder: Path, seconds: float
) -> list[Outcome]:
    folder = folder.absolute()
    folder.mkdir()
    report, log = folder / "report.json", folder / "log.txt"
    command = [
        str(binary),
        *_CLUSTER_FLAGS,
        f"--kubeconfig={kubeconfig}",
        f"--ginkgo.focus=(^| )({'|'.join(map(_quoted, names))})$",
        f"--ginkgo.timeout={seconds:.0f}s",
        f"--ginkgo.json-report={report}",
        "--ginkgo.no-color",
        "--ginkgo.v",
    ]
    with log.open("w") as output:
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
        try:
            process.wait(seconds + _GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            _end(process)
        except BaseException:
            _end(process)
            raise
    if not report.is_file():
        text = f"no report; {log} ends with:\n{_tail(log)}"
        return [Outcome(name, "aborted", 0.0, text) for name in names]
    return read_report(report)


def _tail(log: Path) -> str:
    """The end of a log, but for the letter that stands for each spec that was not chosen."""
    return "\n".join(line for line in log.read_text().splitlines() if line.strip("S"))[-3000:]


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    deadline = time.monotonic() + _GRACE_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    process.kill()
    process.wait()


def _quoted(text: str) -> str:
    """A regular expression of Go for this text, where a backslash before a space would be an error."""
    return re.sub(r"[^\w\s]", lambda found: "\\" + found.group(), text)


def _name(spec: dict[str, Any]) -> str:
    return " ".join([*(spec["ContainerHierarchyTexts"] or []), spec["LeafNodeText"]])


def _failure(spec: dict[str, Any]) -> str:
    failure = spec.get("Failure") or {}
    message = str(failure.get("Message") or "")
    if not message:
        return ""
    place = failure.get("Location") or {}
    file = Path(str(place.get("FileName", ""))).name
    return f"{message}\nat {file}:{place.get('LineNumber', 0)}"
