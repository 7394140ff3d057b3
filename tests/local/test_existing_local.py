"""`drakit conformance --kubeconfig` with the least rights on a real Kubernetes that is somebody else's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.existing import kubeconfig
from conformance import reviewed
from drakit.rbac import account
from drakit.up import reference_driver
from tests.existing_world import apply, check_pod_security, other_user, snapshot, token, wait_settled

pytestmark = [
    pytest.mark.go,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.geteuid() != 0, reason="kubelets need root"),
]
DRIVER = "gpu.drakit.dev"


def run(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "TMPDIR": str(folder)}
    return subprocess.run(
        [sys.executable, "-m", "drakit", *map(str, words)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=600,
    )


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    # Short, since sockets of kubelets and drivers are below it.
    with tempfile.TemporaryDirectory(prefix="de-", dir="/tmp") as found:
        yield Path(found)


@pytest.fixture(scope="module")
def record(folder: Path) -> Iterator[dict[str, Any]]:
    done = run(folder, "up", "--tier", "local", "--nodes", "2", "--json")
    try:
        assert done.returncode == 0, done.stderr
        yield json.loads(done.stdout)
    finally:
        run(folder, "down", "--all")


def test_a_run_with_the_least_rights_passes_and_leaves_the_cluster_as_it_was(
    record: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    config = Path(record["kubeconfig"])
    admin = kubeconfig.load(config).client()
    apply(admin, account("drakit", "default"))
    restricted = other_user(config, tmp_path / "kubeconfig", {"token": token(admin, "drakit")})
    descriptor = tmp_path / "installed.yaml"
    document = yaml.safe_load(reference_driver().read_text())
    descriptor.write_text(yaml.safe_dump({**document, "installed": True}))
    wait_settled(admin)
    before = snapshot(admin, DRIVER)
    done = run(folder, "conformance", descriptor, "--kubeconfig", restricted, "--report", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert snapshot(admin, DRIVER) == before
    report = json.loads((tmp_path / "report.json").read_text())
    assert reviewed.unreviewed("existing", reviewed.skips_of(report)) == []
    verdicts = {result["id"]: result["verdict"] for result in report["results"]}
    for name in ("ALC-CDI-01", "ALC-CON-12", "ALC-SCH-14", "ALC-REL-08", "ALC-SEL-25"):
        assert verdicts[name] == "pass", name
    admin.close()


def test_pods_of_a_run_may_be_where_only_restricted_ones_may(record: dict[str, Any]) -> None:
    admin = kubeconfig.load(Path(record["kubeconfig"])).client()
    check_pod_security(admin)
    admin.close()
