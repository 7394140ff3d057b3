"""Which devices a claim gets: classes, selectors, order, modes and constraints."""

from __future__ import annotations

from conformance.catalogue import requirement
from conformance.cluster.bench import ClusterBench
from conformance.cluster.manifests import request


@requirement("ALC-SEL-01")
def missing_class(bench: ClusterBench) -> None:
    bench.publish("dev-0")
    name = bench.name("class")
    bench.make_claim("claim", request(name, "gpu"))
    bench.make_pod("pod", claims={"device": "claim"})
    bench.wait_unschedulable("pod", f"request gpu: device class {name} does not exist")
    bench.make_class()
    bench.wait_scheduled("pod")
