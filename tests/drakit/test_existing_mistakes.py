"""What the command says of clusters that it cannot use: a line each, exit code 2, and nothing made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.client import Client, ClientError
from clusters.embedded.cluster import EmbeddedCluster
from clusters.existing import rights
from clusters.interface import ClusterSpec
from clusters.tls import Authority
from conformance.cluster import manifests
from conformance.cluster.manifests import resource_slice
from drakit.main import main
from drakit.rbac import account
from drakit.up import reference_driver

REFERENCE = reference_driver()
DRIVER = "gpu.drakit.dev"


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """An API server with a Node object, which nobody tends."""
    with EmbeddedCluster(ClusterSpec(control_plane=False)) as found:
        yield found


@pytest.fixture
def config(cluster: EmbeddedCluster, tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    cluster.write_kubeconfig(path, "mine")
    return path


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    document = yaml.safe_load(REFERENCE.read_text())
    path = tmp_path / "installed.yaml"
    path.write_text(yaml.safe_dump({**document, "installed": True}))
    return path


def change(path: Path, *, user: dict[str, Any] | None = None, **cluster: Any) -> Path:
    document = yaml.safe_load(path.read_text())
    document["clusters"][0]["cluster"] |= cluster
    if user is not None:
        document["users"][0]["user"] = user
    path.write_text(yaml.safe_dump(document))
    return path


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """The one line that the command says."""
    assert main([str(word) for word in words]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    [line] = said.err.splitlines()
    assert line.startswith("drakit: ")
    return line.removeprefix("drakit: ")


def judge(capsys: pytest.CaptureFixture[str], descriptor: Path, config: Path, *words: object) -> str:
    return refused(capsys, "conformance", descriptor, "--kubeconfig", config, *words)


def test_a_driver_that_is_a_command_cannot_run_there(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert judge(capsys, REFERENCE, config) == (
        f"{REFERENCE}: start.command runs a driver on nodes that drakit has started; on a cluster of yours it has to "
        'be there: say "installed: true" if it is, or list the "manifests" that install it'
    )


def test_a_driver_without_a_command_cannot_run_on_our_clusters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "d.yaml"
    path.write_text("schemaVersion: 1\nname: d.example.com\ninstalled: true\n")
    assert refused(capsys, "conformance", path) == (
        f"{path}: start: is required where drakit starts the cluster; --kubeconfig names one that has the driver"
    )


def test_a_file_that_is_not_there(
    installed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert judge(capsys, installed, tmp_path / "none") == f"--kubeconfig {tmp_path / 'none'}: no such file"


def test_a_context_that_is_not_there(
    config: Path, installed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = judge(capsys, installed, config, "--context", "min")
    assert said == (
        f'--kubeconfig {config}: --context "min": no such context; did you mean "mine"?; there is mine'
    )


def test_a_server_that_does_not_answer(
    config: Path, installed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = judge(capsys, installed, change(config, server="https://127.0.0.1:1"))
    assert said == (
        "https://127.0.0.1:1 (context mine) cannot be reached: [Errno 111] Connection refused; is the address right, "
        "and the server up?"
    )


def test_a_name_that_nobody_knows(config: Path, installed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = judge(capsys, installed, change(config, server="https://nowhere.invalid:6443"))
    assert said.startswith("https://nowhere.invalid:6443 (context mine) cannot be reached: [Errno -")
    assert said.endswith("; is the address right, and the server up?")


def test_credentials_that_are_not_known(
    cluster: EmbeddedCluster, config: Path, installed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert judge(capsys, installed, change(config, user={"token": "expired"})) == (
        f"{cluster.url} (context mine) does not know these credentials: they have expired, or belong to another "
        "cluster; get new ones"
    )


def test_an_authority_that_is_another(
    cluster: EmbeddedCluster,
    config: Path,
    installed: Path,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    other = tmp_path / "other.pem"
    other.write_bytes(Authority().pem)
    document = yaml.safe_load(config.read_text())
    document["clusters"][0]["cluster"] = {"server": cluster.url, "certificate-authority": "other.pem"}
    config.write_text(yaml.safe_dump(document))
    said = judge(capsys, installed, config)
    assert said.startswith(
        f"{cluster.url} (context mine) has a certificate that the kubeconfig does not trust: certificate verify "
        "failed: "
    )
    assert said.endswith("; correct certificate-authority-data or tls-server-name")


def test_an_account_without_rights(
    cluster: EmbeddedCluster, config: Path, installed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = _account(cluster.client(), "poor", lambda role: role["rules"].pop(-2))
    said = judge(capsys, installed, change(config, user={"token": token}))
    assert said == (
        "the account of context mine may not create resourceclaimtemplates.resource.k8s.io, update "
        'resourceclaimtemplates.resource.k8s.io; "drakit rbac" prints an account with the rights that are needed'
    )


def test_every_right_of_the_printed_account_is_looked_at_before_the_run(cluster: EmbeddedCluster) -> None:
    client = cluster.client()
    assert rights.lacking(client, rights.RULES) == []
    token = _account(client, "none", lambda role: role["rules"].clear())
    poor = Client(cluster.url, cluster.root / "ca.pem", token)
    singles = sum(len(rule.resources) * len(rule.verbs) for rule in rights.RULES)
    assert len(rights.lacking(poor, rights.RULES)) == singles
    poor.close()
    token = _account(client, "enough", lambda role: None)
    enough = Client(cluster.url, cluster.root / "ca.pem", token)
    assert rights.lacking(enough, rights.RULES) == []
    enough.close()


def test_consumers_and_allocations_cannot_be_written_without_the_right_to_bind(
    cluster: EmbeddedCluster,
) -> None:
    client = cluster.client()
    claim = manifests.claim("bound", manifests.claim_spec([manifests.request("class")]))
    stored = client.create("resource.k8s.io/v1", "resourceclaims", claim, "default")
    stored["status"] = {
        "allocation": {
            "devices": {"results": [{"request": "device", "driver": DRIVER, "pool": "p", "device": "d"}]}
        }
    }
    unbound = Client(
        cluster.url,
        cluster.root / "ca.pem",
        _account(
            client,
            "unbound",
            lambda role: role["rules"].remove(
                next(rule for rule in role["rules"] if rule.get("resources") == ["resourceclaims/binding"])
            ),
        ),
    )
    with pytest.raises(ClientError, match="resourceclaims/binding"):
        unbound.update("resource.k8s.io/v1", "resourceclaims", stored, "status")
    unbound.close()
    bound = Client(cluster.url, cluster.root / "ca.pem", _account(client, "bound", lambda role: None))
    bound.update("resource.k8s.io/v1", "resourceclaims", stored, "status")
    bound.close()


def test_the_printed_manifests_are_what_kubectl_applies(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rbac", "--name", "ci", "--namespace", "tools", "--image-pull-secret", "registry/pull"]) == 0
    objects = list(yaml.safe_load_all(capsys.readouterr().out))
    assert [(obj["kind"], obj["metadata"]) for obj in objects] == [
        ("ServiceAccount", {"name": "ci", "namespace": "tools"}),
        ("ClusterRole", {"name": "ci"}),
        ("ClusterRoleBinding", {"name": "ci"}),
        ("Role", {"name": "ci-pull-secret", "namespace": "registry"}),
        ("RoleBinding", {"name": "ci-pull-secret", "namespace": "registry"}),
    ]
    who = [{"kind": "ServiceAccount", "name": "ci", "namespace": "tools"}]
    assert objects[2]["subjects"] == objects[4]["subjects"] == who
    assert objects[3]["rules"] == [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["pull"]}
    ]
    assert {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]} in objects[1]["rules"]
    # Nobody has all rights of anything.
    assert "*" not in yaml.safe_dump_all(objects)


def _account(client: Client, name: str, change_role: Any) -> str:
    """Make the account that the command prints, with a role that is changed; its token."""
    made, role, binding = account(name, "default")
    change_role(role)
    group = "rbac.authorization.k8s.io/v1"
    client.create("v1", "serviceaccounts", made)
    client.create(group, "clusterroles", role)
    client.create(group, "clusterrolebindings", binding)
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 3600},
    }
    return str(client.create("v1", "serviceaccounts", request, "default", name, "token")["status"]["token"])


@pytest.fixture
def node(cluster: EmbeddedCluster) -> Iterator[str]:
    client = cluster.client()
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-1"}}
    client.create("v1", "nodes", body)
    # A new Node has the taint of one that is not ready, which nobody takes away here.
    spec = {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}
    client.patch("v1", "nodes", "gpu-1", {"spec": spec})
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    client.patch("v1", "nodes", "gpu-1", {"status": status}, subresource="status")
    yield "gpu-1"
    client.delete("v1", "nodes", "gpu-1")


def test_nodes_that_do_not_fit_are_counted_by_reason(
    node: str, config: Path, installed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert judge(capsys, installed, config) == (
        "no node for the Pods of the kit; of 1: 1 with the taint gpu; --node-selector and --tolerations choose others"
    )
    said = judge(capsys, installed, config, "--node-selector", "disk=fast")
    assert "of 1: 1 without the labels of --node-selector;" in said


def test_a_driver_that_is_not_installed(
    node: str, config: Path, installed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = judge(capsys, installed, config, "--tolerations", "gpu=yes:NoSchedule")
    assert said == f"{DRIVER} has no ResourceSlices on the cluster: is it installed, and does it run?"


def test_devices_on_nodes_that_are_not_used(
    node: str, cluster: EmbeddedCluster, config: Path, installed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    client = cluster.client()
    client.create(
        "resource.k8s.io/v1",
        "resourceslices",
        resource_slice("elsewhere", DRIVER, [{"name": "dev-0"}], node="gpu-2"),
    )
    try:
        said = judge(capsys, installed, config, "--tolerations", "gpu")
    finally:
        client.delete("resource.k8s.io/v1", "resourceslices", "elsewhere")
    assert said == (
        f"{DRIVER} has devices on gpu-2, where Pods of the kit cannot run; --node-selector and --tolerations let them "
        "there"
    )


def test_a_pull_secret_that_is_not_there(
    node: str, config: Path, installed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = judge(capsys, installed, config, "--tolerations", ":", "--image-pull-secret", "default/none")
    assert said == "--image-pull-secret default/none: there is no such Secret in the cluster"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            ("--tolerations", "gpu=yes:Never"),
            '--tolerations gpu=yes:Never: no effect "Never"; there are NoSchedule, PreferNoSchedule, NoExecute',
        ),
        (
            ("--tolerations", "=yes:NoExecute"),
            (
                "--tolerations =yes:NoExecute: give key=value:Effect, key:Effect or key, as in gpu=yes:NoSchedule; "
                '":" tolerates everything'
            ),
        ),
        (
            ("--node-selector", "fast"),
            "--node-selector fast: give labels as key=value,key=value; fast is none",
        ),
        (
            ("--image-pull-secret", "name"),
            "--image-pull-secret name: give NAMESPACE/NAME of a Secret in the cluster",
        ),
        (("--timeout-factor", "0"), "--timeout-factor 0: must be greater than zero"),
        (
            ("--tier", "local"),
            "--tier and --kubeconfig exclude each other: the cluster is there, and as it is",
        ),
    ],
)
def test_options_that_make_no_sense(
    words: tuple[str, ...],
    text: str,
    config: Path,
    installed: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert judge(capsys, installed, config, *words) == text


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("--context", "a"), "--context"),
        (("--tolerations", "a"), "--tolerations"),
        (("--image-pull-secret", "a/b"), "--image-pull-secret"),
        (("--allow-disruptive",), "--allow-disruptive"),
    ],
)
def test_options_about_a_cluster_need_one(
    words: tuple[str, ...], option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(capsys, "conformance", REFERENCE, *words)
    assert said == f"{option} is about a cluster of yours: give its --kubeconfig as well"


def test_down_tells_the_same_mistakes(
    cluster: EmbeddedCluster, config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(capsys, "down", "--kubeconfig", tmp_path / "none")
    assert said == f"--kubeconfig {tmp_path / 'none'}: no such file"
    said = refused(capsys, "down", "--kubeconfig", config, "--run", "abcd")
    assert said == "--run abcd: no such run has anything on the cluster; there is none"
    said = refused(capsys, "down", "--kubeconfig", config, "--all")
    assert said.startswith("--kubeconfig is about a cluster of yours")
    said = refused(capsys, "down", "--run", "abcd")
    assert said == "--context and --run are about a cluster of yours: give its --kubeconfig as well"
