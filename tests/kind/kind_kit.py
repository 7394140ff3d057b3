"""Runs the command against kind clusters, and looks for what is left of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clusters.client import Client, ClientError
from clusters.kind.engine import Engine

ROOT = Path(__file__).parents[2]
SECONDS = 1800.0
MARK = "DRAKIT_KIND_TEST"
GO_DRIVER = ROOT / "tests" / "godriver"


def until(probe: Callable[[], Any], what: str, seconds: float = 300.0) -> Any:
    deadline, pause = time.monotonic() + seconds, threading.Event()
    while not (found := probe()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        pause.wait(0.1)
    return found


@dataclass(frozen=True)
class Drakit:
    """The command with a state folder and a temporary folder of its own."""

    state: Path
    temporary: Path
    engine: Engine

    def start(self, *words: str, **more: str) -> subprocess.Popen[str]:
        own = {"XDG_STATE_HOME": str(self.state), "TMPDIR": str(self.temporary), MARK: str(self.temporary)}
        return subprocess.Popen(
            [sys.executable, "-m", "drakit", *words],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **own, **more},
            # A shell that runs these tests in the background has it ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def run(self, *words: str, code: int = 0, **more: str) -> str:
        """Standard output of a call that ends so."""
        process = self.start(*words, **more)
        out, err = process.communicate(timeout=SECONDS)
        assert process.returncode == code, err + out
        assert "Traceback" not in err, err
        return out

    def processes(self) -> list[str]:
        """The command lines of all processes that this has started and that still run."""
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                try:
                    if f"{MARK}={self.temporary}\0".encode() in (folder / "environ").read_bytes():
                        found.append((folder / "cmdline").read_text().replace("\0", " "))
                except OSError:
                    continue
        return found

    def clusters(self) -> set[str]:
        """The names of the kind clusters that are written down."""
        return {path.stem for path in (self.state / "drakit" / "kind").glob("*.json")}

    def left(self, clusters: set[str]) -> set[str]:
        """Names of containers and networks of these clusters; others use the engine, too."""
        names = {
            *self.engine.run("ps", "--all", "--format", "{{.Names}}").split(),
            *self.engine.run("network", "ls", "--format", "{{.Name}}").split(),
        }
        return {name for name in names if any(name.startswith(cluster) for cluster in clusters)}

    def check_clean(self, clusters: set[str]) -> None:
        """Nothing is left of anything that this has started."""
        until(lambda: not self.processes(), "the end of every process")
        assert self.left(clusters) == set()
        assert str(self.temporary) not in Path("/proc/self/mountinfo").read_text()
        assert list(self.temporary.iterdir()) == []
        assert [path for path in self.state.rglob("*") if path.is_file() and path.name != "lock"] == []


def make_pod(api: Client, name: str, spec: dict[str, Any], namespace: str = "default") -> None:
    container = {"name": "main", "image": "busybox", "imagePullPolicy": "IfNotPresent", "command": ["probe"]}
    containers = spec.pop("containers", [{}])
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [container | entry for entry in containers],
            **spec,
        },
    }
    api.create("v1", "pods", body, namespace)


def wait_phase(api: Client, name: str, phase: str, namespace: str = "default") -> dict[str, Any]:
    def probe() -> dict[str, Any] | None:
        pod = api.get("v1", "pods", name, namespace)
        return pod if (pod.get("status") or {}).get("phase") == phase else None

    found: dict[str, Any] = until(probe, f"Pod {name} is {phase}")
    return found


def remove_pod(api: Client, name: str, namespace: str = "default") -> None:
    api.delete("v1", "pods", name, namespace, body={"gracePeriodSeconds": 1})
    until(lambda: api.find("v1", "pods", name, namespace) is None, f"the end of Pod {name}")


def log_of(api: Client, pod: str, namespace: str = "default") -> str:
    """The log of a Pod's only container, as soon as there is some."""

    def probe() -> str:
        try:
            return api.log(namespace, pod)
        except ClientError:
            return ""

    return str(until(probe, f"Pod {pod} has printed something"))
