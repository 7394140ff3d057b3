"""How objects are made on a cluster of the user's, and what can be told of it without touching it."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from typing import Any

import pytest

from clusters.client import ClientError
from clusters.existing import look
from clusters.existing.owner import Owner
from clusters.existing.settings import USUAL, Settings, parse_selector, parse_toleration
from clusters.interface import ClusterError

POD: dict[str, Any] = {
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {
        "nodeSelector": {"kubernetes.io/hostname": "node-1"},
        "initContainers": [{"name": "i", "image": "busybox"}],
        "containers": [{"name": "c", "image": "busybox"}],
    },
}
OURS = Settings(
    run="abcd",
    owner="me",
    node_selector={"disk": "fast"},
    tolerations=({"key": "gpu", "operator": "Exists"},),
    image="registry.example.com/probe:1",
    pull_secret="pull",
    restricted=True,
    hostnames={"node-1": "host-1"},
)


@pytest.mark.parametrize(
    ("text", "toleration"),
    [
        ("gpu=yes:NoSchedule", {"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}),
        ("gpu=:NoSchedule", {"key": "gpu", "operator": "Equal", "value": "", "effect": "NoSchedule"}),
        (
            "example.com/gpu:NoExecute",
            {"key": "example.com/gpu", "operator": "Exists", "effect": "NoExecute"},
        ),
        ("gpu=yes", {"key": "gpu", "operator": "Equal", "value": "yes"}),
        ("gpu", {"key": "gpu", "operator": "Exists"}),
        (":", {"operator": "Exists"}),
    ],
)
def test_tolerations_are_read(text: str, toleration: dict[str, str]) -> None:
    assert parse_toleration(text) == toleration


@pytest.mark.parametrize("text", ["", "gpu yes", "=yes", "gpu:Sometimes", "gpu=a b", "-gpu", "a/b/c"])
def test_what_is_no_toleration_is_refused(text: str) -> None:
    with pytest.raises(ClusterError, match="--tolerations"):
        parse_toleration(text)


def test_selectors_are_read() -> None:
    assert parse_selector("") == {}
    assert parse_selector("a=b,example.com/c=") == {"a": "b", "example.com/c": ""}
    with pytest.raises(ClusterError, match=r"--node-selector a=b,c: .*; c is none"):
        parse_selector("a=b,c")


@pytest.mark.parametrize(
    ("toleration", "taint", "tolerated"),
    [
        ("gpu=yes:NoSchedule", ("gpu", "yes", "NoSchedule"), True),
        ("gpu=no:NoSchedule", ("gpu", "yes", "NoSchedule"), False),
        ("gpu=yes:NoExecute", ("gpu", "yes", "NoSchedule"), False),
        ("gpu", ("gpu", "yes", "NoExecute"), True),
        ("other", ("gpu", "yes", "NoSchedule"), False),
        (":", ("gpu", "", "NoSchedule"), True),
        ("other", ("gpu", "", "PreferNoSchedule"), True),
    ],
)
def test_taints_are_tolerated_as_the_scheduler_does(
    toleration: str, taint: tuple[str, str, str], tolerated: bool
) -> None:
    settings = Settings(tolerations=(parse_toleration(toleration),))
    assert settings.tolerates(dict(zip(("key", "value", "effect"), taint, strict=True))) is tolerated


def test_pods_get_what_the_cluster_asks_for() -> None:
    given = copy.deepcopy(POD)
    spec = OURS.shaped(given)["spec"]
    assert given == POD
    assert spec["nodeSelector"] == {"disk": "fast", "kubernetes.io/hostname": "host-1"}
    assert spec["tolerations"] == [{"key": "gpu", "operator": "Exists"}]
    assert spec["imagePullSecrets"] == [{"name": "pull"}]
    assert spec["automountServiceAccountToken"] is False
    for container in spec["initContainers"] + spec["containers"]:
        assert (container["image"], container["imagePullPolicy"]) == (
            "registry.example.com/probe:1",
            "IfNotPresent",
        )


def test_pods_fit_the_level_restricted_of_pod_security() -> None:
    spec = OURS.shaped(POD)["spec"]
    security = spec["securityContext"]
    assert security["runAsNonRoot"] is True
    assert security["runAsUser"] != 0
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in spec["initContainers"] + spec["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
    # Nothing that already level baseline refuses.
    assert not {"hostNetwork", "hostPID", "hostIPC", "volumes"} & set(spec)


def test_templates_of_workloads_are_made_like_pods() -> None:
    deployment = {
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"template": {"spec": POD["spec"]}},
    }
    assert OURS.shaped(deployment)["spec"]["template"]["spec"] == OURS.shaped(POD)["spec"]


@pytest.mark.parametrize("kind", ["Namespace", "DeviceClass", "ResourceSlice"])
def test_what_has_no_namespace_tells_whose_it_is(kind: str) -> None:
    metadata = OURS.shaped({"kind": kind, "metadata": {"name": "x", "labels": {"a": "b"}}})["metadata"]
    assert metadata == {
        "name": "x",
        "labels": {"a": "b", "drakit.dev/run": "abcd"},
        "annotations": {"drakit.dev/owner": "me"},
    }


def test_claims_stay_as_tests_make_them_and_everything_does_on_our_clusters() -> None:
    claim = {"kind": "ResourceClaim", "metadata": {"name": "x"}, "spec": {}}
    assert OURS.shaped(claim) == claim
    assert USUAL.shaped(POD) == POD


def test_an_owner_knows_whether_it_lives() -> None:
    me = Owner.this()
    assert Owner.parse(str(me)) == me
    assert me.alive is True
    child = subprocess.run(
        [sys.executable, "-c", "from clusters.existing.owner import Owner; print(Owner.this())"],
        capture_output=True,
        check=True,
        text=True,
    )
    dead = Owner.parse(child.stdout.strip())
    assert dead is not None
    assert dead.alive is False
    # The number of this process, but of an earlier one.
    assert Owner(me.host, me.place, os.getpid(), me.started - 1).alive is False
    assert Owner("elsewhere", "other:pid:[1]", 1, 1).alive is None


@pytest.mark.parametrize("text", ["", "one two", "host place pid 1", "a b 1 2 3"])
def test_other_annotations_are_no_owners(text: str) -> None:
    assert Owner.parse(text) is None


class Api:
    """Answers by path; an error is raised."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {"/version": {"gitVersion": "v1.37.2"}, "/apis/resource.k8s.io/v1": {}, **answers}

    def request(self, method: str, path: str, timeout: float = 0.0) -> Any:
        answer = self.answers[path]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def text(self, path: str) -> str:
        return str(self.request("GET", path))


def api(**answers: Any) -> Any:
    """With answers at paths whose "/" are written as "_"."""
    return Api(**{key.replace("_", "/"): value for key, value in answers.items()})


@pytest.mark.parametrize(
    ("full", "minor"),
    [
        ("v1.37.2", "1.37"),
        ("v1.34.0-gke.1", "1.34"),
        ("v1.36.1+k3s1", "1.36"),
        # What is newer than all that is known is asked what the newest is.
        ("v1.41.0", "1.37"),
    ],
)
def test_versions_of_vendors_are_understood(full: str, minor: str) -> None:
    assert look.version(api(_version={"gitVersion": full})) == look.Version(full, minor)


@pytest.mark.parametrize(
    ("answers", "text"),
    [
        (
            {"/version": {"gitVersion": "v1.33.5"}},
            "the cluster is Kubernetes v1.33.5; drakit judges 1.34 and newer",
        ),
        (
            {"/version": []},
            "the server does not say which Kubernetes it is; is the address that of an API server?",
        ),
        (
            {"/apis/resource.k8s.io/v1": ClientError(404, "NotFound", "no")},
            (
                "the cluster (Kubernetes v1.37.2) does not serve resource.k8s.io/v1: let its API server do so "
                "(--runtime-config)"
            ),
        ),
    ],
)
def test_clusters_without_the_api_are_refused(answers: dict[str, Any], text: str) -> None:
    with pytest.raises(ClusterError) as error:
        look.version(Api(**answers))  # type: ignore[arg-type]
    assert str(error.value) == text


def test_gates_are_those_that_the_api_server_tells() -> None:
    metrics = (
        'kubernetes_feature_enabled{name="DRADeviceTaints",stage="BETA"} 0\n'
        'kubernetes_feature_enabled{name="SomethingElse",stage="ALPHA"} 1\n'
    )
    known, why = look.feature_gates(api(_metrics=metrics), "1.37")
    assert (known["DRADeviceTaints"], why) == (False, "")
    assert "SomethingElse" not in known


def test_without_metrics_only_locked_gates_are_known() -> None:
    known, why = look.feature_gates(api(_metrics=ClientError(403, "Forbidden", "no metrics for you")), "1.37")
    assert why == "the metrics of the API server cannot be read: no metrics for you"
    assert known["DRAAdminAccess"] is True
    assert "DRADeviceTaints" not in known
    assert (
        look.feature_gates(api(_metrics="up 1\n"), "1.37")[1] == "the metrics of the API server do not tell"
    )


def node(name: str, **more: Any) -> dict[str, Any]:
    status = {"conditions": [{"type": "Ready", "status": more.pop("ready", "True")}]}
    labels = {"kubernetes.io/hostname": name, **more.pop("labels", {})}
    return {"metadata": {"name": name, "labels": labels}, "spec": more, "status": status}


class Nodes:
    def __init__(self, *nodes: dict[str, Any]) -> None:
        self.nodes = nodes

    def list(self, *_: str) -> list[dict[str, Any]]:
        return list(self.nodes)


def test_nodes_are_those_where_pods_can_run() -> None:
    nodes: Any = Nodes(
        node("b"),
        node("a", labels={"kubernetes.io/hostname": "host-a"}),
        node("off", ready="Unknown"),
        node("cordoned", unschedulable=True),
        node("cp", taints=[{"key": "control-plane", "effect": "NoSchedule"}]),
        node("win", labels={"kubernetes.io/os": "windows"}),
        node("soft", taints=[{"key": "x", "effect": "PreferNoSchedule"}]),
    )
    found = look.fitting_nodes(nodes, Settings())
    assert [item["metadata"]["name"] for item in found] == ["a", "b", "soft"]
    assert look.hostnames(found) == {"a": "host-a"}
    everywhere = Settings(tolerations=(parse_toleration(":"),))
    assert [item["metadata"]["name"] for item in look.fitting_nodes(nodes, everywhere)] == [
        "a",
        "b",
        "cp",
        "soft",
    ]


def test_that_no_node_fits_is_told_with_the_reasons() -> None:
    nodes: Any = Nodes(node("off", ready="False"), node("cordoned", unschedulable=True))
    with pytest.raises(ClusterError) as error:
        look.fitting_nodes(nodes, Settings())
    assert "of 2: 1 cordoned, 1 not Ready; --node-selector" in str(error.value)
    with pytest.raises(ClusterError, match="of 0: none;"):
        look.fitting_nodes(Nodes(), Settings())  # type: ignore[arg-type]
