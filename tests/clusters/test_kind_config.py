"""What a ClusterSpec becomes in the words of kind. Expected documents are written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.gates import VERSIONS, GateError, all_on
from clusters.interface import ClusterError, ClusterSpec, NodeSpec
from clusters.kind import config

N1, N2, N3 = (Path(f"/tmp/drakit-x/n{number}") for number in (1, 2, 3))


def made(spec: ClusterSpec, *folders: Path, port: int = 0) -> dict[str, Any]:
    return config.kind_config(spec, "drakit-x", folders or (N1,), port=port)


def patches(document: dict[str, Any], kind: str, api: str = "") -> list[dict[str, Any]]:
    """The patches of a kind of document, those of a version of kubeadm's configuration alone."""
    found = [yaml.safe_load(text) for text in document.get("kubeadmConfigPatches", [])]
    return [patch for patch in found if patch["kind"] == kind and patch.get("apiVersion", api).endswith(api)]


def arguments(document: dict[str, Any], component: str) -> dict[str, str]:
    """Arguments in the older version; asserts that the newer one has the same as a list."""
    [old] = patches(document, "ClusterConfiguration", "v1beta3")
    [new] = patches(document, "ClusterConfiguration", "v1beta4")
    found: dict[str, str] = old[component]["extraArgs"]
    assert {pair["name"]: pair["value"] for pair in new[component]["extraArgs"]} == found
    return found


def test_one_node_is_the_control_plane_with_its_folder_at_the_same_path() -> None:
    document = made(ClusterSpec())
    assert document["apiVersion"] == "kind.x-k8s.io/v1alpha4"
    assert (document["kind"], document["name"]) == ("Cluster", "drakit-x")
    assert document["networking"] == {"apiServerAddress": "127.0.0.1"}
    assert document["nodes"] == [
        {
            "role": "control-plane",
            "extraMounts": [
                {"hostPath": "/tmp/drakit-x/n1", "containerPath": "/tmp/drakit-x/n1"},
                {"hostPath": "/tmp/drakit-x/n1/kreg", "containerPath": "/var/lib/kubelet/plugins_registry"},
                {"hostPath": "/tmp/drakit-x/n1/cdi", "containerPath": "/etc/cdi"},
            ],
            "extraPortMappings": [
                {"containerPort": 6444, "hostPort": 0, "listenAddress": "127.0.0.1", "protocol": "TCP"}
            ],
        }
    ]
    assert "featureGates" not in document
    assert "runtimeConfig" not in document


def test_every_host_is_fit_for_it() -> None:
    document = made(ClusterSpec())
    assert patches(document, "KubeletConfiguration") == [
        {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "failCgroupV1": False}
    ]
    assert document["containerdConfigPatches"] == [
        '[plugins."io.containerd.grpc.v1.cri"]\n  restrict_oom_score_adj = true\n'
    ]


@pytest.mark.parametrize("kind", ["InitConfiguration", "JoinConfiguration"])
def test_kubeadm_is_patient_where_it_can_be_told(kind: str) -> None:
    document = made(ClusterSpec(nodes=(NodeSpec(), NodeSpec())), N1, N2)
    [patch] = patches(document, kind)
    # v1beta3 has no such field.
    assert patch == {
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": kind,
        "timeouts": {"kubernetesAPICall": "4m0s"},
    }


def test_a_port_is_that_of_the_api_server() -> None:
    assert made(ClusterSpec(), port=7443)["networking"] == {
        "apiServerAddress": "127.0.0.1",
        "apiServerPort": 7443,
    }


def test_containers_are_called_as_kind_calls_them() -> None:
    assert config.container_names("c", 1) == ["c-control-plane"]
    assert config.container_names("c", 4) == ["c-control-plane", "c-worker", "c-worker2", "c-worker3"]


def test_further_nodes_are_workers_and_pods_run_on_the_first_one_as_well() -> None:
    document = made(ClusterSpec(nodes=(NodeSpec(), NodeSpec(), NodeSpec())), N1, N2, N3)
    assert [node["role"] for node in document["nodes"]] == ["control-plane", "worker", "worker"]
    assert [node["extraMounts"][0]["hostPath"] for node in document["nodes"]] == [str(N1), str(N2), str(N3)]
    first, second, _ = document["nodes"]
    assert patches(first, "InitConfiguration") == [
        {"kind": "InitConfiguration", "nodeRegistration": {"taints": []}}
    ]
    assert "kubeadmConfigPatches" not in second
    assert "extraPortMappings" not in second


def test_taints_and_labels_are_those_of_their_nodes() -> None:
    nodes = (
        NodeSpec(
            labels=(("example.com/rack", "a"), ("kubernetes.io/role", "x")),
            taints=(("a", "1", "NoSchedule"),),
        ),
        NodeSpec(taints=(("b", "", "NoExecute"),)),
    )
    first, second = made(ClusterSpec(nodes=nodes), N1, N2)["nodes"]
    # A kubelet may not give itself the other one.
    assert first["labels"] == {"example.com/rack": "a"}
    assert config.labels_of_administrators(nodes[0]) == {"kubernetes.io/role": "x"}
    assert patches(first, "InitConfiguration")[0]["nodeRegistration"]["taints"] == [
        {"key": "a", "value": "1", "effect": "NoSchedule"}
    ]
    assert patches(second, "JoinConfiguration")[0]["nodeRegistration"]["taints"] == [
        {"key": "b", "value": "", "effect": "NoExecute"}
    ]


def test_a_single_node_with_taints_keeps_the_one_that_kind_removes_itself() -> None:
    [node] = made(ClusterSpec(nodes=(NodeSpec(taints=(("a", "1", "NoSchedule"),)),)))["nodes"]
    assert patches(node, "InitConfiguration")[0]["nodeRegistration"]["taints"] == [
        {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"},
        {"key": "a", "value": "1", "effect": "NoSchedule"},
    ]


def test_pods_of_a_node_are_one_more_argument_of_its_kubelet() -> None:
    _, second = made(ClusterSpec(nodes=(NodeSpec(), NodeSpec(capacity=(("pods", "7"),)))), N1, N2)["nodes"]
    steps = {
        patch["version"]: (patch["group"], patch["kind"], yaml.safe_load(patch["patch"]))
        for patch in second["kubeadmConfigPatchesJSON6902"]
    }
    path = "/nodeRegistration/kubeletExtraArgs"
    assert steps == {
        "v1beta3": (
            "kubeadm.k8s.io",
            "JoinConfiguration",
            [{"op": "add", "path": f"{path}/max-pods", "value": "7"}],
        ),
        "v1beta4": (
            "kubeadm.k8s.io",
            "JoinConfiguration",
            [{"op": "add", "path": f"{path}/-", "value": {"name": "max-pods", "value": "7"}}],
        ),
    }


def test_what_is_the_machines_cannot_be_chosen() -> None:
    with pytest.raises(ClusterError, match="memory of this machine"):
        made(ClusterSpec(nodes=(NodeSpec(capacity=(("memory", "1Gi"),)),)))


def test_fields_of_a_kubelet_are_of_their_types_and_win() -> None:
    spec = ClusterSpec(
        kubelet=(
            ("maxPods", "5"),
            ("serializeImagePulls", "false"),
            ("syncFrequency", "10s"),
            ("failCgroupV1", "true"),
        )
    )
    [patch] = patches(made(spec), "KubeletConfiguration")
    assert patch["maxPods"] == 5
    assert patch["serializeImagePulls"] is False
    assert patch["syncFrequency"] == "10s"
    assert patch["failCgroupV1"] is True


def test_gates_bring_the_versions_that_they_need() -> None:
    document = made(ClusterSpec(gates=(("GenericWorkload", True), ("DRAResourcePoolStatus", True))))
    assert document["featureGates"] == {"DRAResourcePoolStatus": True, "GenericWorkload": True}
    assert document["runtimeConfig"] == {
        "resource.k8s.io/v1alpha3": "true",
        "scheduling.k8s.io/v1beta1": "true",
    }
    assert arguments(document, "controllerManager") == {
        "feature-gates": "DRAResourcePoolStatus=true,GenericWorkload=true",
        "enable-hostpath-provisioner": "true",
        "leader-elect": "false",
        "kube-api-qps": "200",
        "kube-api-burst": "400",
    }
    assert arguments(document, "scheduler") == {
        "feature-gates": "DRAResourcePoolStatus=true,GenericWorkload=true",
        "leader-elect": "false",
    }


def test_what_is_chosen_to_be_served_wins_over_what_gates_need() -> None:
    spec = ClusterSpec(
        gates=(("GenericWorkload", True),),
        runtime_config=(("scheduling.k8s.io/v1beta1", False), ("resource.k8s.io/v1beta1", True)),
    )
    assert made(spec)["runtimeConfig"] == {
        "resource.k8s.io/v1beta1": "true",
        "scheduling.k8s.io/v1beta1": "false",
    }


def test_locked_gates_are_left_out_and_what_depends_goes_off_with_what_it_needs() -> None:
    spec = ClusterSpec(gates=(("DRAExtendedResource", True), ("DRADeviceTaints", False)))
    assert made(spec)["featureGates"] == {"DRADeviceTaints": False, "DRADeviceTaintRules": False}


def test_unknown_gates_are_refused() -> None:
    with pytest.raises(GateError, match='did you mean "DRADeviceTaints"'):
        made(ClusterSpec(gates=(("DRADeviceTaint", True),)))
    with pytest.raises(GateError, match=r"in Kubernetes 1\.36; 1\.37 has it"):
        made(ClusterSpec(version="1.36", gates=(("DRADerivedAttributes", True),)))


@pytest.mark.parametrize("version", VERSIONS)
def test_every_gate_of_dra_can_be_on_in_every_version(version: str) -> None:
    document = made(ClusterSpec(version=version, gates=tuple(all_on(version).items())))
    assert document["featureGates"] == all_on(version)
    assert document["runtimeConfig"]["resource.k8s.io/v1alpha3"] == "true"


def test_a_scheduler_configuration_is_a_file_of_the_control_plane() -> None:
    spec = ClusterSpec(scheduler_config="profiles:\n- schedulerName: other\nclientConnection: {qps: 9}\n")
    document = made(spec)
    for api in ("v1beta3", "v1beta4"):
        [patch] = patches(document, "ClusterConfiguration", api)
        assert patch["scheduler"]["extraVolumes"] == [
            {
                "name": "configuration",
                "hostPath": "/tmp/drakit-x/n1/scheduler.yaml",
                "mountPath": "/etc/kubernetes/scheduler.yaml",
                "readOnly": True,
                "pathType": "File",
            }
        ]
    assert arguments(document, "scheduler")["config"] == "/etc/kubernetes/scheduler.yaml"
    [(path, text)] = config.files(spec, [N1]).items()
    assert path == Path("/tmp/drakit-x/n1/scheduler.yaml")
    assert yaml.safe_load(text) == {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "other"}],
        "clientConnection": {"qps": 9, "kubeconfig": "/etc/kubernetes/scheduler.conf"},
        "leaderElection": {"leaderElect": False},
    }


def test_without_a_scheduler_configuration_there_is_no_file() -> None:
    assert config.files(ClusterSpec(), [N1]) == {}


@pytest.mark.parametrize(
    ("text", "message"), [("a: [", "is no YAML"), ("- 1", "must be a KubeSchedulerConfiguration")]
)
def test_a_scheduler_configuration_that_is_none_is_refused(text: str, message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        config.files(ClusterSpec(scheduler_config=text), [N1])


def test_the_text_is_the_document() -> None:
    spec = ClusterSpec(gates=(("GenericWorkload", True),))
    assert yaml.safe_load(config.document(spec, "drakit-x", [N1])) == made(spec)
