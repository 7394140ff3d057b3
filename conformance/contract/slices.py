"""Tests of the ResourceSlices that a driver publishes."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from conformance.catalogue import requirement
from conformance.contract.bench import Bench
from conformance.contract.pools import (
    Slice,
    by_pool,
    content,
    describe_slices,
    devices,
    generations,
    versions,
)
from conformance.contract.publication import PUBLISH_SECONDS, WRITES
from conformance.contract.words import news
from conformance.model import NotTestable, check
from conformance.waiting import poll

_QUIET_SECONDS = 20.0
_WATCH_SECONDS = 2.0
_LOUD_SECONDS = 15.0
_ANY_CALL = ("get", "list", "watch", *WRITES)
_BDF = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")
_PCIE_ROOT = re.compile(r"pci[0-9a-f]{4}:[0-9a-f]{2}\Z")
_STANDARD = "resource.kubernetes.io/"
_NOTHING_FOUND = re.compile(
    r"\b(no|0|zero) (\w+ ){0,2}(devices?|gpus?)\b|found (no|none|nothing)|(none|nothing) found", re.I
)
# The last form is klog's.
_WARNING = re.compile(r"warn|error|\A[WE]\d{4} ", re.I)


def _attributes(slices: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, Mapping[str, Any]]]:
    return [
        (device["name"], name, value)
        for item in slices
        for device in item["spec"].get("devices") or []
        for name, value in (device.get("attributes") or {}).items()
    ]


@requirement("DRV-SLC-01")
def publishes(bench: Bench) -> None:
    bench.published.wait(required=True)


@requirement("DRV-SLC-02")
def counts(bench: Bench) -> None:
    bench.devices(1)
    # While a driver writes one slice after another, numbers may differ.
    poll(
        lambda: all(map(_consistent, by_pool(bench.published.slices()).values())),
        PUBLISH_SECONDS,
        "one generation, and the true number of slices, in every slice of a pool",
        lambda: describe_slices(bench.published.slices()),
    )


def _consistent(members: Sequence[Slice]) -> bool:
    pools = [item["spec"]["pool"] for item in members]
    return len({pool["generation"] for pool in pools}) == 1 and all(
        pool["resourceSliceCount"] == len(pools) for pool in pools
    )


@requirement("DRV-SLC-03")
def owner(bench: Bench) -> None:
    uid = bench.client.get("v1", "nodes", bench.node.name)["metadata"]["uid"]
    wanted = {"apiVersion": "v1", "kind": "Node", "name": bench.node.name, "uid": uid}
    for item in bench.published.wait():
        owners = item["metadata"].get("ownerReferences") or []
        seen = [{key: value for key, value in reference.items() if key in wanted} for reference in owners]
        check(wanted in seen, f"owner {wanted}", owners or "no owner")


@requirement("DRV-SLC-04")
def restart(bench: Bench) -> None:
    bench.start()
    before = bench.published.settled()
    bench.begin()
    bench.restart()
    # The new process has compared when it has asked for the slices; give it then a moment to write.
    bench.wait_for_call("resourceslices", _ANY_CALL)
    _pause(_WATCH_SECONDS)
    after = bench.published.slices()
    lowered = [pool for pool, old in generations(before).items() if generations(after).get(pool, old) < old]
    check(not lowered, f"no lower generation than in {describe_slices(before)}", describe_slices(after))
    # What changed with the restart may be written.
    if content(after) == content(before):
        _check_unwritten(before, after)


def _pause(seconds: float) -> None:
    """Let time pass in which something must not happen."""
    threading.Event().wait(seconds)


def _check_unwritten(before: Sequence[Slice], after: Sequence[Slice]) -> None:
    check(
        versions(after) == versions(before),
        f"the slices as they were: {describe_slices(before)}",
        f"{describe_slices(after)} (written again)",
    )


@requirement("DRV-SLC-05")
def prepared_devices_stay(bench: Bench) -> None:
    before = bench.published.settled()
    for device in bench.devices(2, least=1):
        bench.prepare(bench.claim(device))
    _pause(_WATCH_SECONDS)
    after = bench.published.slices()
    check(
        content(after) == content(before) and generations(after) == generations(before),
        f"the slices as they were: {describe_slices(before)}",
        f"{describe_slices(after)} (with other content or generation)",
    )


@requirement("DRV-SLC-06")
def deleted_slices_return(bench: Bench) -> None:
    bench.start()
    wanted = content(bench.published.settled())
    bench.published.delete()
    bench.published.returns(wanted)


@requirement("DRV-SLC-07")
def edited_slice_is_repaired(bench: Bench) -> None:
    bench.start()
    wanted = content(bench.published.settled())
    bench.published.take_a_device_away()
    bench.published.returns(wanted)


@requirement("DRV-SLC-08")
def bad_strings(bench: Bench) -> None:
    bench.start()
    count = len(devices(bench.published.settled()))
    bench.process.stop()
    bench.published.delete()
    bench.hook("badStrings")
    bench.start()
    slices = bench.published.wait()
    check(len(devices(slices)) == count, f"all {count} devices", describe_slices(slices))


@requirement("DRV-SLC-09")
def no_attribute_twice(bench: Bench) -> None:
    own = f"{bench.descriptor.name}/"
    slices = bench.published.wait()
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
    # A first run shows what the driver prints anyway.
    bench.start()
    with contextlib.suppress(NotTestable):
        bench.devices(1)
    bench.process.stop()
    usual = bench.process.output()
    bench.hook("removeAllDevices")
    bench.start()
    poll(
        lambda: _is_loud(usual, bench.process.output()),
        _LOUD_SECONDS,
        "a warning that no device was found, in the driver's output",
        bench.last_words,
    )
    poll(
        lambda: not devices(bench.published.slices()),
        PUBLISH_SECONDS,
        "no device in the slices",
        lambda: describe_slices(bench.published.slices()),
    )
    bench.check_alive()


def _is_loud(usual: str, text: str) -> bool:
    new = set(text.splitlines()) - set(usual.splitlines())
    return any(map(_NOTHING_FOUND.search, new)) or any(map(_WARNING.search, news(usual, text)))


@requirement("DRV-SLC-11")
def quiet_without_change(bench: Bench) -> None:
    bench.start()
    before = bench.published.settled()
    bench.begin()
    _pause(_QUIET_SECONDS)
    _check_unwritten(before, bench.published.slices())
    writes = bench.api_proxy.calls(since=bench.mark, resource="resourceslices", verbs=WRITES)
    check(not writes, f"no write for {_QUIET_SECONDS:g} s", "; ".join(map(str, writes)))


@requirement("DRV-SLC-12")
def standard_attributes(bench: Bench) -> None:
    forms: Mapping[str, Callable[[Any], object]] = {
        f"{_STANDARD}pciBusID": lambda value: isinstance(value, str) and _BDF.match(value),
        f"{_STANDARD}pcieRoot": lambda value: isinstance(value, str) and _PCIE_ROOT.match(value),
        f"{_STANDARD}numaNode": lambda value: isinstance(value, int) and 0 <= value <= 1023,
    }
    found = [item for item in _attributes(bench.published.wait()) if item[1] in forms]
    if not found:
        raise NotTestable(f"the driver publishes none of {', '.join(forms)}")
    for device, name, value in found:
        check(all(map(forms[name], _values(value))), f"{name} of {device} in its standard form", value)


def _values(value: Mapping[str, Any]) -> Iterator[Any]:
    """The values of an attribute, be it single or a list."""
    for found in value.values():
        yield from found if isinstance(found, list) else [found]
