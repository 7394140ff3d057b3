from __future__ import annotations

from typing import Any

import pytest

from dra_api.defaults_core import apply_core_defaults
from dra_api.defaults_pod_level import qos_class


def defaulted(obj: dict[str, Any]) -> dict[str, Any]:
    apply_core_defaults(obj)
    return obj


def test_pods() -> None:
    pod = defaulted({"kind": "Pod", "spec": {"containers": [{"name": "c", "image": "busybox"}]}})
    assert pod["spec"] == {
        "containers": [
            {
                "name": "c",
                "image": "busybox",
                "imagePullPolicy": "Always",
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "resources": {},
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
        "securityContext": {},
    }


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("a", "Always"),
        ("a:latest", "Always"),
        ("host:5000/a", "Always"),
        ("a:1", "IfNotPresent"),
        ("a@sha256:0", "IfNotPresent"),
    ],
)
def test_untagged_and_latest_images_are_always_pulled(image: str, policy: str) -> None:
    pod = defaulted({"kind": "Pod", "spec": {"containers": [{"name": "c", "image": image}]}})
    assert pod["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_requests_follow_limits_and_are_kept_in_thousandths() -> None:
    resources = {"limits": {"cpu": "0.0005", "memory": "1Gi"}, "requests": {"memory": "1Mi"}}
    pod = defaulted({"kind": "Pod", "spec": {"containers": [{"name": "c", "resources": resources}]}})
    # 0.0005 = 500u, rounded up to 1m
    assert pod["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "1m", "memory": "1Gi"},
        "requests": {"cpu": "1m", "memory": "1Mi"},
    }


def test_volumes_probes_and_references() -> None:
    container = {
        "name": "c",
        "livenessProbe": {"httpGet": {"port": 1}},
        "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "ports": [{"containerPort": 80}],
    }
    volumes = [
        {"name": "v"},
        {"name": "h", "hostPath": {"path": "/"}},
        {"name": "s", "secret": {"secretName": "s"}},
    ]
    spec = defaulted({"kind": "Pod", "spec": {"containers": [container], "volumes": volumes}})["spec"]
    assert spec["volumes"] == [
        {"name": "v", "emptyDir": {}},
        {"name": "h", "hostPath": {"path": "/", "type": ""}},
        {"name": "s", "secret": {"secretName": "s", "defaultMode": 420}},
    ]
    probe = spec["containers"][0]["livenessProbe"]
    assert (probe["periodSeconds"], probe["httpGet"]["path"], probe["httpGet"]["scheme"]) == (10, "/", "HTTP")
    assert spec["containers"][0]["env"][0]["valueFrom"]["fieldRef"]["apiVersion"] == "v1"
    assert spec["containers"][0]["ports"][0]["protocol"] == "TCP"


def test_a_negative_grace_period_is_one_second() -> None:
    pod = defaulted({"kind": "Pod", "spec": {"terminationGracePeriodSeconds": -5}})
    assert pod["spec"]["terminationGracePeriodSeconds"] == 1


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": {"example.com/gpu": "1"}}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        (
            {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1Gi"}},
            "Guaranteed",
        ),
        (
            {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}},
            "Burstable",
        ),
    ],
)
def test_quality_of_service(resources: dict[str, Any], expected: str) -> None:
    assert qos_class({"containers": [{"name": "c", "resources": resources}]}) == expected


def test_nodes_can_allocate_what_they_have() -> None:
    node = defaulted({"kind": "Node", "status": {"capacity": {"cpu": "4"}}})
    assert node["status"]["allocatable"] == {"cpu": "4"}
    kept = defaulted({"kind": "Node", "status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3"}}})
    assert kept["status"]["allocatable"] == {"cpu": "3"}


def test_namespaces_are_labelled_and_active() -> None:
    namespace = defaulted({"kind": "Namespace", "metadata": {"name": "n"}})
    assert namespace["metadata"]["labels"] == {"kubernetes.io/metadata.name": "n"}
    assert namespace["status"] == {"phase": "Active"}
    assert "labels" not in defaulted({"kind": "Namespace", "metadata": {"generateName": "n"}})["metadata"]


def test_secrets_are_opaque_and_plain_text_is_encoded() -> None:
    secret = defaulted({"kind": "Secret", "data": {"a": "QQ=="}, "stringData": {"a": "B"}})
    assert secret == {"kind": "Secret", "type": "Opaque", "data": {"a": "Qg=="}}


def test_bindings_know_the_group_of_roles_and_users() -> None:
    binding = defaulted({"kind": "RoleBinding", "subjects": [{"kind": "User"}, {"kind": "ServiceAccount"}]})
    assert binding["roleRef"]["apiGroup"] == binding["subjects"][0]["apiGroup"] == "rbac.authorization.k8s.io"
    assert "apiGroup" not in binding["subjects"][1]


def test_other_kinds_stay_as_they_are() -> None:
    assert defaulted({"kind": "Lease", "spec": {}}) == {"kind": "Lease", "spec": {}}
