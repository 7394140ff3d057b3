"""Tests of opaque configuration: strictness and scope."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.catalogue import requirement
from conformance.contract.bench import Bench
from conformance.contract.claims import Allocated, Config
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
    """Parameters the driver must refuse wherever they apply, which makes their scope visible."""
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


@requirement("DRV-CFG-05")
def other_request(bench: Bench) -> None:
    first, second = bench.devices(2)
    bad = Config(_bad(bench), requests=("second",))
    bench.prepare(bench.claims.create([Allocated(first, "first")], [bad]))
    bench.refuse(
        bench.claims.create([Allocated(second, "second")], [bad]),
        "a wrong configuration applies to its request",
    )


@requirement("DRV-CFG-06")
def sub_request(bench: Bench) -> None:
    (device,) = bench.devices(1)

    def scoped(*requests: str) -> Any:
        return bench.claims.create([Allocated(device, "gpu/large")], [Config(_bad(bench), requests=requests)])

    bench.refuse(scoped("gpu"), "a wrong configuration for gpu applies to gpu/large")
    bench.refuse(scoped("gpu/large"), "a wrong configuration for gpu/large applies to it")
    bench.prepare(scoped("gpu/not-large"))
