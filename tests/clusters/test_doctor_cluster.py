"""Every fault that `drakit doctor --kubeconfig` looks for is made on an API server, with objects as real ones have."""

from __future__ import annotations

from typing import Any

import pytest
from doctor_cluster_scene import (
    CHECKS,
    FAULT,
    RESOURCE,
    UNKNOWN,
    WARNING,
    Act,
    Kubelet,
    Scene,
    applied_pod,
    applied_slice,
    bound_pod,
    cpu_driver,
    different_gates,
    earlier_node,
    ended_pod,
    held,
    kubelet,
    no_pod,
    older,
    plugin,
    runtime,
    scene,
    twice,
    unschedulable,
    used_claim,
    waiting,
    want,
)

from clusters.doctor.cluster.checks import CLUSTER_CHECKS
from clusters.doctor.model import State, Wanted
from clusters.embedded.cluster import EmbeddedCluster
from clusters.interface import ClusterSpec, NodeSpec

V1_OFF = {"runtime_config": ((RESOURCE, False),)}
V1BETA1 = {"runtime_config": ((RESOURCE, False), ("resource.k8s.io/v1beta1", True))}
SELECTOR = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["a"]}]}]}
MAPPED = {
    "capacity": {"cores": {"value": "4"}},
    "nodeAllocatableResources": {"cpu": {"mapping": {"capacityKey": "cores", "capacityMultiplier": "1"}}},
}

# Check, the cluster, what is made in it, and the problem: its state, where it is, and a part of what was seen.
PROVOKED: list[tuple[str, dict[str, Any], Act, State, str, str]] = [
    ("api-versions", V1_OFF, lambda s: None, FAULT, "kube-apiserver", "serves no version of resource.k8s.io"),
    ("api-versions", V1BETA1, lambda s: None, WARNING, "kube-apiserver", "and not resource.k8s.io/v1"),
    (
        "gates-agree",
        {},
        different_gates,
        FAULT,
        "gate DRAListTypeAttributes",
        "on in kubelet of n2, off in kube-apiserver, kubelet of n1",
    ),
    (
        "gates-agree",
        {},
        lambda s: s.node(),
        UNKNOWN,
        "gates",
        "not known of kube-scheduler (no Pod of it can be seen)",
    ),
    (
        "gates-wanted",
        {},
        want("DRAListTypeAttributes=true"),
        FAULT,
        "gate DRAListTypeAttributes",
        "not on in kube-apiserver",
    ),
    ("gates-wanted", {}, want("DRADeviceTaint=true"), FAULT, "gate DRADeviceTaint", "does not have it"),
    ("gates-wanted", {}, want("DRADeviceTaints"), FAULT, "--feature-gates", "missing bool value"),
    (
        "gates-api",
        {"gates": (("DRAResourcePoolStatus", True),)},
        lambda s: None,
        FAULT,
        "gate DRAResourcePoolStatus",
        "resource.k8s.io/v1alpha3 is not served",
    ),
    ("kubelet-known-bad", {}, kubelet("v1.34.1-eks-1"), FAULT, "node n1", "kubernetes/kubernetes#133920"),
    (
        "kubelet-skew",
        {},
        kubelet("v1.33.0"),
        FAULT,
        "node n1",
        "v1.33.0 is too old for the API server v1.37.2",
    ),
    ("kubelet-skew", {}, kubelet("v1.38.0"), FAULT, "node n1", "v1.38.0 is newer than the API server"),
    (
        "node-ready",
        {},
        lambda s: (s.node(ready="False"), s.slice("s1")),
        WARNING,
        "node n1",
        "because; there are",
    ),
    ("runtime-cdi", {}, runtime("containerd://1.6.9"), FAULT, "node n1", "containerd 1.6.9 knows no CDI"),
    (
        "runtime-cdi",
        {},
        runtime("containerd://1.7.27-0ubuntu1"),
        WARNING,
        "node n1",
        "unless enable_cdi is set",
    ),
    ("runtime-cdi", {}, runtime("cri-o://1.22.0"), FAULT, "node n1", "CRI-O 1.22.0 knows no CDI"),
    ("runtime-cdi", {}, runtime("docker://28.3.0"), WARNING, "node n1", "Docker 28.3.0 by cri-dockerd"),
    ("runtime-cdi", {}, runtime("other://1.0.0"), UNKNOWN, "node n1", "whether other 1.0.0 knows CDI"),
    ("runtime-cdi", {}, runtime(""), UNKNOWN, "node n1", "does not tell its container runtime"),
    (
        "static-cpu-manager",
        {},
        cpu_driver({}, "dra.cpu", cpuManagerPolicy="static"),
        FAULT,
        "node n1",
        "dra.cpu hands out processors, and so does the kubelet",
    ),
    (
        "static-cpu-manager",
        {"gates": (("DRANodeAllocatableResources", True),)},
        cpu_driver(MAPPED, cpuManagerPolicy="static"),
        FAULT,
        "node n1",
        "dra.example.com hands out processors, and so does the kubelet",
    ),
    ("static-cpu-manager", {}, cpu_driver({}, "dra.cpu"), UNKNOWN, "node n1", "the kubelet cannot be read"),
    (
        "two-owners-plugin",
        {},
        plugin("example.com/gpu"),
        FAULT,
        "node n1",
        "and driver gpu.example.com",
    ),
    ("two-owners-plugin", {}, plugin("gpu.example.com/card"), FAULT, "node n1", "gpu.example.com/card (2)"),
    ("two-owners-plugin", {}, plugin("example.com/nic"), WARNING, "node n1", "are these other devices?"),
    (
        "two-owners-slices",
        {},
        twice("resource.kubernetes.io/pciBusID", ("0000:3B:00.0", "0000:3b:00.0"), pool={"name": "v"}),
        FAULT,
        "node n1",
        "0000:3b:00.0 is published twice: gpu-0 in pool n1 of gpu.example.com, fn-0 in pool v of vfio.example.com",
    ),
    (
        "two-owners-slices",
        {},
        twice("uuid", ("GPU-1", "GPU-1"), driver="gpu.example.com", pool={"name": "other"}),
        FAULT,
        "node n1",
        "uuid gpu-1 is published twice: gpu-0 in pool n1 of gpu.example.com, fn-0 in pool other of gpu.example.com",
    ),
    (
        "stale-slices",
        {},
        lambda s: s.slice("s1"),
        WARNING,
        "slice s1",
        "it is of node n1, which there is not",
    ),
    ("stale-slices", {}, earlier_node, WARNING, "slice s1", "it belongs to an earlier node n1"),
    ("stale-slices", {}, older, WARNING, "slice s1", "is at generation 2, and this is of 1"),
    (
        "pools-complete",
        {},
        lambda s: s.slice("s1", pool={"resourceSliceCount": 2}),
        FAULT,
        "pool n1 of gpu.example.com",
        "1 of 2 slices are there",
    ),
    (
        "pools-complete",
        {},
        lambda s: (s.slice("s1", pool={"resourceSliceCount": 2}), s.slice("s2", [{"name": "gpu-1"}])),
        FAULT,
        "pool n1 of gpu.example.com",
        "different numbers of slices: 1, 2",
    ),
    (
        "pools-complete",
        {},
        lambda s: [s.slice(name, pool={"resourceSliceCount": 2}) for name in ("s1", "s2")],
        FAULT,
        "pool n1 of gpu.example.com",
        "gpu-0 is in it twice",
    ),
    (
        "pools-empty",
        {},
        lambda s: s.slice("s1", []),
        WARNING,
        "pool n1 of gpu.example.com",
        "it has no devices",
    ),
    (
        "claim-devices",
        {},
        lambda s: s.allocated(),
        FAULT,
        "claim default/c1",
        "and its pool is published no more",
    ),
    (
        "claim-devices",
        {},
        lambda s: (s.slice("s1"), s.allocated(device="gpu-7")),
        FAULT,
        "claim default/c1",
        "it has gpu-7 in pool n1 of gpu.example.com, and it is published no more",
    ),
    (
        "claim-reserved",
        {},
        no_pod,
        WARNING,
        "claim default/c1",
        "reserved for Pod p1, and there is no such Pod",
    ),
    ("claim-reserved", {}, ended_pod, WARNING, "claim default/c1", "reserved for Pod p1, and it has ended"),
    (
        "pod-pending",
        {},
        waiting(claim={"resourceClaimTemplateName": "t"}),
        FAULT,
        "Pod default/p1",
        "Pending for 10 minutes, and there is no claim for gpu",
    ),
    (
        "pod-pending",
        {},
        unschedulable,
        WARNING,
        "Pod default/p1",
        "minutes: 0/1 nodes: cannot allocate all claims",
    ),
    (
        "pod-pending",
        {},
        lambda s: (bound_pod(s), setattr(s, "later", 600)),
        WARNING,
        "Pod default/p1",
        "on node n1",
    ),
    (
        "deletion-blocked",
        {},
        held(lambda s: s.claim(finalizers=["example.com/hold"]), "resourceclaims"),
        FAULT,
        "claim default/c1",
        "it should be gone for 10 minutes; finalizers hold it: example.com/hold",
    ),
    (
        "deletion-blocked",
        {},
        held(used_claim, "resourceclaims"),
        FAULT,
        "claim default/c1",
        "it is reserved for p1",
    ),
    (
        "deletion-blocked",
        {},
        held(lambda s: s.slice("s1", metadata={"finalizers": ["example.com/hold"]}), "resourceslices"),
        FAULT,
        "slice s1",
        "finalizers hold it: example.com/hold",
    ),
    (
        "deletion-blocked",
        {},
        held(bound_pod, "pods", "v1"),
        FAULT,
        "Pod default/p1",
        "the kubelet of node n1 does not",
    ),
    (
        "dropped-fields",
        {"gates": (("DRADeviceTaints", False),)},
        applied_slice,
        FAULT,
        "slice s1",
        "the API server dropped spec.devices[0].taints",
    ),
    ("dropped-fields", {}, applied_pod, FAULT, "Pod default/p1", "dropped spec.resourceClaims[0].source"),
]


@pytest.mark.parametrize(
    ("check", "spec", "act", "state", "where", "seen"),
    PROVOKED,
    ids=[f"{row[0]}-{row[5][:24]}" for row in PROVOKED],
)
def test_what_is_wrong_is_found(check: str, spec: Any, act: Act, state: State, where: str, seen: str) -> None:
    with scene(**spec) as found:
        act(found)
        problems = found.find(check)
    matching = [item for item in problems if (item.state, item.where) == (state, where) and seen in item.seen]
    assert len(matching) == 1, problems
    assert matching[0].remedy or state is UNKNOWN


def test_every_check_is_provoked() -> None:
    assert set(CHECKS) == {row[0] for row in PROVOKED}


def test_a_cluster_in_use_has_no_problem_but_what_nobody_can_see() -> None:
    with EmbeddedCluster(ClusterSpec(nodes=(NodeSpec("n1"),))) as cluster:
        cluster.wait_ready()
        made = Scene(cluster)
        made.slice("s1", pool={"name": "p"})
        found = {check.id: check.run(made.snapshot(), Wanted()) for check in CLUSTER_CHECKS}
    assert {name: problems for name, problems in found.items() if problems and name != "gates-agree"} == {}
    [problem] = found["gates-agree"]
    assert (problem.state, "kube-scheduler" in problem.seen, "kubelet" in problem.seen) == (
        UNKNOWN,
        True,
        False,
    )


def test_healthy_neighbours_are_not_accused() -> None:
    """Partitions share the address of their card, and resources of another vendor are another's business."""
    address = {"resource.kubernetes.io/pciBusID": {"string": "0000:3b:00.0"}}
    with scene() as found:
        amounts = {"example.org/gpu": "4", "hugepages-2Mi": "0", "example.com/gpu": "0", "cpu": "8"}
        found.node(allocatable=amounts, capacity=amounts)
        found.slice("s1", [{"name": f"part-{number}", "attributes": address} for number in range(2)])
        # The same address on another node is another card.
        found.slice("s2", [{"name": "gpu-0", "attributes": address}], nodeName="n2", pool={"name": "n2"})
        snapshot = found.snapshot()
    for check in ("two-owners-plugin", "two-owners-slices", "pools-complete", "pools-empty"):
        assert CHECKS[check].run(snapshot, Wanted()) == []


def test_what_goes_by_in_a_moment_is_not_told() -> None:
    with scene() as found:
        held(lambda s: s.claim(finalizers=["example.com/hold"]), "resourceclaims")(found)
        found.pod(claim={"resourceClaimTemplateName": "t"})
        found.later = 30
        snapshot = found.snapshot()
    assert [CHECKS[name].run(snapshot, Wanted()) for name in ("deletion-blocked", "pod-pending")] == [[], []]


def test_nothing_is_changed() -> None:
    with scene() as found:
        found.node(kubelet=Kubelet())
        found.slice("s1")
        before = found.client.request("GET", "/api/v1/nodes")
        calls: list[str] = []
        real = found.client._send

        def record(method: str, *words: Any, **more: Any) -> Any:
            calls.append(method)
            return real(method, *words, **more)

        found.client._send = record  # type: ignore[method-assign]
        found.snapshot()
        assert set(calls) == {"GET"}
        assert found.client.request("GET", "/api/v1/nodes") == before
