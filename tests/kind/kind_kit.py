"""Runs the command against kind clusters, and looks for what is left of them."""

from __future__ import annotations

import os
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
SECONDS = 600.0
MARK = "DRAKIT_KIND_TEST"
GO_DRIVER = ROOT / "tests" / "godriver"


def until(probe: Callable[[], Any], what: str, seconds: float = 120.0) -> Any:
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

    def containers(self) -> set[str]:
        return self._ours("ps", "--all", "--format", "{{.Names}}")

    def networks(self) -> set[str]:
        return self._ours("network", "ls", "--format", "{{.Name}}")

    def _ours(self, *words: str) -> set[str]:
        """Names of clusters of drakit: others use the engine, too."""
        return {name for name in self.engine.run(*words).split() if name.startswith("drakit-")}

    def check_clean(self, containers: set[str], networks: set[str]) -> None:
        """Nothing is left but the containers and networks that were there before."""
        until(lambda: not self.processes(), f"the end of {self.processes()}", 30.0)
        assert self.containers() <= containers
        assert self.networks() <= networks
        assert str(self.temporary) not in Path("/proc/self/mountinfo").read_text()
        assert not list(self.temporary.iterdir())
        assert not [path for path in self.state.rglob("*") if path.is_file() and path.name != "lock"]


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
