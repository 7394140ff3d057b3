"""Tests of what the driver does with its permissions."""

from __future__ import annotations

from conformance.catalogue import requirement
from conformance.contract.bench import Bench
from conformance.model import check

_WRITES = ("create", "update", "patch", "delete", "deletecollection")


@requirement("DRV-PERM-01")
def only_declared(bench: Bench) -> None:
    bench.start()
    (device,) = bench.devices(1)
    claim = bench.claim(device)
    bench.prepare(claim)
    bench.unprepare(claim)
    refused = [str(call) for call in bench.api_proxy.calls() if call.status == 403]
    check(not refused, "no call beyond the declared permissions", "; ".join(refused))


@requirement("DRV-PERM-02")
def no_wildcard(bench: Bench) -> None:
    for index, rule in enumerate(bench.descriptor.permissions):
        wild = "*" in (*rule.api_groups, *rule.resources, *rule.verbs)
        check(not wild, f"permissions[{index}] without *", rule.as_dict())


@requirement("DRV-PERM-03")
def own_node_only(bench: Bench) -> None:
    bench.wait_published()
    foreign = [item["metadata"]["name"] for item in bench.foreign_slices()]
    check(not foreign, f"slices of node {bench.node.name} only", f"also wrote {', '.join(foreign)}")
    writes = bench.api_proxy.calls(resource="resourceslices", verbs=_WRITES)
    check(bool(writes), "slices written through the driver's own kubeconfig", "none")
