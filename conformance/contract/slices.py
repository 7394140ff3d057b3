"""Tests of the ResourceSlices that a driver publishes."""

from __future__ import annotations

import copy
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from conformance.catalogue import requirement
from conformance.contract.bench import Bench, poll
from conformance.contract.claims import RESOURCE_API
from conformance.contract.pools import describe_slices
from conformance.model import check

_QUIET_SECONDS = 20.0
_EMPTY_SECONDS = 2.0
_BDF = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")
_PCIE_ROOT = re.compile(r"pci[0-9a-f]{4}:[0-9a-f]{2}\Z")
_STANDARD = "resource.kubernetes.io/"
_NOTHING_FOUND = re.compile(r"warn|error|no devices|0 devices|no gpu|found no|none found", re.IGNORECASE)
_WRITES = ("create", "update", "patch", "delete", "deletecollection")


def content(slices: Sequence[Mapping[str, Any]]) -> list[Any]:
    """What the slices say, without names and versions: pools with their devices in order."""
    ordered = sorted(slices, key=lambda item: (item["spec"]["pool"]["name"], item["metadata"]["name"]))
    specs = [{key: value for key, value in item["spec"].items() if key != "pool"} for item in ordered]
    return copy.deepcopy(specs)


def _attributes(slices: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, Mapping[str, Any]]]:
    return [
        (device["name"], name, value)
        for item in slices
        for device in item["spec"].get("devices") or []
        for name, value in (device.get("attributes") or {}).items()
    ]


@requirement("DRV-SLC-01")
def publishes(bench: Bench) -> None:
    bench.wait_published()


@requirement("DRV-SLC-02")
def counts(bench: Bench) -> None:
    slices = bench.wait_published()
    pools: dict[str, list[Mapping[str, Any]]] = {}
    for item in slices:
        pools.setdefault(item["spec"]["pool"]["name"], []).append(item["spec"]["pool"])
    for name, members in pools.items():
        good = all(pool["resourceSliceCount"] == len(members) for pool in members)
        check(
            good, f"resourceSliceCount {len(members)} in every slice of pool {name}", describe_slices(slices)
        )
        same = len({pool["generation"] for pool in members}) == 1
        check(same, f"one generation in pool {name}", describe_slices(slices))


@requirement("DRV-SLC-03")
def owner(bench: Bench) -> None:
    uid = bench.client.get("v1", "nodes", bench.node.name)["metadata"]["uid"]
    wanted = {"apiVersion": "v1", "kind": "Node", "name": bench.node.name, "uid": uid, "controller": True}
    for item in bench.wait_published():
        owners = item["metadata"].get("ownerReferences") or []
        seen = [{key: value for key, value in reference.items() if key in wanted} for reference in owners]
        check(wanted in seen, f"owner {wanted}", owners or "no owner")


@requirement("DRV-SLC-04")
def restart(bench: Bench) -> None:
    bench.start()
    before = bench.wait_published()
    bench.process.stop()
    bench.begin()
    bench.start(wait=False)
    bench.wait_answering()
    # The new process has compared when it has listed or watched the slices; give it then a moment to write.
    bench.wait_for_call("resourceslices", ("list", "watch"))
    _stays(bench, before, _EMPTY_SECONDS)


def _stays(bench: Bench, before: Sequence[dict[str, Any]], seconds: float) -> None:
    """Watch the slices for a time: none may be written."""
    versions = {item["metadata"]["uid"]: item["metadata"]["resourceVersion"] for item in before}
    threading.Event().wait(seconds)
    after = bench.slices()
    seen = {item["metadata"]["uid"]: item["metadata"]["resourceVersion"] for item in after}
    check(
        seen == versions,
        f"the slices as they were: {describe_slices(before)}",
        describe_slices(after) + " (written again)",
    )


@requirement("DRV-SLC-05")
def prepared_devices_stay(bench: Bench) -> None:
    devices = bench.devices(2)
    before = bench.slices()
    for device in devices:
        bench.prepare(bench.claim(device))
    _stays(bench, before, _EMPTY_SECONDS)


@requirement("DRV-SLC-06")
def deleted_slices_return(bench: Bench) -> None:
    bench.start()
    wanted = content(bench.wait_published())
    bench.delete_slices()
    returns(bench, wanted)


def returns(bench: Bench, wanted: Sequence[Any]) -> None:
    poll(
        lambda: content(bench.slices()) == wanted,
        bench.descriptor.slice_repair_seconds,
        "the slices are as the driver published them",
        lambda: describe_slices(bench.slices()),
    )


@requirement("DRV-SLC-07")
def edited_slice_is_repaired(bench: Bench) -> None:
    bench.start()
    slices = bench.wait_published()
    wanted = content(slices)
    victim = next(item for item in slices if item["spec"].get("devices"))
    victim["spec"]["devices"].pop()
    bench.client.update(RESOURCE_API, "resourceslices", victim)
    returns(bench, wanted)


@requirement("DRV-SLC-08")
def bad_strings(bench: Bench) -> None:
    bench.start()
    count = len(bench.devices(1)) and sum(len(item["spec"]["devices"]) for item in bench.slices())
    bench.process.stop()
    bench.delete_slices()
    bench.hook("badStrings")
    bench.start()
    slices = bench.wait_published()
    seen = sum(len(item["spec"].get("devices") or []) for item in slices)
    check(seen == count, f"all {count} devices", describe_slices(slices))


@requirement("DRV-SLC-09")
def no_attribute_twice(bench: Bench) -> None:
    own = f"{bench.descriptor.name}/"
    slices = bench.wait_published()
    names = {(device, name) for device, name, _ in _attributes(slices)}
    twice = sorted(
        name for device, name in names if name.startswith(own) and (device, name.removeprefix(own)) in names
    )
    check(
        not twice,
        "each attribute once, with its bare name",
        f"both forms of {', '.join(dict.fromkeys(twice))}",
    )


@requirement("DRV-SLC-10")
def no_devices_is_loud(bench: Bench) -> None:
    bench.hook("removeAllDevices")
    bench.start()
    poll(
        lambda: _NOTHING_FOUND.search(bench.process.output()),
        10.0,
        "a warning that no device was found, in the driver's output",
        lambda: f"its last lines are: {bench.process.tail(5) or 'nothing'}",
    )
    check(bench.process.running, "a running driver", f"it ended with exit code {bench.process.exit_code}")
    devices = [device for item in bench.slices() for device in item["spec"].get("devices") or []]
    check(not devices, "no device in the slices", describe_slices(bench.slices()))


@requirement("DRV-SLC-11")
def quiet_without_change(bench: Bench) -> None:
    bench.start()
    bench.wait_published()
    bench.begin()
    _stays(bench, bench.slices(), _QUIET_SECONDS)
    writes = bench.api_proxy.calls(since=bench.mark, resource="resourceslices", verbs=_WRITES)
    check(not writes, f"no write for {_QUIET_SECONDS:g} s", "; ".join(map(str, writes)))


@requirement("DRV-SLC-12")
def standard_attributes(bench: Bench) -> None:
    forms: Mapping[str, Callable[[Mapping[str, Any]], object]] = {
        f"{_STANDARD}pciBusID": lambda value: _BDF.match(value.get("string", "")),
        f"{_STANDARD}pcieRoot": lambda value: _PCIE_ROOT.match(value.get("string", "")),
        f"{_STANDARD}numaNode": lambda value: (
            0 <= value.get("int", -1) <= 1023
            or (value.get("ints") and all(0 <= item <= 1023 for item in value["ints"]))
        ),
    }
    for device, name, value in _attributes(bench.wait_published()):
        if name in forms:
            check(bool(forms[name](value)), f"{name} of {device} in its standard form", value)
