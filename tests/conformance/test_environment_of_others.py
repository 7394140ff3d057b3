"""Benches on a cluster that is somebody else's: which nodes, whose fault an error is, how objects are made."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.client import ClientError
from clusters.descriptor import Descriptor
from clusters.existing.settings import Settings
from conformance.cluster.bench import ClusterBench
from conformance.cluster.environment import ClusterEnvironment
from conformance.model import InputError, Isolation, Level, NotTestable, Requirement

REQUIREMENT = Requirement("ALC-AAA-01", Level.MUST, "It works.", "scheduler", ("somewhere",), "first")
DRIVER = "d.example.com"
DESCRIPTOR = Descriptor(Path("d.yaml"), DRIVER, (), (), capabilities=frozenset({"whole-devices"}))


def slice_of(node: str, *devices: str) -> dict[str, Any]:
    spec = {"driver": DRIVER, "nodeName": node, "pool": {"name": node}}
    return {"spec": {**spec, "devices": [{"name": name} for name in devices]}}


class Server:
    """Takes everything that is made, and has some slices and claims."""

    def __init__(self, slices: list[dict[str, Any]], claims: list[dict[str, Any]]) -> None:
        self.lists = {"resourceslices": slices, "resourceclaims": claims}
        self.made: list[Any] = []

    def create(self, version: str, resource: str, body: Any, *rest: Any) -> Any:
        self.made.append(body)
        return body

    def find(self, *reference: Any) -> dict[str, Any]:
        return {"kind": "ServiceAccount"}

    def list(self, version: str, resource: str, *rest: Any, fieldSelector: str = "") -> Any:
        wanted = dict(part.split("=") for part in fieldSelector.split(",") if part)
        return [
            item
            for item in self.lists.get(resource, [])
            if wanted.get("spec.nodeName") in (None, item["spec"].get("nodeName"))
        ]

    def delete(self, *reference: Any, **more: Any) -> None: ...


def environment(
    server: Server, *names: str, capabilities: frozenset[str] = frozenset()
) -> ClusterEnvironment:
    nodes = [SimpleNamespace(name=name) for name in names]
    cluster: Any = SimpleNamespace(client=lambda identity: server, nodes=nodes, capabilities=capabilities)
    settings = Settings(run="abcd", prefix="drakit-")
    return ClusterEnvironment(cluster, DESCRIPTOR, timeout_factor=0.01, settings=settings)


def nodes_of(found: ClusterBench) -> list[str]:
    return [node.name for node in found.nodes]


def test_all_nodes_are_for_all_tests() -> None:
    of_others = environment(Server([], []), "a", "b", "c")
    for isolation in (Isolation.PARALLEL, Isolation.EXCLUSIVE):
        with of_others.bench(replace(REQUIREMENT, isolation=isolation)) as bench:
            assert sorted(nodes_of(bench)) == ["a", "b", "c"]
            assert isolation is Isolation.PARALLEL or bench.nodes[0] is not bench.cluster.nodes[0]


def test_a_test_of_the_driver_has_the_nodes_where_it_is() -> None:
    of_others = environment(Server([slice_of("b", "dev-0")], []), "a", "b", "c")
    with of_others.bench(replace(REQUIREMENT, subject="driver")) as bench:
        assert nodes_of(bench) == ["b"]


def test_the_namespace_tells_whose_it_is() -> None:
    server = Server([], [])
    with environment(server, "a").bench(REQUIREMENT) as bench:
        namespace = server.made[0]["metadata"]
        assert namespace["name"] == bench.namespace
        assert bench.namespace.startswith("drakit-t")
        assert bench.namespace.endswith("-abcd")
        assert namespace["labels"] == {"drakit.dev/run": "abcd"}


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ClientError(403, "Forbidden", "no"), "the API server refuses a request: no"),
        (ClientError(401, "Unauthorized", "no"), "the API server refuses a request: no"),
        (ClientError(0, "Unreachable", "gone"), "the API server cannot be reached: gone"),
        (ClientError(500, "InternalError", "ill"), "the API server refuses a request: ill"),
        (
            ClientError(400, "BadRequest", 'admission webhook "x" denied the request: no limits'),
            'the API server refuses a request: admission webhook "x" denied the request: no limits',
        ),
    ],
)
def test_refusals_are_the_clusters_affair(error: ClientError, text: str) -> None:
    with (
        pytest.raises(InputError, match=text) as caught,
        environment(Server([], []), "a").bench(REQUIREMENT),
    ):
        raise error
    assert caught.value.about == "the cluster"


def test_a_wrong_request_is_the_kits_fault_and_so_is_everything_on_its_own_clusters() -> None:
    with pytest.raises(ClientError), environment(Server([], []), "a").bench(REQUIREMENT):
        raise ClientError(422, "Invalid", "spec.devices: wrong")
    own = environment(Server([], []), "a", "b", "c", capabilities=frozenset({"own_nodes"}))
    with pytest.raises(ClientError), own.bench(REQUIREMENT):
        raise ClientError(403, "Forbidden", "no")


def claim_of(node: str, device: str, **more: Any) -> dict[str, Any]:
    result = {"driver": DRIVER, "pool": node, "device": device, **more}
    return {"spec": {}, "status": {"allocation": {"devices": {"results": [result]}}}}


def test_devices_that_others_use_are_not_free() -> None:
    claims = [claim_of("a", "dev-0"), claim_of("b", "dev-0", adminAccess=True), {"spec": {}}]
    server = Server([slice_of("a", "dev-0"), slice_of("b", "dev-0", "dev-1")], claims)
    with environment(server, "a", "b").bench(REQUIREMENT) as bench:
        free = {node.name: bench.free_devices(node) for node in bench.nodes}
        assert free == {"a": 0, "b": 2}
        assert bench.node_with_free(2).name == "b"
        with pytest.raises(NotTestable, match=f"no node has 3 free devices of {DRIVER}: others use them"):
            bench.node_with_free(3)
