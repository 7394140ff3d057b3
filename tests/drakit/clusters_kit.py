"""Clusters of `drakit up` in a state folder of the test alone."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from cli_kit import SECONDS, Cli, Done, until

from clusters.client import Client

QUICK = ("--nodes", "1", "--no-driver")
"""The least that is a whole cluster."""


@dataclass
class Up:
    """Runs the command with its state below the folder of the test."""

    cli: Cli
    state: Path

    @property
    def folders(self) -> Path:
        """Where the clusters of the test are."""
        return self.state / "drakit" / "clusters"

    def environment(self, **more: str) -> dict[str, str]:
        return self.cli.environment(**{"XDG_STATE_HOME": str(self.state), **more})

    def start(self, *words: object, **more: str) -> subprocess.Popen[str]:
        return self.cli.start(*words, **{"XDG_STATE_HOME": str(self.state), **more})

    def __call__(self, *words: object, **more: str) -> Done:
        done = self.cli.finish(self.start(*words, **more), SECONDS)
        assert "Traceback" not in done.err, done.err
        return done

    def record(self, *words: object, **more: str) -> dict[str, Any]:
        """Start a cluster that has to work; its record."""
        done = self("up", "--json", *words, **more)
        assert (done.code, done.err) == (0, ""), done
        record: dict[str, Any] = json.loads(done.out)
        return record

    def status(self, *words: object) -> tuple[int, list[dict[str, Any]]]:
        done = self("status", "--json", *words)
        assert done.err == "", done
        return done.code, json.loads(done.out)

    def keeper(self, name: str) -> int:
        """Process id of the process that holds a cluster."""
        return int(json.loads((self.folders / name / "lock").read_text())["pid"])

    def check_clean(self) -> None:
        """No process, no temporary file and no cluster is left."""
        self.cli.check_clean()
        assert not self.folders.exists() or not list(self.folders.iterdir())

    def refused(self, *words: object, **more: str) -> str:
        """What `up` says when it does not start; nothing may be left of it."""
        done = self("up", *words, **more)
        assert (done.code, done.out) == (2, ""), done
        self.check_clean()
        lines = done.lines()
        assert all(line.startswith("drakit: ") for line in lines), done.err
        return "\n".join(line.removeprefix("drakit: ") for line in lines)


@contextlib.contextmanager
def client(record: dict[str, Any], folder: Path) -> Iterator[Client]:
    """A client as the administrator of a cluster; its certificate goes into the folder."""
    config = yaml.safe_load(Path(record["kubeconfig"]).read_text())
    authority = folder / f"{record['name']}.pem"
    authority.write_bytes(base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]))
    api = Client(record["server"], authority, config["users"][0]["user"]["token"])
    yield api
    api.close()


def wait_phase(api: Client, name: str, phase: str) -> None:
    until(
        lambda: ((api.find("v1", "pods", name, "default") or {}).get("status") or {}).get("phase") == phase,
        f"Pod {name} is {phase}",
    )


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False
