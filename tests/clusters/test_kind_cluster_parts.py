"""Parts of kind clusters that need neither a container engine nor kind."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters import feature_metrics
from clusters.interface import ClusterError
from clusters.kind import access, checks, components
from clusters.kind.bare import bare_manifest
from clusters.kind.components import StaticPod, Unit


class Node:
    """Stands for a node: writes down what is run in it, and answers."""

    def __init__(self, *failing: str, answer: str = "") -> None:
        self.failing = failing
        self.answer = answer
        self.ran: list[tuple[str, ...]] = []

    def __call__(self, *words: str, timeout: float = 0.0) -> str:
        self.ran.append(words)
        if any(word in words for word in self.failing):
            raise ClusterError(f"{words[0]} failed")
        return self.answer


def here(*words: str, timeout: float = 10.0) -> str:
    """Runs what is to run in a node on this machine."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode != 0:
        raise ClusterError(done.stderr)
    return done.stdout


def test_a_static_pod_stops_with_its_manifest_and_starts_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifests, aside = tmp_path / "manifests", tmp_path / "aside"
    monkeypatch.setattr(components, "MANIFESTS", str(manifests))
    monkeypatch.setattr(components, "ASIDE", str(aside))
    manifests.mkdir()
    (manifests / "drakit-test-pod.yaml").write_text("the manifest")
    pod = StaticPod("drakit-test-pod", here)
    assert not pod.running
    pod.stop()
    assert [path.name for path in aside.iterdir()] == ["drakit-test-pod.yaml"]
    assert not list(manifests.iterdir())
    with subprocess.Popen(["drakit-test-pod", "30"], executable="/bin/sleep") as process:
        pod.start()
        assert pod.running
        assert (manifests / "drakit-test-pod.yaml").read_text() == "the manifest"
        # Nothing answers to it here: only its death lets this end.
        pod.kill()
        assert process.wait() == -9
    assert not pod.running
    assert not list(manifests.iterdir())


def test_a_process_with_a_similar_name_is_another() -> None:
    with subprocess.Popen(["drakit-test-pod-2", "30"], executable="/bin/sleep") as process:
        assert not StaticPod("drakit-test-pod", here).running
        assert StaticPod("bare", here, process="drakit-test-pod-2").running
        process.kill()


def test_a_component_that_does_not_come_is_told() -> None:
    with pytest.raises(ClusterError, match="kube-scheduler does not start within 180 s: timeout failed"):
        StaticPod("kube-scheduler", Node("timeout")).start()


def test_a_killed_unit_is_not_started_again_by_systemd() -> None:
    node = Node()
    Unit("kubelet", node).kill()
    [words] = node.ran
    assert words[2].index("kill --signal=KILL") < words[2].index("systemctl stop")
    assert words[-1] == "kubelet"


def test_what_has_ended_is_asked_with_one_command_for_each_node() -> None:
    node = Node(answer="scheduler\nkubelet-n\n")
    found: dict[str, Any] = {
        "etcd": StaticPod("etcd", node),
        "scheduler": StaticPod("kube-scheduler", node),
        "kubelet-n": Unit("kubelet", node),
    }
    assert components.ended(node, found) == ["scheduler", "kubelet-n"]
    assert len(node.ran) == 1
    # A node that is gone has nothing that runs.
    assert components.ended(Node("sh"), found) == list(found)


def test_logs_follow_or_do_not() -> None:
    unit = Unit("kubelet", Node())
    assert "--follow" not in unit.log_command.once
    assert unit.log_command.follow == (*unit.log_command.once, "--follow")
    pod = StaticPod("etcd", Node()).log_command
    assert ("logs -f" in pod.follow[2], "logs -f" in pod.once[2]) == (True, False)
    assert pod.after("docker", "exec", "n").once[:4] == ("docker", "exec", "n", "sh")


METRICS = """# TYPE kubernetes_feature_enabled gauge
kubernetes_feature_enabled{name="DRADerivedAttributes",stage="ALPHA"} 1
kubernetes_feature_enabled{name="DRAListTypeAttributes",stage="ALPHA"} 0
kubernetes_feature_enabled{name="DRAAdminAccess",stage=""} 1
"""


class Api:
    """Stands for a client: text by path, API groups, and nothing else."""

    def __init__(self, *served: str, **texts: str) -> None:
        self.texts = {"/metrics": METRICS} | {
            f"/api/v1/nodes/{node}/proxy/metrics": text for node, text in texts.items()
        }
        self.served = served

    def text(self, path: str) -> str:
        return self.texts[path]

    def request(self, method: str, path: str) -> Any:
        return {"groups": [{"versions": [{"groupVersion": version} for version in self.served]}]}


def look_at_gates(wanted: dict[str, bool], **texts: str) -> None:
    api: Any = Api(**texts)
    checks.check_gates(api, wanted, list(texts))


def test_gates_are_read_from_metrics() -> None:
    assert feature_metrics.parse(METRICS) == {
        "DRADerivedAttributes": True,
        "DRAListTypeAttributes": False,
        "DRAAdminAccess": True,
    }


def test_a_gate_that_is_not_as_asked_for_is_told_with_its_component() -> None:
    look_at_gates({"DRADerivedAttributes": True, "DRAListTypeAttributes": False}, n1=METRICS)
    with pytest.raises(
        ClusterError, match="gate DRAListTypeAttributes should be on, and the API server says off"
    ):
        look_at_gates({"DRAListTypeAttributes": True})
    broken = METRICS.replace('Attributes",stage="ALPHA"} 1', 'Attributes",stage="ALPHA"} 0')
    with pytest.raises(
        ClusterError, match="DRADerivedAttributes should be on, and the kubelet of n2 says off"
    ):
        look_at_gates({"DRADerivedAttributes": True}, n1=METRICS, n2=broken)


def test_a_gate_that_nobody_knows_is_told() -> None:
    with pytest.raises(ClusterError, match="no component of the cluster knows the feature gates DRANew"):
        look_at_gates({"DRANew": True, "DRADerivedAttributes": True})


def test_an_api_version_that_is_not_served_is_told() -> None:
    api: Any = Api("resource.k8s.io/v1", "resource.k8s.io/v1beta1")
    checks.check_versions(
        api, {"resource.k8s.io/v1": True, "resource.k8s.io/v1alpha3": False, "api/all": True}
    )
    with pytest.raises(ClusterError, match=r"API version scheduling.k8s.io/v1beta1 is not served"):
        checks.check_versions(api, {"scheduling.k8s.io/v1beta1": True})
    with pytest.raises(ClusterError, match=r"API version resource.k8s.io/v1beta1 is served"):
        checks.check_versions(api, {"resource.k8s.io/v1beta1": False})


KUBEADM = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "kube-apiserver",
        "namespace": "kube-system",
        "labels": {"component": "kube-apiserver"},
    },
    "spec": {
        "hostNetwork": True,
        "containers": [
            {
                "name": "kube-apiserver",
                "image": "registry.k8s.io/kube-apiserver:v1.37.2",
                "command": [
                    "kube-apiserver",
                    "--etcd-servers=https://127.0.0.1:2379",
                    "--secure-port=6443",
                    "--feature-gates=DRADerivedAttributes=true",
                ],
                "livenessProbe": {"httpGet": {"port": "probe-port"}},
                "ports": [{"containerPort": 6443, "name": "probe-port"}],
                "resources": {"requests": {"cpu": "250m"}},
                "volumeMounts": [{"name": "k8s-certs", "mountPath": "/etc/kubernetes/pki"}],
            }
        ],
    },
}


def test_the_second_api_server_has_the_gates_of_the_first_and_objects_of_its_own() -> None:
    pod = yaml.safe_load(bare_manifest(yaml.safe_dump(KUBEADM), prefix="/drakit-1"))
    [container] = pod["spec"]["containers"]
    assert container["command"] == [
        "/usr/local/bin/kube-apiserver",
        "--etcd-servers=https://127.0.0.1:2379",
        "--feature-gates=DRADerivedAttributes=true",
        "--secure-port=6444",
        "--etcd-prefix=/drakit-1",
        "--endpoint-reconciler-type=none",
        "--disable-admission-plugins=ServiceAccount",
    ]
    assert pod["metadata"]["name"] == container["name"] == "kube-apiserver-bare"
    assert pod["metadata"]["labels"]["component"] != "kube-apiserver"
    assert not {"livenessProbe", "ports", "resources"} & container.keys()
    assert container["volumeMounts"] == [{"name": "k8s-certs", "mountPath": "/etc/kubernetes/pki"}]


def test_a_manifest_of_another_form_is_told() -> None:
    with pytest.raises(ClusterError, match="not as kubeadm writes it"):
        bare_manifest("kind: Pod", prefix="/x")


def test_the_server_is_read_from_what_kind_wrote(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    cluster = {"server": "https://127.0.0.1:41234", "certificate-authority-data": "cGVt"}
    file.write_text(yaml.safe_dump({"clusters": [{"name": "kind-x", "cluster": cluster}]}))
    assert access.read(file) == access.Server("https://127.0.0.1:41234", b"pem")
    file.write_text("clusters: []")
    with pytest.raises(ClusterError, match="kind wrote no kubeconfig that can be read"):
        access.read(file)


def test_a_node_tells_the_status_of_its_files(tmp_path: Path) -> None:
    from clusters.kind.node import stat_in

    for path in ("/dev/null", str(tmp_path)):
        found, expected = stat_in(here, path), Path(path).stat()
        assert tuple(found)[:7] == tuple(expected)[:7]
        assert found.st_rdev == expected.st_rdev
    with pytest.raises(FileNotFoundError, match="/nowhere"):
        stat_in(here, "/nowhere")
