"""Tests of what the driver does with its permissions."""

from __future__ import annotations

from clusters.proxies import permissions
from clusters.proxies.api_calls import ApiCall
from conformance.catalogue import requirement
from conformance.contract.bench import Bench
from conformance.contract.publication import WRITES
from conformance.model import NotTestable, check


@requirement("DRV-PERM-01")
def only_declared(bench: Bench) -> None:
    bench.start()
    (device,) = bench.devices(1)
    bench.warm_up(device)
    bench.restart()
    bench.process.stop()
    used = permissions.report(bench.api_proxy.calls(), bench.descriptor.permissions).undeclared
    check(not used, "no call beyond the declared permissions", ", ".join(map(str, used)))


@requirement("DRV-PERM-02")
def no_wildcard(bench: Bench) -> None:
    for index, rule in enumerate(bench.descriptor.permissions):
        wild = any("*" in word for word in (*rule.api_groups, *rule.resources, *rule.verbs))
        check(not wild, f"permissions[{index}] without *", rule.as_dict())


@requirement("DRV-PERM-03")
def own_node_only(bench: Bench) -> None:
    bench.published.wait()
    writes = bench.api_proxy.calls(resource="resourceslices", verbs=WRITES)
    if not writes:
        raise NotTestable("the driver writes no slice with its own credentials")
    foreign = [f"{call} for {node}" for call in writes if (node := _other_node(call, bench.node.name))]
    check(not foreign, f"slices of node {bench.node.name} only", "; ".join(foreign))


def _other_node(call: ApiCall, own: str) -> str:
    """Another node of which the call writes a slice, if any; slices for several nodes belong to none."""
    if call.verb == "deletecollection":
        selector = call.query.get("fieldSelector", "")
        return "" if f"spec.nodeName={own}" in selector.split(",") else "every node"
    spec = call.body.get("spec") if isinstance(call.body, dict) else None
    node = spec.get("nodeName") if isinstance(spec, dict) else None
    return node if isinstance(node, str) and node != own else ""
