"""The sentinel: without it nothing can be said about what containers see."""

from __future__ import annotations

from conformance.allocation.fixtures import view
from conformance.catalogue import requirement
from conformance.cluster.bench import ClusterBench
from conformance.cluster.kit_driver import variable
from conformance.cluster.manifests import container, opaque, request
from conformance.model import NotTestable, check


@requirement("ALC-CDI-01")
def edits_are_visible(bench: ClusterBench) -> None:
    if not bench.runs_processes:
        _edits_of_the_driver(bench)
        return
    _, device_class = bench.kit_class("dev-0")
    bench.make_claim("claim", request(device_class))
    bench.make_pod("pod", claims={"device": "claim"})
    bench.wait_running("pod")
    environment = bench.observe("pod").environment
    name = variable("claim", "device")
    check(environment.get(name) == "true", f"{name}=true in the container", sorted(environment))


def _edits_of_the_driver(bench: ClusterBench) -> None:
    """The same with the driver under test, whose parameters or devices may show in containers."""
    configs, node = bench.descriptor.configs, bench.node_with_free(1)
    shows = configs.visible is not None and "opaque-config" in bench.descriptor.capabilities
    config = [opaque(bench.descriptor.name, configs.visible)] if shows and configs.visible is not None else []
    bench.make_claim("claim", request(bench.device_class), configs=config)
    bench.make_pod("with", claims={"device": "claim"}, node=node.name)
    bench.wait_running("with")
    seen = bench.observe("with")
    if shows:
        text = configs.visible_text
        check(text in str(seen.document), f"{text} of the driver's CDI edits in the container", seen.document)
        return
    bench.make_pod("without", containers=[container()], node=node.name)
    bench.wait_running("without")
    if view(seen) == view(bench.observe("without")):
        raise NotTestable(
            f"a container with a device of {bench.descriptor.name} sees what one without sees, so that nothing tells "
            "whether the runtime handles CDI devices"
        )
