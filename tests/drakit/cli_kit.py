"""Runs the command as a user does, and knows everything that it starts and leaves behind."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

TINY = Path(__file__).with_name("tiny_driver.py")
NAME = "tiny.example.com"
SECONDS = 60.0
"""Deadline for what takes a second or two on an idle machine."""
_MARK = "DRAKIT_CLI_TEST"


def until(probe: Callable[[], object], what: str, seconds: float = SECONDS) -> None:
    deadline, pause = time.monotonic() + seconds, threading.Event()
    while not probe():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        pause.wait(0.02)


@dataclass
class Done:
    """What a run of the command gave: exit code, both outputs, and the seconds it took."""

    code: int
    out: str
    err: str
    seconds: float

    def lines(self) -> list[str]:
        return self.err.splitlines()


@dataclass
class Cli:
    """Runs the command with a temporary folder of its own (short, since sockets go there) and a mark on it all."""

    folder: Path
    temporary: Path
    mark: str = field(default_factory=lambda: secrets.token_hex(6))
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def environment(self, **more: str) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "GRPC_VERBOSITY")}
        return {**kept, "TMPDIR": str(self.temporary), _MARK: self.mark, **more}

    def start(
        self, *words: object, cwd: Path | None = None, process_group: int | None = None, **more: str
    ) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "drakit", *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd or self.folder,
            env=self.environment(**more),
            process_group=process_group,
        )
        self.started.append(process)
        return process

    def finish(self, process: subprocess.Popen[str], seconds: float = SECONDS) -> Done:
        started = time.monotonic()
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"the command did not end within {seconds:g} s:\n{out}\n{err}") from None
        return Done(process.returncode, out, err, time.monotonic() - started)

    def __call__(
        self, *words: object, cwd: Path | None = None, seconds: float = SECONDS, **more: str
    ) -> Done:
        """Run to the end; nothing may be left behind, and no traceback may be shown."""
        done = self.finish(self.start(*words, cwd=cwd, **more), seconds)
        assert "Traceback" not in done.err, done.err
        self.check_clean()
        return done

    def judge(self, descriptor: Path, *words: object, **more: Any) -> Done:
        return self("conformance", descriptor, *words, **more)

    def processes(self) -> dict[int, str]:
        """Everything that runs with the mark of this test: process id and command."""
        found: dict[int, str] = {}
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if (
                    entry.name.isdigit()
                    and f"{_MARK}={self.mark}".encode() in (entry / "environ").read_bytes()
                ):
                    found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
        return found

    def check_clean(self) -> None:
        """No process and no temporary file is left; the guardian may need a moment for its end."""
        until(lambda: not self.processes(), f"the end of {self.processes()}")
        until(lambda: not list(self.temporary.iterdir()), f"no file in {self.temporary}")

    def driver(
        self, mode: str, /, name: str = NAME, *, file: str = "driver.yaml", start: Any = None, **more: Any
    ) -> Path:
        """A descriptor of the tiny driver in one of its modes, or of another command."""
        command = ["{python}", str(TINY), mode, "{driver}", "{plugin_dir}", "{registry_dir}", "{kubeconfig}"]
        document = {
            "schemaVersion": 1,
            "name": name,
            "start": {"command": command, "readySeconds": 20, **(start or {})},
            "stop": {"graceSeconds": 2},
            **more,
        }
        return self.write(yaml.safe_dump(document, sort_keys=False), file)

    def write(self, text: str, file: str = "driver.yaml") -> Path:
        path = self.folder / file
        path.write_text(text)
        return path


@contextlib.contextmanager
def new_cli(folder: Path) -> Iterator[Cli]:
    temporary = Path(tempfile.mkdtemp(prefix="dt-", dir="/tmp"))
    cli = Cli(folder, temporary)
    try:
        yield cli
    finally:
        # Only after a failure of a test is there anything: what its run has left must not disturb the next.
        for pid in cli.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in cli.started:
            with process:
                process.kill()
        shutil.rmtree(temporary, ignore_errors=True)
