"""A cluster of `drakit up` as somebody's own: what is on it, accounts with the least rights, and runs on it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from cli_kit import Cli, Done
from clusters_kit import Up

from clusters.client import Client
from clusters.existing import kubeconfig
from drakit.up import reference_driver
from tests.existing_world import Snapshot, apply, snapshot, token, wait_settled

RUN_SECONDS = 240.0


@dataclass
class Existing:
    """A running cluster with the reference driver, its administrator, and a descriptor that says so."""

    cli: Cli
    up: Up
    record: Mapping[str, Any]
    admin: Client
    descriptor: Path

    @property
    def kubeconfig(self) -> Path:
        return Path(self.record["kubeconfig"])

    @property
    def driver(self) -> str:
        return str(self.record["driver"])

    def snapshot(self) -> Snapshot:
        return snapshot(self.admin, self.driver)

    def account(self, *words: object, name: str = "drakit") -> str:
        """Apply what `drakit rbac` prints, if it is not there yet; a token of the account."""
        printed = self.up("rbac", "--name", name, *words)
        assert (printed.code, printed.err) == (0, ""), printed
        apply(self.admin, yaml.safe_load_all(printed.out))
        return token(self.admin, name)

    def start(self, config: Path, *words: object) -> subprocess.Popen[str]:
        return self.cli.start("conformance", self.descriptor, "--kubeconfig", config, *words)

    def judge(self, config: Path, *words: object) -> Done:
        done = self.cli.finish(self.start(config, *words), RUN_SECONDS)
        assert "Traceback" not in done.err, done.err
        return done


def make(cli: Cli, up: Up, folder: Path, *words: object) -> Existing:
    """Start the cluster with the reference driver."""
    record = up.record(*words)
    admin = kubeconfig.load(Path(record["kubeconfig"])).client()
    wait_settled(admin)
    document = yaml.safe_load(reference_driver().read_text())
    descriptor = folder / "installed.yaml"
    descriptor.write_text(yaml.safe_dump({**document, "installed": True}))
    return Existing(cli, up, record, admin, descriptor)
