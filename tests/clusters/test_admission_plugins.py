"""The admission plugins but NodeRestriction (api-machinery sections 5 and 20, api-validation 10.2)."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from memory_reader import MemoryReader

from clusters.api_status import ApiError
from clusters.embedded.apiserver.admission.chain import NAMES, Chain
from clusters.embedded.apiserver.admission.node_selector import matches
from clusters.embedded.apiserver.admission.plugin import Context
from clusters.embedded.apiserver.admission.request import CREATE, DELETE, UPDATE, Request
from clusters.embedded.apiserver.auth.authorizer import standard
from clusters.embedded.apiserver.auth.users import User

BOB = User("bob")
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"


@pytest.fixture
def reader() -> MemoryReader:
    reader = MemoryReader()
    reader.add("namespaces", "a", status={"phase": "Active"})
    reader.add("serviceaccounts", "default", namespace="a")
    return reader


def chain(reader: MemoryReader, *names: str, gates: frozenset[str] = frozenset()) -> Chain:
    return Chain(Context(reader, standard(reader), gates), enable=names or NAMES)


def pod(operation: str = CREATE, old: dict[str, Any] | None = None, **spec: Any) -> Request:
    obj = {"metadata": {"name": "p", "namespace": "a"}, "spec": spec}
    return Request(
        BOB, operation, "", "v1", "pods", "Pod", "a", "p", object=obj, old_object=old
    )  # fmt: skip


def admit(chain: Chain, request: Request) -> dict[str, Any]:
    chain.mutate(request)
    before = copy.deepcopy(request.object)
    chain.validate(request)
    assert request.object == before
    return request.new


def test_pod_gets_all_defaults(reader: MemoryReader) -> None:
    assert admit(chain(reader), pod())["spec"] == {
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
        "tolerations": [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for key in (NOT_READY, UNREACHABLE)
        ],
    }


@pytest.mark.parametrize(
    ("given", "added"),
    [
        ({"operator": "Exists"}, []),
        ({"key": NOT_READY, "operator": "Exists", "effect": "NoExecute"}, [UNREACHABLE]),
        ({"key": NOT_READY, "operator": "Exists", "effect": "NoSchedule"}, [NOT_READY, UNREACHABLE]),
        ({"key": "x", "operator": "Exists"}, [NOT_READY, UNREACHABLE]),
    ],
)
def test_present_tolerations_count(reader: MemoryReader, given: dict[str, str], added: list[str]) -> None:
    found = admit(chain(reader, "DefaultTolerationSeconds"), pod(tolerations=[given]))["spec"]["tolerations"]
    assert [item["key"] for item in found[1:]] == added


def test_status_writes_get_no_tolerations(reader: MemoryReader) -> None:
    request = pod(UPDATE)
    request.subresource = "status"
    assert admit(chain(reader), request)["spec"] == {}


def test_missing_service_account(reader: MemoryReader) -> None:
    with pytest.raises(ApiError) as caught:
        admit(chain(reader), pod(serviceAccountName="x"))
    assert caught.value.message == (
        'pods "p" is forbidden: error looking up service account a/x: serviceaccount "x" not found'
    )


PATH = "/var/run/secrets/kubernetes.io/serviceaccount"


def test_containers_mount_the_token_of_their_service_account(reader: MemoryReader) -> None:
    own = [{"name": "mine", "mountPath": PATH}]
    containers = [{"name": "c"}, {"name": "d", "volumeMounts": own}]
    spec = admit(chain(reader), pod(containers=containers, initContainers=[{"name": "i"}]))["spec"]
    [volume] = spec["volumes"]
    assert volume["name"][:-5] == "kube-api-access-"
    assert volume["projected"] == {
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
            {"downwardAPI": {"items": [
                {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}, "path": "namespace"}]}},
        ],
    }  # fmt: skip
    mount = [{"name": volume["name"], "readOnly": True, "mountPath": PATH}]
    assert [each["volumeMounts"] for each in (*spec["initContainers"], *spec["containers"])] == [
        mount,
        mount,
        own,
    ]


@pytest.mark.parametrize(
    ("account", "says", "mounted"),
    [
        (None, None, True),
        (False, None, False),
        (False, True, True),
        (None, False, False),
        (True, False, False),
    ],
)
def test_pod_and_service_account_may_want_no_token(
    reader: MemoryReader, account: bool | None, says: bool | None, mounted: bool
) -> None:
    reader.add("serviceaccounts", "sa", namespace="a", automountServiceAccountToken=account)
    spec = {"containers": [{"name": "c"}], "serviceAccountName": "sa", "automountServiceAccountToken": says}
    assert ("volumes" in admit(chain(reader), pod(**spec))["spec"]) == mounted


def test_a_volume_of_the_name_is_the_token_volume(reader: MemoryReader) -> None:
    volumes = [{"name": "kube-api-access-old", "emptyDir": {}}]
    spec = admit(chain(reader), pod(containers=[{"name": "c"}], volumes=volumes))["spec"]
    assert spec["volumes"] == volumes
    assert spec["containers"][0]["volumeMounts"][0]["name"] == "kube-api-access-old"


def test_pull_secrets_of_the_service_account(reader: MemoryReader) -> None:
    reader.add("serviceaccounts", "sa", namespace="a", imagePullSecrets=[{"name": "s"}])
    assert admit(chain(reader), pod(serviceAccountName="sa"))["spec"]["imagePullSecrets"] == [{"name": "s"}]
    own = admit(chain(reader), pod(serviceAccountName="sa", imagePullSecrets=[{"name": "o"}]))
    assert own["spec"]["imagePullSecrets"] == [{"name": "o"}]


def test_object_without_a_name_is_called_by_its_prefix(reader: MemoryReader) -> None:
    request = pod(serviceAccountName="x")
    request.name = ""
    request.new["metadata"] = {"generateName": "web-"}
    with pytest.raises(ApiError, match=r'^pods "web-" is forbidden'):
        admit(chain(reader), request)


def test_priority_comes_from_the_class(reader: MemoryReader) -> None:
    reader.add("priorityclasses", "high", group="scheduling.k8s.io", value=7, preemptionPolicy="Never")
    priority = chain(reader, "Priority")
    spec = admit(priority, pod(priorityClassName="high"))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (7, "Never")
    assert admit(priority, pod(priorityClassName="system-node-critical"))["spec"]["priority"] == 2000001000
    with pytest.raises(ApiError, match="no PriorityClass with name low was found"):
        admit(priority, pod(priorityClassName="low"))
    with pytest.raises(
        ApiError, match=r"the integer value of priority \(5\) must not be provided in pod spec"
    ):
        admit(priority, pod(priority=5))
    kept = admit(priority, pod(UPDATE, {"spec": {"priority": 3, "preemptionPolicy": "Never"}}))["spec"]
    assert kept == {"priority": 3, "preemptionPolicy": "Never"}


def test_new_nodes_are_tainted_once(reader: MemoryReader) -> None:
    request = Request(BOB, CREATE, "", "v1", "nodes", "Node", name="n", object={"metadata": {"name": "n"}})
    node = admit(chain(reader), request)
    assert node["spec"]["taints"] == [{"key": NOT_READY, "effect": "NoSchedule"}]
    assert admit(chain(reader), request)["spec"]["taints"] == [{"key": NOT_READY, "effect": "NoSchedule"}]


def config_map(namespace: str) -> Request:
    obj = {"metadata": {"name": "c"}}
    return Request(BOB, CREATE, "", "v1", "configmaps", "ConfigMap", namespace, "c", object=obj)


def test_namespace_must_exist(reader: MemoryReader) -> None:
    with pytest.raises(ApiError) as caught:
        admit(chain(reader), config_map("nowhere"))
    assert caught.value.code == 404
    assert caught.value.message == 'namespaces "nowhere" not found'
    assert caught.value.details == {"name": "nowhere", "kind": "namespaces"}
    admit(chain(reader), config_map("a"))


def test_nothing_new_in_a_terminating_namespace(reader: MemoryReader) -> None:
    reader.add("namespaces", "b", status={"phase": "Terminating"})
    with pytest.raises(ApiError) as caught:
        admit(chain(reader), config_map("b"))
    assert caught.value.status() == {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": 'configmaps "c" is forbidden: unable to create new content in namespace b because it is '
        "being terminated",
        "reason": "Forbidden",
        "details": {
            "name": "c", "kind": "configmaps",
            "causes": [{
                "reason": "NamespaceTerminating", "message": "namespace b is being terminated",
                "field": "metadata.namespace",
            }],
        },
        "code": 403,
    }  # fmt: skip
    request = config_map("b")
    request.operation = UPDATE
    admit(chain(reader), request)


def test_basic_namespaces_stay(reader: MemoryReader) -> None:
    for name, fine in (("default", False), ("kube-system", False), ("a", True)):
        request = Request(BOB, DELETE, "", "v1", "namespaces", "Namespace", name, name, old_object={})
        if fine:
            admit(chain(reader), request)
        else:
            with pytest.raises(ApiError, match="this namespace may not be deleted"):
                admit(chain(reader), request)


GATE = frozenset({"DRANodeAllocatableResources"})


def slice_request(**spec: Any) -> Request:
    obj = {"metadata": {"name": "s"}, "spec": spec}
    return Request(
        BOB, CREATE, "resource.k8s.io", "v1", "resourceslices", "ResourceSlice", name="s", object=obj
    )  # fmt: skip


DEVICE = {"name": "d", "nodeAllocatableResources": [{}]}


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"nodeName": "good", "devices": [DEVICE]}, None),
        (
            {"nodeName": "old", "devices": [DEVICE]},
            'node "old" does not support DRANodeAllocatableResources feature',
        ),
        ({"nodeName": "gone", "devices": [DEVICE]}, 'node "gone" not found for device "d"'),
        ({"nodeName": "gone", "devices": [{"name": "plain"}]}, None),
        (
            {"allNodes": True, "devices": [DEVICE]},
            'node "old" does not support DRANodeAllocatableResources feature',
        ),
        ({"nodeSelector": {"nodeSelectorTerms": []}, "devices": [DEVICE]}, None),
        ({"perDeviceNodeSelection": True, "devices": [{**DEVICE, "nodeName": "good"}]}, None),
    ],
)
def test_nodes_must_declare_the_feature(
    reader: MemoryReader, spec: dict[str, Any], problem: str | None
) -> None:
    reader.add("nodes", "good", status={"declaredFeatures": ["DRANodeAllocatableResources"]})
    reader.add("nodes", "old")
    admit(chain(reader), slice_request(**spec))
    if problem is None:
        admit(chain(reader, gates=GATE), slice_request(**spec))
    else:
        with pytest.raises(ApiError) as caught:
            admit(chain(reader, gates=GATE), slice_request(**spec))
        assert (caught.value.code, caught.value.message) == (
            403, f'resourceslices.resource.k8s.io "s" is forbidden: {problem}',
        )  # fmt: skip


@pytest.mark.parametrize(
    ("requirement", "selected"),
    [
        ({"key": "gpu", "operator": "In", "values": ["a", "b"]}, True),
        ({"key": "gpu", "operator": "NotIn", "values": ["a"]}, False),
        ({"key": "other", "operator": "NotIn", "values": ["a"]}, True),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "operator": "DoesNotExist"}, False),
        ({"key": "count", "operator": "Gt", "values": ["3"]}, True),
        ({"key": "count", "operator": "Lt", "values": ["4"]}, False),
        ({"key": "gpu", "operator": "Gt", "values": ["3"]}, False),
    ],
)
def test_node_selector_operators(requirement: dict[str, Any], selected: bool) -> None:
    node = {"metadata": {"name": "n", "labels": {"gpu": "a", "count": "4"}}}
    assert matches({"nodeSelectorTerms": [{}, {"matchExpressions": [requirement]}]}, node) is selected


def test_plugins_can_be_chosen(reader: MemoryReader) -> None:
    context = Context(reader, standard(reader))
    assert admit(Chain(context, disable=NAMES), pod())["spec"] == {}
    with pytest.raises(ValueError, match="unknown admission plugin 'Nope'; known: NamespaceLifecycle, "):
        Chain(context, enable=["Nope"])
