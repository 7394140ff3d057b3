"""The oracle: a Go program on the modules of Kubernetes, built once and kept in the user's cache."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clusters.binaries import programs
from clusters.binaries.programs import GoProgram
from clusters.kind.image.store import tree_digest

SOURCES = Path(__file__).parent / "go"
ALLOCATOR = "k8s.io/dynamic-resource-allocation/structured/internal/experimental"


@dataclass(frozen=True)
class _Covered(GoProgram):
    """A build that counts which statements of upstream's allocator are executed."""

    def arguments(self, target: Path) -> list[str]:
        # Without the program's own package nobody writes the counters at its end.
        packages = f"-coverpkg={ALLOCATOR},drakit.dev/oracle"
        return ["build", "-trimpath", "-cover", packages, "-o", str(target), self.package]


class Oracle:
    """A command of the oracle. Lines go through one process, so that it is started once."""

    def __init__(self, command: str, *options: str, coverage: Path | None = None) -> None:
        """`coverage`: a folder for counters of executed statements, see `covered_percent`."""
        version = tree_digest(SOURCES)
        kind = GoProgram if coverage is None else _Covered
        name = "oracle" if coverage is None else "oracle-covered"
        program = kind(name, version, SOURCES, ".", f"drakit-oracle-{version}")
        found = programs.find([program], progress=print)
        self._hold = found
        self._arguments = [str(found.paths[name]), command, *options]
        self._coverage = coverage

    def answers(self, lines: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        """The answers to lines, in order. Lines are taken as fast as they are answered."""
        environment = dict(os.environ)
        if self._coverage is not None:
            self._coverage.mkdir(parents=True, exist_ok=True)
            environment["GOCOVERDIR"] = str(self._coverage)
        process = subprocess.Popen(
            self._arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        assert process.stdin is not None and process.stdout is not None
        writer = threading.Thread(target=_write, args=(process.stdin, lines))
        writer.start()
        try:
            for answer in process.stdout:
                yield json.loads(answer)
        finally:
            process.stdout.close()
            code = process.wait()
            writer.join()
        assert code == 0, f"the oracle ended with {code}"

    @contextmanager
    def conversation(self) -> Iterator[Callable[[Mapping[str, Any]], dict[str, Any]]]:
        """A function that asks one line and waits for its answer."""
        with subprocess.Popen(self._arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            stdin, stdout = process.stdin, process.stdout
            assert stdin is not None and stdout is not None

            def ask(line: Mapping[str, Any]) -> dict[str, Any]:
                stdin.write(json.dumps(line).encode() + b"\n")
                stdin.flush()
                answer: dict[str, Any] = json.loads(stdout.readline())
                return answer

            yield ask
            stdin.close()


def _write(stdin: Any, lines: Iterable[Mapping[str, Any]]) -> None:
    try:
        with stdin:
            for line in lines:
                stdin.write(json.dumps(line).encode() + b"\n")
    except BrokenPipeError:
        pass  # nobody reads the answers any more


def covered_percent(folder: Path) -> float:
    """How much of upstream's allocator the runs with this folder have executed."""
    done = subprocess.run(
        ["go", "tool", "covdata", "percent", "-i", str(folder)], capture_output=True, text=True, check=True
    )
    for line in done.stdout.splitlines():
        name, _, rest = line.strip().partition("\t")
        if name.strip() == ALLOCATOR:
            return float(rest.split("coverage:")[1].split("%")[0])
    raise AssertionError(f"no coverage of {ALLOCATOR} in: {done.stdout}")
