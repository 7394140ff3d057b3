"""Feature gates of a cluster: the API server's metrics tell them, the command line wins, and defaults stand in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from clusters_kit import Up

from clusters import feature_metrics, gates
from clusters.client import Client, ClientError
from clusters.existing import kubeconfig
from drakit.offline import cluster
from drakit.output import UserError
from tests.existing_world import apply, other_user, token

SERVER = "https://a.example.com"
DRIVER = "gpu.example.com"
READERS = [
    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader", "namespace": "default"}},
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "reader"},
        "rules": [
            {"apiGroups": [""], "resources": ["nodes", "namespaces", "pods"], "verbs": ["list"]},
            {"apiGroups": ["resource.k8s.io"], "resources": ["*"], "verbs": ["list"]},
        ],
    },
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}],
    },
]


class Server(Client):
    """An API server of a version that tells some gates, or refuses to tell, and has no objects."""

    def __init__(self, version: str, told: Mapping[str, bool] | None = None) -> None:
        self._version, self._told = version, told

    def request(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        return {"gitVersion": self._version} if path == "/version" else {"groups": [], "items": []}

    def text(self, path: str, timeout: float = 30.0) -> str:
        if self._told is None:
            raise ClientError(403, "Forbidden", f'User "x" cannot get path "{path}"')
        return "".join(
            f'kubernetes_feature_enabled{{name="{name}",stage=""}} {int(value)}\n'
            for name, value in self._told.items()
        )

    def close(self) -> None:
        pass


def read(monkeypatch: pytest.MonkeyPatch, server: Server, setting: str = "") -> Mapping[str, bool]:
    class Connection:
        server = SERVER
        context = "a"

        def client(self) -> Server:
            return found

    found = server
    monkeypatch.setattr(kubeconfig, "load", lambda path, context: Connection())
    return cluster.read(Path("kubeconfig"), "", setting).gates


def test_what_the_server_tells_takes_the_place_of_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"DRADerivedAttributes": True, "DRADeviceTaints": False, "NobodysGate": True}
    found = read(monkeypatch, Server("v1.37.2", told))
    assert (found["DRADerivedAttributes"], found["DRADeviceTaints"]) == (True, False)
    assert found["DRAConsumableCapacity"] is True
    assert "NobodysGate" not in found


def test_the_command_line_wins_also_for_gates_that_need_the_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"DRAConsumableCapacity": True, "DRAFractionalCapacityRange": True}
    assert read(monkeypatch, Server("v1.37.0", told))["DRAFractionalCapacityRange"] is True
    found = read(monkeypatch, Server("v1.37.0", told), "DRAConsumableCapacity=false")
    assert (found["DRAConsumableCapacity"], found["DRAFractionalCapacityRange"]) == (False, False)


def test_a_server_that_does_not_tell_has_the_defaults_of_its_version(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = read(monkeypatch, Server("v1.35.4"), "DRADeviceTaints=true")
    assert (found["DRADeviceTaints"], found["DRAPartitionableDevices"]) == (True, False)
    assert found["DRAListTypeAttributes"] is False, "1.35 has no such gate"
    assert set(found) == set(gates.known("1.37"))
    [line] = capsys.readouterr().err.splitlines()
    assert line == (
        f'drakit: {SERVER}: the metrics of the API server cannot be read: User "x" cannot get path "/metrics"; feature'
        " gates are taken to have the defaults of Kubernetes 1.35 unless --feature-gates says otherwise"
    )


@pytest.mark.parametrize(("version", "minor"), [("v1.33.9", "1.34"), ("v1.38.0-alpha.1+x", "1.37")])
def test_an_unknown_version_is_taken_for_the_nearest_that_is_known(
    monkeypatch: pytest.MonkeyPatch, version: str, minor: str
) -> None:
    found = read(monkeypatch, Server(version))
    defaults = {name: gate.default for name, gate in gates.known(minor).items()}
    assert {name: found[name] for name in defaults if name in found} == gates.effective({}, minor)


def test_a_gate_that_the_version_does_not_have_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        UserError, match=r"unrecognized feature gate: DRADerivedAttributes.*Kubernetes v1\.36\.1"
    ):
        read(monkeypatch, Server("v1.36.1", {}), "DRADerivedAttributes=true")


def test_a_server_that_is_none_of_kubernetes_is_a_mistake_of_the_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(UserError, match="the server does not say which Kubernetes it is"):
        read(monkeypatch, Server(""))


@pytest.mark.process
@pytest.mark.timeout(300)
def test_the_gates_of_a_running_cluster_decide(up: Up, tmp_path: Path) -> None:
    record = up.record("--nodes", "1", "--no-driver", "--feature-gates", "DRADeviceTaints=false")
    admin = kubeconfig.load(Path(record["kubeconfig"])).client()
    assert feature_metrics.parse(admin.text("/metrics"))["DRADeviceTaints"] is False
    [node] = [entry["metadata"]["name"] for entry in admin.list("v1", "nodes")]
    tainted = {"name": "a", "taints": [{"key": "example.com/broken", "effect": "NoSchedule"}]}
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    slices = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": [tainted]}
    requests = [{"name": "r", "exactly": {"deviceClassName": "any"}}]
    specs = {"ResourceSlice": slices, "DeviceClass": {}, "ResourceClaim": {"devices": {"requests": requests}}}
    names = {"DeviceClass": "any"}
    (tmp_path / "world.yaml").write_text(
        yaml.safe_dump_all(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": kind,
                "metadata": {"name": names.get(kind, "c")},
                "spec": spec,
            }
            for kind, spec in specs.items()
        )
    )
    files = ("-f", tmp_path / "world.yaml")
    mine = ("--kubeconfig", record["kubeconfig"])

    done = up("allocate", *mine, *files, "--json")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out)["attempts"][0]["node"] == node
    assert up("explain", "claim", "c", *mine, *files).code == 0
    done = up("explain", "claim", "c", *mine, *files, "--feature-gates", "DRADeviceTaints=true", "--json")
    assert (done.code, done.err) == (1, "")
    assert json.loads(done.out)["nodes"][0]["blocking"]["reason"] == "taint"

    apply(admin, READERS)
    reader = other_user(Path(record["kubeconfig"]), tmp_path / "reader", {"token": token(admin, "reader")})
    done = up("devices", "--kubeconfig", reader, *files, "--json")
    assert (done.code, [row["state"] for row in json.loads(done.out)["devices"]]) == (0, ["tainted"])
    [line] = done.lines()
    assert "the metrics of the API server cannot be read" in line
    assert "feature gates are taken to have the defaults of Kubernetes 1.37" in line

    stranger = other_user(
        Path(record["kubeconfig"]), tmp_path / "stranger", {"token": token(admin, "default")}
    )
    done = up("allocate", "--kubeconfig", stranger)
    assert done.code == 2
    assert "lacks a right" in done.err and "it has to list nodes, namespaces and Pods" in done.err
    admin.close()
