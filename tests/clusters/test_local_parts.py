"""What local clusters are made of, as far as no component runs."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from clusters.interface import ClusterError, ClusterSpec, NodeSpec
from clusters.local import probes
from clusters.local.cluster import LocalCluster
from clusters.local.credentials import ADMIN, Credentials, node_user
from clusters.local.kubelet import extended_resources, may_set_label


class NoPrograms:
    version = "v1.37.2"

    def path(self, name: str) -> Path:
        raise AssertionError("nothing is started")


@pytest.mark.parametrize(
    ("key", "own"),
    [
        ("zone", True),
        ("example.com/rack", True),
        ("kubernetes.io/hostname", True),
        ("topology.kubernetes.io/zone", True),
        ("node.kubernetes.io/anything", True),
        ("kubelet.kubernetes.io/x", True),
        ("a.node.kubernetes.io/x", True),
        ("node-restriction.kubernetes.io/x", False),
        ("node-role.kubernetes.io/worker", False),
        ("kubernetes.io/other", False),
        ("k8s.io/x", False),
        ("a.k8s.io/x", False),
        ("notk8s.io/x", True),
    ],
)
def test_labels_that_a_kubelet_may_give_its_node(key: str, own: bool) -> None:
    assert may_set_label(key) is own


def test_capacity_that_can_be_chosen() -> None:
    spec = NodeSpec(capacity=(("pods", "10"), ("example.com/widget", "3")))
    assert extended_resources(spec) == {"example.com/widget": "3"}
    for name in ("cpu", "memory", "ephemeral-storage", "hugepages-2Mi"):
        with pytest.raises(ClusterError, match=f"have the {name} of this machine"):
            extended_resources(NodeSpec(capacity=((name, "1"),)))


def test_keys_and_tokens_are_for_their_owner_alone(tmp_path: Path) -> None:
    keys = Credentials(tmp_path / "pki", ["n1", "n2"])
    assert stat.S_IMODE((tmp_path / "pki").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "pki").iterdir()} == {0o600}
    rows = [line.split(",") for line in keys.tokens.read_text().splitlines()]
    assert [(row[1], row[3] if len(row) > 3 else "") for row in rows] == [
        ("drakit:admin", '"system:masters"'),
        ("system:kube-scheduler", ""),
        ("system:kube-controller-manager", ""),
        ("system:node:n1", '"system:nodes"'),
        ("system:node:n2", '"system:nodes"'),
    ]
    assert len({row[0] for row in rows}) == 5
    assert keys.token(ADMIN) == rows[0][0]
    config = yaml.safe_load(keys.kubeconfig(node_user("n2"), "https://127.0.0.1:1").read_text())
    assert config["users"][0]["user"] == {"token": rows[4][0]}


def test_a_client_certificate_is_none_for_servers(tmp_path: Path) -> None:
    keys = Credentials(tmp_path / "pki", [])
    certificate = x509.load_pem_x509_certificate(keys.kubelet_client[0].read_bytes())
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(keys.ca.read_bytes()))
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    # An organization would be a group: who holds this certificate is nobody at the API server.
    assert certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME) == []


def test_the_address_of_this_machine_is_none_that_a_kubelet_refuses() -> None:
    address = probes.host_address()
    assert address == "" or not address.startswith(("127.", "169.254."))


def test_nodes_need_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ClusterError, match="a local cluster with nodes needs root"):
        LocalCluster(ClusterSpec(nodes=(NodeSpec(),)), NoPrograms())


def test_what_is_wrong_is_told_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(ClusterError, match=r"is to be Kubernetes 1\.3, and the binaries are of v1\.37\.2"):
        LocalCluster(ClusterSpec(version="1.3"), NoPrograms())
    with pytest.raises(ClusterError, match="have the cpu of this machine"):
        LocalCluster(ClusterSpec(nodes=(NodeSpec(capacity=(("cpu", "64"),)),)), NoPrograms())
    with pytest.raises(ClusterError, match="unrecognized feature gate: DRADeviceTaint, did you mean"):
        LocalCluster(ClusterSpec(gates=(("DRADeviceTaint", True),)), NoPrograms())
    with pytest.raises(ClusterError, match="must be a KubeSchedulerConfiguration"):
        LocalCluster(ClusterSpec(scheduler_config="- a"), NoPrograms())
    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "gettempdir", lambda: "/tmp/" + "x" * 80)
        with pytest.raises(ClusterError, match="set TMPDIR to a shorter folder"):
            LocalCluster(ClusterSpec(nodes=(NodeSpec(),)), NoPrograms())


def test_a_socket_that_nobody_listens_on_any_more_is_no_server(tmp_path: Path) -> None:
    serves = probes.unix(tmp_path / "s")
    assert not serves()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()
        assert serves()
    assert (tmp_path / "s").exists()
    assert not serves()
