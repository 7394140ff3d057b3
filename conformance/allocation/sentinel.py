"""The sentinel: without it nothing can be said about what containers see."""

from __future__ import annotations

from conformance.catalogue import requirement
from conformance.cluster.bench import ClusterBench
from conformance.cluster.kit_driver import variable
from conformance.cluster.manifests import request
from conformance.model import check


@requirement("ALC-CDI-01")
def edits_are_visible(bench: ClusterBench) -> None:
    _, device_class = bench.kit_class("dev-0")
    bench.make_claim("claim", request(device_class))
    bench.make_pod("pod", claims={"device": "claim"})
    bench.wait_running("pod")
    environment = bench.observe("pod").environment
    name = variable("claim", "device")
    check(environment.get(name) == "true", f"{name}=true in the container", sorted(environment))
