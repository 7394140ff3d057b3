"""`drakit conformance --kubeconfig` on a cluster with the reference driver that another process has started."""

from __future__ import annotations

import base64
import json
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_kit import new_cli, until
from clusters_kit import Up
from existing_kit import Existing, make

from clusters.existing import leftovers, rights
from clusters.existing.settings import RUN_LABEL
from clusters.proxies.api_calls import ApiCall
from clusters.proxies.api_proxy import ApiProxy
from clusters.proxies.client_view import ClientView
from clusters.proxies.permissions import report
from conformance import reviewed
from tests.existing_world import other_user

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def existing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Existing]:
    folder = tmp_path_factory.mktemp("existing")
    with new_cli(folder) as cli:
        up = Up(cli, folder / "state")
        try:
            yield make(cli, up, folder, "--nodes", "3")
        finally:
            up("down", "--all")


def _authority(existing: Existing) -> bytes:
    config = yaml.safe_load(existing.kubeconfig.read_text())
    return base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"])


def test_a_run_with_the_printed_rights_uses_them_all_and_leaves_the_cluster_as_it_was(
    existing: Existing, tmp_path: Path
) -> None:
    token = existing.account()
    before = existing.snapshot()
    proxy = ApiProxy(existing.record["server"], _authority(existing))
    try:
        view = ClientView(proxy, "run")
        view.write_kubeconfig(tmp_path / "kubeconfig", token=token)
        done = existing.judge(tmp_path / "kubeconfig", "--report", tmp_path)
        calls = list(view.calls())
    finally:
        proxy.close()
    assert done.code == 0, done.out + done.err
    assert existing.snapshot() == before
    _check_report(json.loads((tmp_path / "report.json").read_text()))
    _check_rights(calls)


def _check_report(report: dict[str, Any]) -> None:
    """What can be asked passes, what is left out is agreed to and explained."""
    assert report["cluster"]["tier"] == "existing"
    results = {record["id"]: record for record in report["results"]}
    # Scheduler, API server and controllers, the installed driver, and what its containers see.
    for name in (
        "ALC-SCH-14",
        "ALC-SEL-22",
        "ALC-CLM-08",
        "ALC-REL-02",
        "ALC-UPD-02",
        "ALC-CON-11",
        "ALC-CON-12",
        "ALC-CDI-01",
    ):
        assert results[name]["verdict"] == "pass", results[name]
    assert {record["verdict"] for record in results.values()} == {"pass", "known-gap", "skip"}
    assert reviewed.unreviewed("existing", reviewed.skips_of(report)) == []
    reasons = {record["reason"] for record in results.values() if record["verdict"] == "skip"}
    assert not [reason for reason in reasons if "cannot do" in reason]
    gaps = [record for record in results.values() if record["verdict"] == "known-gap"]
    assert all(" --kubeconfig " in record["reproduce"] for record in gaps)


def _check_rights(calls: list[ApiCall]) -> None:
    """Every request is covered by the printed rules, and every right of them was used."""
    found = report(calls, rights.RULES)
    assert found.undeclared == ()
    assert [call.status for call in calls if call.info.path == "/metrics"] == [200]
    # It is asked for where a status is written, and no request of its own.
    assert [str(unused) for unused in found.unused] == ["update resourceclaims/binding.resource.k8s.io"]


def test_images_are_pulled_with_a_copy_of_the_secret_on_the_nodes_that_are_chosen(
    existing: Existing, tmp_path: Path
) -> None:
    secret = {
        "metadata": {"name": "registry", "namespace": "default"},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": base64.b64encode(b'{"auths": {}}').decode()},
    }
    existing.admin.create("v1", "secrets", secret)
    token = existing.account("--image-pull-secret", "default/registry", name="puller")
    config = other_user(existing.kubeconfig, tmp_path / "kubeconfig", {"token": token})
    node = existing.record["nodes"][1]
    before = existing.snapshot()
    run = existing.start(
        config,
        *("--image-pull-secret", "default/registry", "--node-selector", f"kubernetes.io/hostname={node}"),
        *("--focus", "ALC-CON-12", "--focus", "ALC-SEL-08", "--focus", "ALC-SCH-07", "--report", tmp_path),
    )
    pods: dict[str, Any] = {}
    pause = threading.Event()
    while run.poll() is None:
        pause.wait(0.05)
        for pod in existing.admin.list("v1", "pods"):
            if pod["metadata"]["namespace"].startswith("drakit-"):
                pods[pod["metadata"]["uid"]] = pod
    done = existing.cli.finish(run)
    assert done.code == 0, done
    written = json.loads((tmp_path / "report.json").read_text())
    results = {record["id"]: record for record in written["results"]}
    assert [results[name]["verdict"] for name in ("ALC-CON-12", "ALC-SEL-08")] == ["pass", "pass"]
    assert results["ALC-SCH-07"]["reason"] == f"there is one node for Pods of the kit, {node}"
    assert pods
    for pod in pods.values():
        assert pod["spec"]["imagePullSecrets"] == [{"name": "drakit-pull"}]
        assert pod["spec"].get("nodeName", node) == node
    assert existing.snapshot() == before


@pytest.mark.parametrize(
    ("words", "verdict", "reason"),
    [
        ((), "skip", "disruptive, and the cluster was not created by drakit; --allow-disruptive runs it"),
        (("--allow-disruptive",), "pass", None),
    ],
)
def test_what_others_would_wait_for_runs_when_that_is_allowed(
    existing: Existing, words: tuple[str, ...], verdict: str, reason: str | None
) -> None:
    done = existing.judge(existing.kubeconfig, "--focus", "ALC-SCH-19", "--json", *words)
    [result] = [record for record in json.loads(done.out)["results"] if record["id"] == "ALC-SCH-19"]
    assert (result["verdict"], result.get("reason")) == (verdict, reason)


def test_a_run_that_was_killed_is_removed_by_the_next_down_and_nothing_else(existing: Existing) -> None:
    before = existing.snapshot()
    stranger = {"metadata": {"name": "drakit-t1-stranger"}}
    existing.admin.create("v1", "namespaces", stranger)
    run = existing.start(existing.kubeconfig, "--focus", "scheduling")
    until(lambda: len(_labelled(existing)) > 4, "the run has made things")
    run.send_signal(signal.SIGKILL)
    existing.cli.finish(run)
    assert _labelled(existing)
    done = existing.up("down", "--kubeconfig", existing.kubeconfig)
    assert done.code == 0 and done.out.endswith(" objects\n"), done
    assert existing.admin.find("v1", "namespaces", "drakit-t1-stranger") is not None
    existing.admin.delete("v1", "namespaces", "drakit-t1-stranger")
    until(lambda: existing.snapshot() == before, "the cluster is as before")
    done = existing.up("down", "--kubeconfig", existing.kubeconfig)
    assert (done.code, done.out) == (0, "no run has left anything on the cluster\n")


def test_an_interrupt_takes_everything_away_and_down_leaves_a_living_run_alone(existing: Existing) -> None:
    before = existing.snapshot()
    run = existing.start(existing.kubeconfig, "--focus", "selection")
    until(lambda: len(_labelled(existing)) > 4, "the run has made things")
    done = existing.up("down", "--kubeconfig", existing.kubeconfig)
    assert (done.code, done.out) == (1, "")
    assert f"is left alone: process {run.pid} is at work" in done.err
    run.send_signal(signal.SIGINT)
    done = existing.cli.finish(run)
    assert done.code == 130, done
    assert existing.snapshot() == before


def _labelled(existing: Existing) -> list[Any]:
    return [
        item for kind in leftovers.OWN_KINDS for item in existing.admin.list(*kind, labelSelector=RUN_LABEL)
    ]


def test_a_driver_of_manifests_is_there_for_the_run_alone(existing: Existing, tmp_path: Path) -> None:
    name, node = "static.example.com", existing.record["nodes"][0]
    slices = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "static"},
        "spec": {
            "driver": name,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "dev-0"}],
        },
    }
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "static"},
        "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}],
    }
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "static"}}
    (tmp_path / "static.yaml").write_text(yaml.safe_dump_all([account, role, slices]))
    descriptor = tmp_path / "driver.yaml"
    descriptor.write_text(yaml.safe_dump({"schemaVersion": 1, "name": name, "manifests": ["static.yaml"]}))
    before = existing.snapshot()
    token = existing.account(descriptor, name="installer")
    config = other_user(existing.kubeconfig, tmp_path / "kubeconfig", {"token": token})
    with_account = existing.snapshot()
    words = ("conformance", descriptor, "--kubeconfig", config, "--focus", "ALC-SEL-24")
    done = existing.up(*words)
    assert done.code == 0, done
    assert f"drakit: installing {name}\n" in done.err
    assert existing.snapshot() == with_account
    # What is there already is not the kit's to touch.
    existing.admin.create("v1", "serviceaccounts", account, "default")
    done = existing.up(*words)
    assert (done.code, done.out) == (2, "")
    assert "manifests: ServiceAccount static exists already, and is not of this run" in done.err
    existing.admin.delete("v1", "serviceaccounts", "static", "default")
    assert existing.snapshot() == with_account
    for resource in ("clusterroles", "clusterrolebindings"):
        existing.admin.delete("rbac.authorization.k8s.io/v1", resource, "installer")
    existing.admin.delete("v1", "serviceaccounts", "installer", "default")
    assert existing.snapshot() == before


def test_without_an_image_that_probes_what_is_about_containers_is_left_out(existing: Existing) -> None:
    # No name of an image, so that no container starts.
    done = existing.judge(
        existing.kubeconfig,
        "--probe-image",
        "busybox/UPPER",
        "--focus",
        "ALC-CDI-01",
        "--focus",
        "ALC-SEL-24",
        "--json",
    )
    results = {record["id"]: record for record in json.loads(done.out)["results"]}
    assert (done.code, results["ALC-SEL-24"]["verdict"]) == (0, "pass")
    reason = results["ALC-CDI-01"]["reason"]
    assert reason.startswith("containers of image busybox/UPPER do not run the kit's probe (InvalidImageName")
    assert results["ALC-CDI-01"]["cause"] == "tier"
    assert not _labelled(existing)
