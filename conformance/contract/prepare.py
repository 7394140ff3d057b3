"""Tests of NodePrepareResources."""

from __future__ import annotations

import concurrent.futures

from conformance.catalogue import requirement
from conformance.contract.bench import Bench
from conformance.contract.claims import Allocated, Claim, Device
from conformance.contract.plugin import CallFailed, Prepared
from conformance.model import Failed, NotTestable, check

_REPEATS = 3
_PARALLEL = 8
_OTHER = "other.drakit.example"


def _same(first: Prepared, second: Prepared, what: str) -> None:
    check(first == second, f"{what} answers {first}", second)


def _two(bench: Bench, *claims: Claim) -> dict[str, Prepared]:
    try:
        return bench.call_prepare(*claims)
    except CallFailed as error:
        raise Failed("an answer for every claim of the call", str(error)) from None


@requirement("DRV-PREP-01")
def every_device(bench: Bench) -> None:
    devices = bench.devices(2)
    claim = bench.claims.create([Allocated(devices[0], "first"), Allocated(devices[1], "second")])
    answer = bench.prepare(claim)
    wanted = {(devices[0].pool, devices[0].name, ("first",)), (devices[1].pool, devices[1].name, ("second",))}
    # An entry without request names belongs to every request, so it answers for the device just as well.
    seen = {
        (entry.pool, entry.device, entry.requests or request)
        for entry in answer.devices
        for _, name, request in wanted
        if name == entry.device
    }
    expected = " and ".join(f"{pool}/{name} for {request[0]}" for pool, name, request in sorted(wanted))
    check(seen == wanted and len(answer.devices) == len(wanted), expected, answer)


@requirement("DRV-PREP-02")
def base_request_names(bench: Bench) -> None:
    (device,) = bench.devices(1)
    answer = bench.prepare(bench.claims.create([Allocated(device, "gpu/large")]))
    for entry in answer.devices:
        check(entry.requests in ((), ("gpu",)), "request name gpu for the result gpu/large", answer)


@requirement("DRV-PREP-03")
def repeated(bench: Bench) -> None:
    claim = bench.claim(*bench.devices(1))
    first = bench.prepare(claim)
    for _ in range(_REPEATS - 1):
        _same(first, bench.prepare(claim), "Prepare repeated")


@requirement("DRV-PREP-04")
def at_the_same_time(bench: Bench) -> None:
    claim = bench.claim(*bench.devices(1))
    with concurrent.futures.ThreadPoolExecutor(_PARALLEL) as pool:
        answers = list(pool.map(lambda _: bench.prepare(claim), range(_PARALLEL)))
    for answer in answers[1:]:
        _same(answers[0], answer, "Prepare at the same time")


@requirement("DRV-PREP-05")
def every_version(bench: Bench) -> None:
    versions = bench.info().dra_versions
    if len(versions) < 2:
        raise NotTestable(f"the driver lists one DRAPlugin version only: {', '.join(versions)}")
    claim = bench.claim(*bench.devices(1))
    first = bench.prepare(claim, versions[0])
    for version in versions[1:]:
        _same(first, bench.prepare(claim, version), version)


@requirement("DRV-PREP-06")
def other_uid(bench: Bench) -> None:
    claim = bench.claim(*bench.devices(1))
    imposter = Claim(claim.namespace, claim.name, bench.claims.never_created().uid)
    bench.refuse(imposter, "the claim of that name has another UID")


@requirement("DRV-PREP-07")
def not_allocated(bench: Bench) -> None:
    claim = bench.claims.create([Allocated(Device("any", "any"))], allocate=False)
    bench.refuse(claim, "the claim has no allocation")


@requirement("DRV-PREP-08")
def not_existing(bench: Bench) -> None:
    bench.refuse(bench.claims.never_created(), "the claim does not exist")


@requirement("DRV-PREP-09")
def other_drivers_results(bench: Bench) -> None:
    (device,) = bench.devices(1)
    claim = bench.claims.create(
        [
            Allocated(Device("elsewhere", "nic-0"), "nic", driver=_OTHER),
            Allocated(device),
            # A device of the same pool and name, but of another driver.
            Allocated(device, "twin", driver=_OTHER),
        ]
    )
    answer = bench.prepare(claim)
    seen = [(entry.pool, entry.device) for entry in answer.devices]
    check(seen == [(device.pool, device.name)], f"{device.pool}/{device.name} only", answer)
    check(answer.devices[0].requests in ((), ("gpu",)), "the own request gpu only", answer)


@requirement("DRV-PREP-10")
def no_own_result(bench: Bench) -> None:
    claim = bench.claims.create([Allocated(Device("elsewhere", "nic-0"), "nic", driver=_OTHER)])
    answer = bench.prepare(claim)
    check(not answer.devices, "no devices", answer)


@requirement("DRV-PREP-11")
def held_device(bench: Bench) -> None:
    (device,) = bench.devices(1)
    holder = bench.claim(device)
    answer = bench.prepare(holder)
    before = bench.cdi_files()
    bench.refuse(bench.claim(device), f"claim {holder.name} holds {device.pool}/{device.name}")
    check(
        bench.cdi_files() == before, "the CDI files of the holder as before", "the CDI directory has changed"
    )
    _same(answer, bench.prepare(holder), "Prepare of the holder")


@requirement("DRV-PREP-12")
def refusal_is_per_claim(bench: Bench) -> None:
    held, free = bench.devices(2)
    bench.prepare(bench.claim(held))
    refused, served = bench.claim(held), bench.claim(free)
    answer = _two(bench, refused, served)
    check(
        served.uid in answer and not answer[served.uid].error,
        f"claim {served.name} is prepared",
        answer.get(served.uid, "no entry"),
    )
    check(
        refused.uid in answer and bool(answer[refused.uid].error),
        f"an error in the entry of claim {refused.name}",
        answer.get(refused.uid, "no entry"),
    )


@requirement("DRV-PREP-13")
def an_entry_per_claim(bench: Bench) -> None:
    claims = [bench.claim(device) for device in bench.devices(2)]
    answer = _two(bench, *claims)
    wanted = sorted(claim.uid for claim in claims)
    check(
        sorted(answer) == wanted,
        f"entries for {', '.join(wanted)}",
        ", ".join(sorted(answer)) or "no entries",
    )


@requirement("DRV-PREP-14")
def half_way_failure(bench: Bench) -> None:
    bench.start()
    first, second = bench.devices(2)
    before = set(bench.cdi_files())
    bench.hook("failDevice", second)
    claim = bench.claim(first, second)
    bench.refuse(claim, f"{second.name} cannot be configured")
    leftover = set(bench.cdi_files()) - before
    check(not leftover, "no CDI file after a failed prepare", ", ".join(sorted(leftover)))
    bench.hook("healDevice", second)
    bench.unprepare(claim)
    for device in (first, second):
        bench.prepare(bench.claim(device))


@requirement("DRV-PREP-15")
def before_publishing(bench: Bench) -> None:
    # The devices' names are learned from a first run, then the driver starts anew against refused slice writes.
    bench.start()
    (device,) = bench.devices(1)
    bench.process.stop()
    bench.delete_slices()
    with bench.api_proxy.fault(resource="resourceslices", verbs=("create", "update", "patch"), status=503):
        bench.start(wait=False)
        bench.wait_answering()
        bench.prepare(bench.claim(device))
        check(not bench.slices(), "no slice while writes are refused", "a slice")


@requirement("DRV-PREP-16")
def unknown_device(bench: Bench) -> None:
    (device,) = bench.devices(1)
    bench.refuse(bench.claim(Device(device.pool, "no-such-device")), "there is no such device")


@requirement("DRV-PREP-17")
def admin_access(bench: Bench) -> None:
    (device,) = bench.devices(1)
    bench.prepare(bench.claim(device))
    bench.allow_admin_access()
    bench.prepare(bench.claims.create([Allocated(device, admin_access=True)]))
    bench.refuse(bench.claim(device), "the device is still held")
