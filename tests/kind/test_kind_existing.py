"""A kind cluster as somebody's own: the Go driver as a DaemonSet on it, and runs with the least rights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from kind_kit import GO_DRIVER, Drakit
from test_kind_daemonset import DRIVER, deployed, load_images

from clusters.client import Client
from clusters.kind.engine import Engine
from conformance import reviewed
from drakit.rbac import account
from drakit.state import Record
from tests.existing_world import apply, check_pod_security, other_user, snapshot, token, wait_settled

pytestmark = [pytest.mark.kind, pytest.mark.timeout(2400)]

MANIFESTS = Path(__file__).parent / "manifests" / "driver.yaml"
__all__ = ["deployed"]


def describe(path: Path, **more: Any) -> Path:
    """A descriptor of the Go driver under the name that it is deployed with."""
    document = yaml.safe_load((GO_DRIVER / "driver.yaml").read_text())
    document |= {"name": DRIVER, "deviceClasses": [DRIVER], **more}
    del document["start"]["command"]
    path.write_text(yaml.safe_dump({key: value for key, value in document.items() if key != "start"}))
    return path


def judge(drakit: Drakit, descriptor: Path, config: Path, *words: str) -> dict[str, dict[str, Any]]:
    """The results by id, of a run that has to pass and to leave out only what is agreed to."""
    report = json.loads(
        drakit.run("conformance", str(descriptor), "--kubeconfig", str(config), "--json", *words)
    )
    assert report["cluster"]["tier"] == "existing"
    assert reviewed.unreviewed("existing", reviewed.skips_of(report)) == []
    return {result["id"]: result for result in report["results"]}


def test_a_driver_of_manifests_is_installed_for_the_run_alone(
    shared: Drakit, record: Record, engine: Engine, api: Client, tmp_path: Path
) -> None:
    # Before the driver of the other tests, which has the same names.
    assert api.find("v1", "namespaces", "godriver") is None
    load_images(engine, record.nodes[0].removesuffix("-control-plane"), tmp_path)
    before = snapshot(api, DRIVER)
    descriptor = describe(tmp_path / "driver.yaml", manifests=[str(MANIFESTS)])
    results = judge(shared, descriptor, Path(record.kubeconfig), "--focus", "ALC-CON-12")
    assert results["ALC-CON-12"]["verdict"] == "pass", results["ALC-CON-12"]
    assert snapshot(api, DRIVER) == before
    assert not api.list("resource.k8s.io/v1", "resourceslices", fieldSelector=f"spec.driver={DRIVER}")


def test_the_suites_pass_with_the_least_rights_and_leave_the_cluster_as_it_was(
    shared: Drakit, deployed: Record, api: Client, tmp_path: Path
) -> None:
    apply(api, account("drakit", "default"))
    config = other_user(Path(deployed.kubeconfig), tmp_path / "kubeconfig", {"token": token(api, "drakit")})
    wait_settled(api)
    before = snapshot(api, DRIVER)
    results = judge(shared, describe(tmp_path / "driver.yaml", installed=True), config)
    assert snapshot(api, DRIVER) == before
    # Containers with real devices of a real runtime among them.
    for name in ("ALC-CDI-01", "ALC-CON-12", "ALC-SCH-07", "ALC-SCH-14", "ALC-CLM-08", "ALC-REL-02"):
        assert results[name]["verdict"] == "pass", results[name]


def test_pods_of_a_run_may_be_where_only_restricted_ones_may(api: Client) -> None:
    check_pod_security(api)
