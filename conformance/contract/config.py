"""Tests of opaque configuration: strictness and scope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conformance.catalogue import requirement
from conformance.contract.bench import Bench
from conformance.contract.cdi import definitions, edits
from conformance.contract.claims import Allocated, Config, Device
from conformance.model import NotTestable, check

_OTHER = "other.drakit.example"
_GARBAGE: Mapping[str, Any] = {
    "apiVersion": "other.drakit.example/v1",
    "kind": "Unheard",
    "whatever": [1, 2, 3],
}


def _valid(bench: Bench) -> Mapping[str, Any]:
    valid = bench.descriptor.configs.valid
    if valid is None:
        raise NotTestable("the descriptor has no configs.valid")
    return valid


def _bad(bench: Bench) -> Mapping[str, Any]:
    """Parameters with a field that no driver knows."""
    return bench.descriptor.configs.unknown_field or {**_valid(bench), "drakitUnknownField": True}


@requirement("DRV-CFG-01")
def example_is_accepted(bench: Bench) -> None:
    bench.prepare(bench.claim(*bench.devices(1), configs=[Config(_valid(bench))]))


@requirement("DRV-CFG-02")
def unknown_field(bench: Bench) -> None:
    name = bench.descriptor.configs.unknown_field_name or "drakitUnknownField"
    text = bench.refuse(
        bench.claim(*bench.devices(1), configs=[Config(_bad(bench))]), f"field {name} is unknown"
    )
    check(name in text, f"an error that names {name}", repr(text))


@requirement("DRV-CFG-03")
def unknown_kind(bench: Bench) -> None:
    valid = _valid(bench)
    if "kind" not in valid:
        raise NotTestable("configs.valid has no kind")
    claim = bench.claim(*bench.devices(1), configs=[Config({**valid, "kind": "DrakitUnheard"})])
    bench.refuse(claim, "its kind is unknown")


@requirement("DRV-CFG-04")
def other_drivers_config(bench: Bench) -> None:
    bench.prepare(bench.claim(*bench.devices(1), configs=[Config(_GARBAGE, driver=_OTHER)]))


def _visible(bench: Bench) -> tuple[Mapping[str, Any], str]:
    configs = bench.descriptor.configs
    if configs.visible is None:
        raise NotTestable("the descriptor has no configs.visible")
    return configs.visible, configs.visible_text


def _shows(bench: Bench, results: Sequence[Allocated], config: Config) -> bool:
    """Whether the configuration changed what the container would get."""
    claim = bench.claims.create(results, [config])
    answer = bench.prepare(claim)
    known = definitions(bench)
    found = [edits(known.get(cdi_id)) for device in answer.devices for cdi_id in device.cdi_ids]
    bench.unprepare(claim)
    return any(bench.descriptor.configs.visible_text in text for text in found)


@requirement("DRV-CFG-05")
def other_request(bench: Bench) -> None:
    parameters, text = _visible(bench)
    (device,) = bench.devices(1)
    own, other = Allocated(device, "first"), Allocated(Device("elsewhere", "nic-0"), "second", driver=_OTHER)
    check(
        _shows(bench, [own, other], Config(parameters)),
        f"{text} in the CDI edits with a configuration for all",
        "none",
    )
    hits = _shows(bench, [own, other], Config(parameters, requests=("first",)))
    check(hits, f"{text} in the CDI edits with a configuration for the device's request", "none")
    misses = _shows(bench, [own, other], Config(parameters, requests=("second",)))
    check(not misses, f"no {text} in the CDI edits with a configuration for another request", "it is there")


@requirement("DRV-CFG-06")
def sub_request(bench: Bench) -> None:
    parameters, text = _visible(bench)
    (device,) = bench.devices(1)
    for requests, expected in ((("gpu",), True), (("gpu/large",), True), (("gpu/not-large",), False)):
        seen = _shows(bench, [Allocated(device, "gpu/large")], Config(parameters, requests=requests))
        wanted = f"{text if expected else f'no {text}'} in the CDI edits of gpu/large"
        check(
            seen == expected,
            f"{wanted} with a configuration for {requests[0]}",
            "it is there" if seen else "none",
        )
