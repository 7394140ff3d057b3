"""`drakit doctor` as a user calls it."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from cli_kit import Cli
from clusters_kit import QUICK, Up

from clusters.doctor.checks import HOST_CHECKS
from clusters.doctor.cluster.checks import CLUSTER_CHECKS

pytestmark = pytest.mark.process
DOCS = Path(__file__).parents[2] / "docs"


def test_every_check_is_listed_with_its_meaning(cli: Cli) -> None:
    done = cli("doctor", "--list", "--json")
    assert (done.code, done.err) == (0, "")
    ids = [check.id for check in (*HOST_CHECKS, *CLUSTER_CHECKS)]
    assert [row["id"] for row in json.loads(done.out)] == ids
    assert [line.split()[0] for line in cli("doctor", "--list").out.splitlines()] == ids
    assert len(set(ids)) == len(ids)


def test_the_manual_names_every_check() -> None:
    text = (DOCS / "doctor.md").read_text()
    assert [check.id for check in (*HOST_CHECKS, *CLUSTER_CHECKS) if f"`{check.id}`" not in text] == []


def test_a_host_is_fine_for_embedded_clusters(cli: Cli) -> None:
    done = cli("doctor", "--tier", "embedded")
    assert done.code == 0, done.out
    assert done.out.startswith("needed by embedded clusters:\n  ok ")
    assert done.out.endswith("\nClusters that can run here: embedded.\n")
    assert "docker" not in done.out


def test_what_is_missing_has_a_line_a_remedy_and_an_exit_code(cli: Cli) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        port = listener.getsockname()[1]
        done = cli("doctor", "--tier", "embedded", "--port", port, "--feature-gates", "DRAAdminAccess=false")
    assert done.code == 1
    lines = {words[1]: line for line in done.out.splitlines() if len(words := line.split()) > 1}
    assert lines["port"].split()[:5] == ["missing", "port", str(port), "is", "in"]
    assert " -> choose another --port" in lines["port"]
    assert "feature is locked to true" in lines["gate-locked"]
    assert done.out.endswith("Embedded clusters cannot, for gate-locked, port.\n")


def test_a_host_without_docker_runs_no_kind_cluster(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    own = {"PATH": str(tmp_path / "bin"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = cli("doctor", "--json", "--tier", "kind", **own)
    found = json.loads(done.out)
    states = {item["id"]: item["state"] for item in found["checks"]}
    assert (done.code, found["exitCode"], found["tiers"]) == (1, 1, {"kind": False})
    assert (states["docker-command"], states["kind"]) == ("missing", "missing")
    [command] = [item for item in found["checks"] if item["id"] == "docker-command"]
    assert command["blocks"] == ["kind"]
    assert "apt install docker.io" in command["remedy"]


def test_without_a_tier_one_that_can_run_is_enough(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    done = cli("doctor", PATH=str(tmp_path / "bin"))
    assert done.code == 0
    assert "Clusters that can run here: embedded" in done.out.splitlines()[-1]
    assert "Kind clusters cannot, for docker-command" in done.out.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--tier", "cloud"], "Invalid value for '--tier'"),
        (["--port", "70000"], "Invalid value for '--port'"),
        (["--context", "x"], "--context names a context of a kubeconfig: give --kubeconfig as well"),
        (["--kubeconfig", "k", "--tier", "kind"], "--tier is about this host; with --kubeconfig a cluster"),
        (["--kubeconfig", "absent"], "--kubeconfig absent: no such file"),
    ],
)
def test_mistakes_are_one_line(cli: Cli, words: list[str], message: str) -> None:
    done = cli("doctor", *words)
    assert (done.code, done.out, len(done.lines())) == (2, "", 1)
    assert message in done.err


def test_a_cluster_is_looked_at(up: Up) -> None:
    config = up.record(*QUICK)["kubeconfig"]
    done = up("doctor", "--kubeconfig", config)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("Kubernetes v1.37.2 at https://127.0.0.1:")
    rows = {line.split()[0]: line.split()[1:] for line in done.out.splitlines() if line.startswith("DRA")}
    assert rows["DRADeviceTaints"] == ["on", "unknown", "unknown", "on"]
    assert rows["DRADerivedAttributes"] == ["off", "unknown", "unknown", "off"]
    assert done.out.splitlines()[-1] == "1 unknown."

    wrong = up("doctor", "--kubeconfig", config, "--feature-gates", "DRADerivedAttributes=true", "--json")
    found = json.loads(wrong.out)
    assert (wrong.code, found["kind"], found["gates"]["DRADerivedAttributes"]["kube-apiserver"]) == (
        1,
        "cluster",
        "off",
    )
    [check] = [item for item in found["checks"] if item["id"] == "gates-wanted"]
    assert (check["state"], check["problems"][0]["where"]) == ("fault", "gate DRADerivedAttributes")


def test_a_cluster_that_does_not_answer_is_a_fault(cli: Cli) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        text = f"""
apiVersion: v1
kind: Config
current-context: c
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{server: "https://127.0.0.1:{port}"}}}}]
users: [{{name: u, user: {{token: x}}}}]
"""
        done = cli("doctor", "--kubeconfig", cli.write(text, "kubeconfig"))
    assert (done.code, done.err) == (1, "")
    assert done.out.startswith(f"fault    reachable  https://127.0.0.1:{port} does not answer: GET /version")
