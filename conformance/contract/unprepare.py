"""Tests of NodeUnprepareResources."""

from __future__ import annotations

from conformance.catalogue import requirement
from conformance.contract.bench import Bench

_ROUNDS = 10


@requirement("DRV-UNP-01")
def unknown_claim(bench: Bench) -> None:
    bench.unprepare(bench.claims.never_created(), bench.claims.never_created())


@requirement("DRV-UNP-02")
def repeated(bench: Bench) -> None:
    claim = bench.claim(*bench.devices(1))
    bench.prepare(claim)
    for _ in range(3):
        bench.unprepare(claim)


@requirement("DRV-UNP-03")
def claim_gone(bench: Bench) -> None:
    (device,) = bench.devices(1)
    claim = bench.claim(device)
    bench.prepare(claim)
    bench.claims.delete(claim)
    bench.unprepare(claim)
    bench.prepare(bench.claim(device))


@requirement("DRV-UNP-04")
def device_serves_again(bench: Bench) -> None:
    (device,) = bench.devices(1)
    for _ in range(_ROUNDS):
        bench.warm_up(device)


@requirement("DRV-UNP-05")
def hardware_gone(bench: Bench) -> None:
    bench.start()
    (device,) = bench.devices(1)
    claim = bench.claim(device)
    bench.prepare(claim)
    bench.hook("vanishDevice", device)
    bench.unprepare(claim)
