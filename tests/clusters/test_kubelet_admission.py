from __future__ import annotations

from typing import Any

import pytest
from kubelet_harness import NODE, bench, condition, container, run

from clusters.embedded.kubelet.pods.admission import admit
from clusters.embedded.kubelet.pods.qos import linux_resources, qos_class


def test_a_pod_that_does_not_fit_fails_with_the_amounts() -> None:
    async def scenario() -> None:
        async with bench(
            capacity={"cpu": "2", "memory": "1Gi", "pods": "10", "ephemeral-storage": "1Gi"}
        ) as made:
            half = container("c", resources={"requests": {"cpu": "1500m"}})
            await made.create("p", half)
            await made.ready("p")
            await made.create("q", half)
            found = await made.phase("q", "Failed")
            text = "Node didn't have enough resource: cpu, requested: 1500, used: 1500, capacity: 2000"
            assert found["status"]["reason"] == "OutOfcpu"
            assert found["status"]["message"] == f"Pod was rejected: {text}"
            event = await made.event("OutOfcpu", text)
            assert event["type"] == "Warning"
            assert len(await made.runtime.list_pod_sandboxes()) == 1
            await made.delete("q")
            await made.gone("q")
            # The room of a Pod that ended is free again.
            await made.delete("p")
            await made.gone("p")
            await made.create("r", half)
            await made.ready("r")

    run(scenario())


def test_a_pod_for_other_nodes_fails() -> None:
    async def scenario() -> None:
        async with bench() as made:
            await made.create("p", nodeSelector={"disk": "ssd"})
            found = await made.phase("p", "Failed")
            text = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
            assert (found["status"]["reason"], found["status"]["message"]) == (
                "NodeAffinity",
                f"Pod was rejected: {text}",
            )
            assert condition(found, "Ready")["status"] is None

    run(scenario())


def node(**status: Any) -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": NODE, "gpu": "yes", "count": "5"}
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "2", **status}
    return {"metadata": {"name": NODE, "labels": labels}, "spec": {}, "status": {"allocatable": allocatable}}


def pod(name: str = "p", requests: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "resources": {"requests": requests or {}}}]
    return {
        "metadata": {"name": name, "uid": name, "namespace": "default"},
        "spec": {"containers": containers, **spec},
    }


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("term", "allowed"),
    [
        (expression("gpu", "In", "yes"), True),
        (expression("gpu", "NotIn", "yes"), False),
        (expression("nosuch", "NotIn", "yes"), True),
        (expression("gpu", "Exists"), True),
        (expression("gpu", "DoesNotExist"), False),
        (expression("count", "Gt", "4"), True),
        (expression("count", "Lt", "5"), False),
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [NODE]}]}, True),
        ({}, False),
    ],
)
def test_required_affinity(term: dict[str, Any], allowed: bool) -> None:
    rejection = admit(pod(affinity=affinity(term)), [], node(), node_allocatable=False)
    assert (rejection is None) is allowed


def test_the_first_lack_is_told_pods_before_cpu() -> None:
    others = [pod("a"), pod("b")]
    rejection = admit(pod(requests={"cpu": "8"}), others, node(), node_allocatable=False)
    assert rejection is not None
    assert rejection.reason == "OutOfpods"
    assert rejection.message == "Node didn't have enough resource: pods, requested: 1, used: 2, capacity: 2"


def test_extended_resources_that_the_node_lacks_or_a_claim_provides_are_ignored() -> None:
    assert admit(pod(requests={"a.com/x": "1"}), [], node(), node_allocatable=False) is None
    full = node(**{"a.com/x": "0"})
    assert admit(pod(requests={"a.com/x": "1"}), [], full, node_allocatable=False) is not None
    mapped = pod(requests={"a.com/x": "1"})
    mapping = {"containerName": "c", "resourceName": "a.com/x", "requestName": "r"}
    mapped["status"] = {
        "extendedResourceClaimStatus": {"resourceClaimName": "x", "requestMappings": [mapping]}
    }
    assert admit(mapped, [], full, node_allocatable=False) is None


def test_only_taints_that_evict_count() -> None:
    tainted = node()
    tainted["spec"]["taints"] = [{"key": "k", "value": "v", "effect": "NoSchedule"}]
    assert admit(pod(), [], tainted, node_allocatable=False) is None
    tainted["spec"]["taints"] = [{"key": "k", "value": "v", "effect": "NoExecute"}]
    rejection = admit(pod(), [], tainted, node_allocatable=False)
    assert rejection is not None
    assert (
        rejection.message
        == "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"
    )
    tolerated = pod(tolerations=[{"key": "k", "operator": "Exists"}])
    assert admit(tolerated, [], tainted, node_allocatable=False) is None


def test_host_ports_are_taken_once() -> None:
    def with_port(name: str) -> dict[str, Any]:
        made = pod(name)
        made["spec"]["containers"][0]["ports"] = [{"hostPort": 80, "containerPort": 80, "protocol": "TCP"}]
        return made

    rejection = admit(with_port("a"), [with_port("b")], node(), node_allocatable=False)
    assert rejection is not None
    assert rejection.reason == "NodePorts"


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "0"}}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        # The API server makes limits requests too, before there is a class.
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Burstable"),
        (
            {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1024Mi"}},
            "Guaranteed",
        ),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Mi"}}, "Burstable"),
        ({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}, "Burstable"),
    ],
)
def test_quality_of_service(resources: dict[str, Any], expected: str) -> None:
    assert qos_class({"spec": {"containers": [{"name": "c", "resources": resources}]}}) == expected


def test_node_allocatable_claims_raise_declared_limits_only() -> None:
    """Limits 100Mi and 200m; the claim maps 500m and adds 7Mi of memory a Pod, 10Mi and 1Mi a container.

    100 + 7 + 10 + 1 = 118 MiB; 200m + 500m = 0.7 CPUs, a quota of 70000 of 100000 microseconds.
    """
    resources = {"limits": {"cpu": "200m", "memory": "100Mi"}}
    claimed = {
        "containers": ["c"],
        "mapping": [{"name": "cpu", "quantity": "500m"}, {"name": "memory", "quantity": "7Mi"}],
        "overhead": [{"name": "memory", "perPod": "10Mi", "perContainer": "1Mi"}],
    }
    made = {
        "spec": {"containers": [{"name": "c", "resources": resources}, {"name": "d"}]},
        "status": {"nodeAllocatableResourceClaimStatuses": [claimed]},
    }
    limits = linux_resources(made, made["spec"]["containers"][0], 32 << 30, node_allocatable=True)
    assert limits.memory_limit_in_bytes == 118 << 20
    assert (limits.cpu_quota, limits.cpu_period) == (70000, 100000)
    # 200m without the claim: 200 x 1024 / 1000
    assert limits.cpu_shares == 204
    free = linux_resources(made, made["spec"]["containers"][1], 32 << 30, node_allocatable=True)
    assert (free.memory_limit_in_bytes, free.cpu_quota, free.cpu_shares) == (0, 0, 2)
    off = linux_resources(made, made["spec"]["containers"][0], 32 << 30, node_allocatable=False)
    assert off.memory_limit_in_bytes == 100 << 20
