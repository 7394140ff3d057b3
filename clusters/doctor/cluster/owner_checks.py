"""Checks for hardware that two hand out: each keeps its own books, and both give it away."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any, Final

from clusters.doctor.cluster.model import ClusterCheck, Problem, doubt, fault
from clusters.doctor.cluster.pools import device_content, pools
from clusters.doctor.cluster.snapshot import Object, Snapshot
from clusters.doctor.model import Wanted
from dra_api.quantity import Quantity, QuantityError

_IDENTITIES: Final = ("pcibusid", "pciaddress", "uuid", "serialnumber", "macaddress")


def judge_plugin(snapshot: Snapshot, wanted: Wanted) -> Iterator[Problem]:
    """A device plugin's resources on a node where a driver of the same vendor publishes devices."""
    drivers: dict[str, set[str]] = collections.defaultdict(set)
    for pool in pools(snapshot):
        for item in pool.current:
            if item["spec"].get("nodeName") and item["spec"].get("devices"):
                drivers[str(item["spec"]["nodeName"])].add(pool.driver)
    mapped = {
        str(item["spec"]["extendedResourceName"])
        for item in snapshot.list("deviceclasses")
        if (item.get("spec") or {}).get("extendedResourceName")
    }
    for node in snapshot.list("nodes"):
        name = str(node["metadata"]["name"])
        for resource, amount in _extended(node).items():
            domain, _, base = resource.partition("/")
            for driver in sorted(drivers[name]):
                if not _same_vendor(domain, driver):
                    continue
                seen = (
                    f"a device plugin has {resource} ({amount}), and driver {driver} publishes devices there"
                )
                remedy = (
                    "let one of them alone have the node: a label and a nodeSelector for each keep them apart"
                )
                same = base in driver.split(".") or resource in mapped or domain == driver
                if same:
                    yield fault(f"node {name}", f"{seen}: devices may be handed out twice", remedy)
                else:
                    yield doubt(f"node {name}", f"{seen}: are these other devices?", remedy)


def _extended(node: Object) -> dict[str, str]:
    """Resources of device plugins that are there: not Kubernetes' own, and more than none."""
    found = {}
    for resource, amount in ((node.get("status") or {}).get("allocatable") or {}).items():
        domain = resource.partition("/")[0]
        if "/" in resource and not domain.endswith("kubernetes.io") and _positive(amount):
            found[str(resource)] = str(amount)
    return found


def _positive(amount: Any) -> bool:
    try:
        return Quantity.parse(str(amount)).sign > 0
    except QuantityError:
        return False


def _same_vendor(domain: str, driver: str) -> bool:
    """`nvidia.com` and `gpu.nvidia.com`, `gpu.intel.com` and `gpu.intel.com`, but not just the same top level."""
    return domain.split(".")[-2:] == driver.split(".")[-2:] and "." in domain


def judge_slices(snapshot: Snapshot, wanted: Wanted) -> Iterator[Problem]:
    """One address or serial number in the pools of two drivers, or in two pools of one."""
    owners: dict[tuple[str, str, str], dict[str, str]] = collections.defaultdict(dict)
    for pool in pools(snapshot):
        for item in pool.current:
            for device in item["spec"].get("devices") or []:
                content = device_content(device)
                node = str(content.get("nodeName") or item["spec"].get("nodeName") or "")
                for kind, value in _identities(content):
                    owners[node, kind, value].setdefault(pool.label, str(device["name"]))
    told = set()
    for (node, kind, value), found in sorted(owners.items()):
        if len(found) < 2:
            continue
        who = ", ".join(f"{device} in {label}" for label, device in sorted(found.items()))
        # Hardware often has several identities, and one line is enough.
        if (node, who) in told:
            continue
        told.add((node, who))
        yield fault(
            f"node {node}" if node else "cluster",
            f"{kind} {value} is published twice: {who}",
            "let one driver alone publish it, or give each its own part of the hardware",
        )


def _identities(content: Object) -> Iterator[tuple[str, str]]:
    for name, value in (content.get("attributes") or {}).items():
        word = str(name).rpartition("/")[2]
        text = (value or {}).get("string")
        if word.lower().replace("-", "").replace("_", "") in _IDENTITIES and text:
            yield word, str(text).lower()


CHECKS: Final = (
    ClusterCheck(
        "two-owners-plugin",
        "No device plugin and driver of one vendor share a node.",
        judge_plugin,
        ("nodes", "resourceslices", "deviceclasses"),
    ),
    ClusterCheck("two-owners-slices", "No hardware is in two pools.", judge_slices, ("resourceslices",)),
)
