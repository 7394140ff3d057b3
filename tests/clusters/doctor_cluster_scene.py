"""A cluster for `drakit doctor --kubeconfig`: an API server with objects as real ones have, and what can be wrong."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from clusters import feature_metrics, gates, tls
from clusters.client import Client
from clusters.doctor.cluster.checks import CLUSTER_CHECKS
from clusters.doctor.cluster.model import Problem
from clusters.doctor.cluster.snapshot import Snapshot, read
from clusters.doctor.model import State, Wanted
from clusters.embedded.cluster import EmbeddedCluster
from clusters.interface import ClusterSpec

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
