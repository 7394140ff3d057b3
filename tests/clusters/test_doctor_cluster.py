"""Every fault that `drakit doctor --kubeconfig` looks for is made on an API server, with objects as real ones have."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from clusters import feature_metrics, gates, tls
from clusters.client import Client, ClientError
from clusters.doctor.cluster.checks import CLUSTER_CHECKS
from clusters.doctor.cluster.gate_checks import table
from clusters.doctor.cluster.model import Problem
from clusters.doctor.cluster.snapshot import Snapshot, Values, from_flags, read
from clusters.doctor.model import State, Wanted
from clusters.embedded.cluster import EmbeddedCluster
from clusters.interface import ClusterSpec, NodeSpec

RESOURCE = "resource.k8s.io/v1"
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
CHECKS = {check.id: check for check in CLUSTER_CHECKS}


class Kubelet:
    """What a kubelet answers to its API server at two paths, over TLS."""

    def __init__(self, values: dict[str, bool] | None = None, **configuration: str) -> None:
        texts = {
            "/metrics": feature_metrics.text(values or {}),
            "/configz": json.dumps({"kubeletconfig": configuration}),
        }

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = texts.get(self.path, "").encode()
                self.send_response(200 if body else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *words: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = tls.generate("127.0.0.1").server_context()
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@dataclass
class Scene:
    """An API server alone, on which a test makes nodes, slices, claims and Pods by hand."""

    cluster: EmbeddedCluster
    later: float = 0.0
    wanted: Wanted = field(default_factory=Wanted)
    stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    @property
    def client(self) -> Client:
        return self.cluster.client()

    def node(
        self, name: str = "n1", *, kubelet: Kubelet | None = None, ready: str = "True", **status: Any
    ) -> Any:
        made = self.client.create("v1", "nodes", {"metadata": {"name": name}})
        info = {"kubeletVersion": "v1.37.2", "containerRuntimeVersion": "containerd://2.1.4"}
        made["status"] = {
            "nodeInfo": {**_EMPTY_INFO, **info, **status.pop("info", {})},
            "conditions": [{"type": "Ready", "status": ready, "message": "because"}],
            **status,
        }
        if kubelet is not None:
            self.stack.callback(kubelet.close)
            made["status"]["addresses"] = [{"type": "InternalIP", "address": "127.0.0.1"}]
            made["status"]["daemonEndpoints"] = {"kubeletEndpoint": {"Port": kubelet.port}}
        return self.client.update("v1", "nodes", made, "status")

    def slice(self, name: str, devices: Sequence[Any] = ({"name": "gpu-0"},), **spec: Any) -> Any:
        pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1, **spec.pop("pool", {})}
        body = {
            "apiVersion": RESOURCE,
            "kind": "ResourceSlice",
            "metadata": {"name": name, **spec.pop("metadata", {})},
            "spec": {
                "driver": "gpu.example.com",
                "nodeName": "n1",
                "pool": pool,
                "devices": list(devices),
                **spec,
            },
        }
        return self.client.create(RESOURCE, "resourceslices", body)

    def claim(self, name: str = "c1", **meta: Any) -> Any:
        request = {"name": "r", "exactly": {"deviceClassName": "gpu.example.com"}}
        body = {"metadata": {"name": name, **meta}, "spec": {"devices": {"requests": [request]}}}
        return self.client.create(RESOURCE, "resourceclaims", body, "default")

    def allocated(
        self, name: str = "c1", *, device: str = "gpu-0", users: Sequence[Any] = (), **meta: Any
    ) -> Any:
        made = self.claim(name, **meta)
        result = {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": device}
        made["status"] = {"allocation": {"devices": {"results": [result]}}, "reservedFor": list(users)}
        return self.client.update(RESOURCE, "resourceclaims", made, "status")

    def pod(self, name: str = "p1", claim: Any = None, status: Any = None, **meta: Any) -> Any:
        uses = {"name": "gpu", **(claim or {"resourceClaimName": "c1"})}
        spec = {"containers": [{"name": "a", "image": "probe:1"}], "resourceClaims": [uses]}
        made = self.client.create("v1", "pods", {"metadata": {"name": name, **meta}, "spec": spec}, "default")
        if status is not None:
            made["status"] = {**made["status"], **status}
            made = self.client.update("v1", "pods", made, "status")
        return made

    def user(self, pod: Any) -> Any:
        return {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}

    def snapshot(self) -> Snapshot:
        return read(self.client, clock=lambda: time.time() + self.later)

    def find(self, check: str) -> Sequence[Problem]:
        return CHECKS[check].run(self.snapshot(), self.wanted)


_EMPTY_INFO = dict.fromkeys(
    (
        "architecture",
        "bootID",
        "containerRuntimeVersion",
        "kernelVersion",
        "kubeProxyVersion",
        "kubeletVersion",
        "machineID",
        "operatingSystem",
        "osImage",
        "systemUUID",
    ),
    "",
)


@contextlib.contextmanager
def scene(**spec: Any) -> Iterator[Scene]:
    with EmbeddedCluster(ClusterSpec(control_plane=False, **spec)) as cluster:
        found = Scene(cluster)
        with found.stack:
            yield found


Act = Callable[[Scene], object]


def runtime(version: str) -> Act:
    return lambda s: s.node(info={"containerRuntimeVersion": version})


def kubelet(version: str) -> Act:
    return lambda s: s.node(info={"kubeletVersion": version})


def want(text: str) -> Act:
    return lambda s: setattr(s, "wanted", Wanted(feature_gates=text))


def different_gates(s: Scene) -> None:
    s.node("n1", kubelet=Kubelet(gates.effective({})))
    s.node("n2", kubelet=Kubelet(gates.effective({"DRAListTypeAttributes": True})))


def cpu_driver(device: Any, driver: str = "dra.example.com", **configuration: str) -> Act:
    def act(s: Scene) -> None:
        kubelet = Kubelet(**configuration) if configuration else None
        s.node(kubelet=kubelet, declaredFeatures=["DRANodeAllocatableResources"])
        s.slice("s1", [{"name": "cpu-0", **device}], driver=driver)

    return act


def plugin(resource: str, amount: str = "2") -> Act:
    def act(s: Scene) -> None:
        s.node(allocatable={resource: amount, "cpu": "8"}, capacity={resource: amount, "cpu": "8"})
        s.slice("s1")

    return act


def twice(attribute: str, values: Sequence[str], **second: Any) -> Act:
    def act(s: Scene) -> None:
        s.node()
        s.slice("s1", [{"name": "gpu-0", "attributes": {attribute: {"string": values[0]}}}])
        other = {"driver": "vfio.example.com", **second}
        s.slice("s2", [{"name": "fn-0", "attributes": {attribute: {"string": values[1]}}}], **other)

    return act


def earlier_node(s: Scene) -> None:
    s.node()
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "another"}
    s.slice("s1", metadata={"ownerReferences": [owner]})


def older(s: Scene) -> None:
    s.node()
    s.slice("s1")
    s.slice("s2", pool={"generation": 2})


def no_pod(s: Scene) -> None:
    s.slice("s1")
    s.allocated(users=[{"resource": "pods", "name": "p1", "uid": "gone"}])


def ended_pod(s: Scene) -> None:
    s.slice("s1")
    pod = s.pod(status={"phase": "Succeeded"})
    s.allocated(users=[s.user(pod)])


def waiting(**pod: Any) -> Act:
    def act(s: Scene) -> None:
        s.later = 600
        s.pod(**pod)

    return act


def unschedulable(s: Scene) -> None:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "message": "0/1 nodes: cannot allocate all claims",
    }
    waiting(status={"conditions": [condition]})(s)


def held(make: Callable[[Scene], Any], resource: str, api_version: str = RESOURCE) -> Act:
    def act(s: Scene) -> None:
        s.later = 600
        meta = make(s)["metadata"]
        s.client.delete(api_version, resource, meta["name"], meta.get("namespace"))

    return act


def used_claim(s: Scene) -> Any:
    s.slice("s1")
    return s.allocated(users=[s.user(s.pod())], finalizers=["resource.kubernetes.io/delete-protection"])


def bound_pod(s: Scene) -> Any:
    s.node()
    made = s.pod()
    target = {"metadata": {"name": "p1"}, "target": {"kind": "Node", "name": "n1"}}
    s.client.create("v1", "pods", target, "default", "p1", "binding")
    return made


def applied_slice(s: Scene) -> None:
    taints = [{"key": "k", "effect": "NoSchedule"}]
    spec = {
        "driver": "gpu.example.com",
        "nodeName": "n1",
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0", "taints": taints, "attributes": {"x": {"bool": False}}}],
    }
    applied = {"apiVersion": RESOURCE, "kind": "ResourceSlice", "metadata": {"name": "s1"}, "spec": spec}
    made = s.slice("s1", spec["devices"], metadata={"annotations": {APPLIED: json.dumps(applied)}})
    assert "taints" not in made["spec"]["devices"][0]


def applied_pod(s: Scene) -> None:
    uses = [{"name": "gpu", "source": {"resourceClaimName": "c1"}}]
    spec = {"resourceClaims": uses, "containers": [{"name": "a", "image": "probe:1", "future": "x"}]}
    applied = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p1"}, "spec": spec}
    s.pod(annotations={APPLIED: json.dumps(applied)})


FAULT, WARNING, UNKNOWN = State.FAULT, State.WARNING, State.UNKNOWN
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


def test_the_table_says_what_each_component_has() -> None:
    values = gates.effective({"DRAListTypeAttributes": True})
    old = dict.fromkeys(gates.GATES["1.34"], True)
    snapshot = Snapshot(
        0,
        "v1.37.2",
        components={"kube-apiserver": Values(values, "metrics"), "kube-scheduler": Values(problem="refused")},
        kubelets={"n1": Values(old, "metrics")},
    )
    rows = table(snapshot)
    assert rows["DRAListTypeAttributes"] == {
        "kube-apiserver": "on",
        "kube-scheduler": "unknown",
        "kubelet of n1": "absent",
    }
    assert rows["DRADerivedAttributes"]["kube-apiserver"] == "off"
    assert "PodLevelResources" not in rows


def _static_pod(image: str, *command: str) -> dict[str, Any]:
    return {"metadata": {"name": "x"}, "spec": {"containers": [{"image": image, "command": list(command)}]}}


@pytest.mark.parametrize(
    ("command", "derived", "taints"),
    [
        (("kube-scheduler", "--v=2"), False, True),
        (("kube-scheduler", "--feature-gates=Other=true,DRADerivedAttributes=true"), True, True),
        (("kube-scheduler", "--feature-gates", "DRADeviceTaints=false"), False, False),
        (("sh", "-c", "exec kube-scheduler --feature-gates=DRADerivedAttributes=true"), True, True),
    ],
)
def test_flags_of_static_pods_tell_gates(command: tuple[str, ...], derived: bool, taints: bool) -> None:
    found = from_flags(_static_pod("registry.k8s.io/kube-scheduler:v1.37.2", *command), "v1.37.2")
    assert (found.source, found.on["DRADerivedAttributes"], found.on["DRADeviceTaints"]) == (
        "flags",
        derived,
        taints,
    )


def test_flags_are_read_by_the_version_of_the_image() -> None:
    found = from_flags(_static_pod("mirror/kube-scheduler:v1.34.1@sha256:0", "kube-scheduler"), "v1.37.2")
    assert "DRADerivedAttributes" not in found.on
    assert found.on["DRADeviceTaints"] is False
    assert from_flags(_static_pod("x:v1.20.1", "x"), "v1.37.2").problem.startswith(
        "Kubernetes 1.20 is not known"
    )


def test_what_may_not_be_read_is_unknown() -> None:
    with scene() as found:

        class Stranger(Client):
            """A user who may see the version and nothing else."""

            def request(self, method: str, path: str, **more: Any) -> Any:
                if path in ("/version", "/apis"):
                    return super().request(method, path, **more)
                raise ClientError(403, "Forbidden", f"you cannot list {path}")

        stranger = Stranger.__new__(Stranger)
        stranger.__dict__ = dict(found.client.__dict__)
        snapshot = read(stranger)
        problems = {check.id: check.run(snapshot, Wanted()) for check in CLUSTER_CHECKS}
    for name in ("kubelet-known-bad", "two-owners-slices", "claim-devices", "pod-pending"):
        [problem] = problems[name]
        assert (problem.state, problem.seen.split(" cannot")[0]) == (
            UNKNOWN,
            {"kubelet-known-bad": "nodes", "two-owners-slices": "resourceslices"}.get(
                name, "pods" if name == "pod-pending" else "resourceclaims"
            ),
        )
    assert problems["api-versions"] == []


def test_many_kubelets_are_not_all_asked() -> None:
    with scene() as found:
        for number in range(3):
            found.node(f"n{number}")
        snapshot = read(found.client, kubelets=2)
    assert (sorted(snapshot.kubelets), snapshot.not_asked) == (["n0", "n1"], 1)
    assert "not asked of 1 more kubelets" in [
        item.seen for item in CHECKS["gates-agree"].run(snapshot, Wanted())
    ]
