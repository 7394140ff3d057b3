"""A cluster of `drakit up` as somebody's own: what is on it, accounts with the least rights, and runs on it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from cli_kit import Cli, Done
from clusters_kit import Up

from clusters.client import Client, ClientError
from clusters.existing import kubeconfig
from clusters.existing.leftovers import all_kinds
from drakit.up import reference_driver

RUN_SECONDS = 240.0
Snapshot = dict[tuple[str, str, str, str], Any]


def snapshot(client: Client, driver: str) -> Snapshot:
    """Every object but events and the driver's slices, by resource, namespace, name and UID, with its spec."""
    found: Snapshot = {}
    for version, resource in all_kinds(client):
        if resource == "events":
            continue
        for item in client.list(version, resource):
            metadata = item["metadata"]
            if resource == "resourceslices" and item["spec"]["driver"] == driver:
                continue
            key = (resource, metadata.get("namespace", ""), metadata["name"], metadata["uid"])
            found[key] = None if resource == "leases" else item.get("spec")
    return found


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
        for obj in yaml.safe_load_all(printed.out):
            resource = {"ServiceAccount": "serviceaccounts"}.get(obj["kind"], f"{obj['kind'].lower()}s")
            try:
                self.admin.create(obj["apiVersion"], resource, obj)
            except ClientError as error:
                assert error.reason == "AlreadyExists", error
        return self.token(name, "default")

    def token(self, name: str, namespace: str) -> str:
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600},
        }
        answer = self.admin.create("v1", "serviceaccounts", request, namespace, name, "token")
        return str(answer["status"]["token"])

    def config(self, path: Path, *, user: Mapping[str, Any] | None = None, **cluster: Any) -> Path:
        """A kubeconfig of this cluster with another user, and other fields of the cluster; None takes one out."""
        document = yaml.safe_load(self.kubeconfig.read_text())
        fields = document["clusters"][0]["cluster"] | cluster
        document["clusters"][0]["cluster"] = {
            key: value for key, value in fields.items() if value is not None
        }
        if user is not None:
            document["users"][0]["user"] = dict(user)
        path.write_text(yaml.safe_dump(document))
        return path

    def start(self, config: Path, *words: object) -> subprocess.Popen[str]:
        return self.cli.start("conformance", self.descriptor, "--kubeconfig", config, *words)

    def judge(self, config: Path, *words: object) -> Done:
        done = self.cli.finish(self.start(config, *words), RUN_SECONDS)
        assert "Traceback" not in done.err, done.err
        return done

    def refused(self, config: Path, *words: object) -> str:
        """What is said when there is no run; one line, nothing on the cluster."""
        done = self.judge(config, *words)
        assert (done.code, done.out) == (2, ""), done
        [line] = done.lines()
        assert line.startswith("drakit: ")
        return line.removeprefix("drakit: ")


def make(cli: Cli, up: Up, folder: Path, *words: object) -> Existing:
    """Start the cluster with the reference driver."""
    record = up.record(*words)
    admin = kubeconfig.load(Path(record["kubeconfig"])).client()
    document = yaml.safe_load(reference_driver().read_text())
    descriptor = folder / "installed.yaml"
    descriptor.write_text(yaml.safe_dump({**document, "installed": True}))
    return Existing(cli, up, record, admin, descriptor)


def plugin(folder: Path, token: str) -> dict[str, Any]:
    """A user whose token comes from a program."""
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": token},
    }
    path = folder / "plugin.py"
    path.write_text(f"print({json.dumps(json.dumps(credential))})\n")
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": [str(path)],
            "interactiveMode": "Never",
        }
    }
