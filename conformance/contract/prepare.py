"""Tests of NodePrepareResources."""

from __future__ import annotations

import concurrent.futures

from conformance.catalogue import requirement
from conformance.contract.bench import Bench
from conformance.contract.cdi import check_no_new_files, check_same_files
from conformance.contract.claims import Allocated, Claim, Device
from conformance.contract.plugin import Prepared
from conformance.model import Failed, NotTestable, check

_REPEATS = 3
_PARALLEL = 8
_OTHER = "other.drakit.example"
_ELSEWHERE = Device("elsewhere", "nic-0")


def _same(first: Prepared, second: Prepared, what: str) -> None:
    check(first == second, f"{what} answers {first}", second)


@requirement("DRV-PREP-01")
def every_device(bench: Bench) -> None:
    devices = bench.devices(2, least=1)
    results = [Allocated(device, f"request-{index}") for index, device in enumerate(devices)]
    answer = bench.prepare(bench.claims.create(results))
    wanted = {result.device: result.request for result in results}
    seen: dict[Device, str] = {}
    for entry in answer.devices:
        device = Device(entry.pool, entry.device)
        # An entry without request names belongs to every request, so it answers for the device just as well.
        seen[device] = ", ".join(entry.requests) or wanted.get(device, "")
    expected = " and ".join(
        f"{device.pool}/{device.name} for {request}" for device, request in wanted.items()
    )
    check(seen == wanted and len(answer.devices) == len(wanted), expected, answer)


@requirement("DRV-PREP-02")
def base_request_names(bench: Bench) -> None:
    (device,) = bench.devices(1)
    answer = bench.prepare(bench.claims.create([Allocated(device, "gpu/large")]))
    check(bool(answer.devices), f"{device.pool}/{device.name} for gpu", answer)
    for entry in answer.devices:
        check(entry.requests in ((), ("gpu",)), "request name gpu for the result gpu/large", answer)


@requirement("DRV-PREP-03")
def repeated(bench: Bench) -> None:
    claim = bench.claim(*bench.devices(1))
    first = bench.prepare(claim)
    files = bench.cdi_files()
    for _ in range(_REPEATS - 1):
        _same(first, bench.prepare(claim), "Prepare repeated")
    check_no_new_files(bench, files)


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
            Allocated(_ELSEWHERE, "nic", driver=_OTHER),
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
    claim = bench.claims.create([Allocated(_ELSEWHERE, "nic", driver=_OTHER)])
    answer = bench.prepare(claim)
    check(not answer.devices, "no devices", answer)


@requirement("DRV-PREP-11")
def held_device(bench: Bench) -> None:
    (device,) = bench.devices(1)
    holder = bench.claim(device)
    answer = bench.prepare(holder)
    before = bench.cdi_files()
    bench.refuse(bench.claim(device), f"claim {holder.name} holds {device.pool}/{device.name}")
    check_same_files(bench, before)
    _same(answer, bench.prepare(holder), "Prepare of the holder")


@requirement("DRV-PREP-12")
def refusal_is_per_claim(bench: Bench) -> None:
    (device,) = bench.devices(1)
    refused, served = bench.claim(Device(device.pool, "no-such-device")), bench.claim(device)
    answer = bench.prepare_all(refused, served)
    check(
        served.uid in answer and not answer[served.uid].error,
        f"claim {served.name} is prepared",
        answer.get(served.uid, "no entry"),
    )
    check(refused.uid in answer, f"an entry for claim {refused.name}", "no entry")
    if not answer[refused.uid].error:
        raise NotTestable("the driver refuses no claim here, see DRV-PREP-16")


@requirement("DRV-PREP-13")
def an_entry_per_claim(bench: Bench) -> None:
    claims = [bench.claim(device) for device in bench.devices(2)]
    answer = bench.prepare_all(*claims)
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
    bench.warm_up(first, second)
    before = bench.cdi_files()
    bench.hook("failDevice", second)
    claim = bench.claim(first, second)
    bench.refuse(claim, f"{second.name} cannot be configured")
    bench.hook("healDevice", second)
    bench.unprepare(claim)
    check_no_new_files(bench, before)
    for device in (first, second):
        bench.prepare(bench.claim(device))


@requirement("DRV-PREP-15")
def before_publishing(bench: Bench) -> None:
    # The devices' names are learned from a first run, then the driver starts anew against refused slice writes.
    bench.start()
    (device,) = bench.devices(1)
    bench.process.stop()
    bench.published.delete()
    with bench.api_proxy.fault(resource="resourceslices", verbs=("create", "update", "patch"), status=503):
        bench.start(wait=False)
        bench.wait_answering()
        bench.prepare(bench.claim(device))
        check(not bench.published.slices(), "no slice while writes are refused", "a slice")


@requirement("DRV-PREP-16")
def unknown_device(bench: Bench) -> None:
    (device,) = bench.devices(1)
    bench.refuse(bench.claim(Device(device.pool, "no-such-device")), "there is no such device")


@requirement("DRV-PREP-17")
def admin_access(bench: Bench) -> None:
    (device,) = bench.devices(1)
    holder = bench.claim(device)
    answer = bench.prepare(holder)
    guarded = not _serves(bench, device)
    before = bench.cdi_files()
    bench.allow_admin_access()
    admin = bench.claims.create([Allocated(device, admin_access=True)])
    bench.prepare(admin)
    bench.unprepare(admin)
    # Whether a held device is refused to others at all is DRV-PREP-11's question.
    check(
        not (guarded and _serves(bench, device)),
        f"{device.pool}/{device.name} still held",
        "another claim got it",
    )
    check_same_files(bench, before)
    _same(answer, bench.prepare(holder), "Prepare of the holder")


def _serves(bench: Bench, device: Device) -> bool:
    """Whether one more claim for the device is prepared; it is unprepared then."""
    claim = bench.claim(device)
    try:
        bench.prepare(claim)
    except Failed:
        return False
    bench.unprepare(claim)
    return True


@requirement("DRV-PREP-18")
def other_namespace(bench: Bench) -> None:
    device, other = bench.devices(2)
    near = bench.claim(device)
    far = bench.claims.create([Allocated(other)], namespace=bench.other_namespace(), name=near.name)
    answer = bench.prepare_all(near, far)
    for claim in (near, far):
        wanted = [(result.device.pool, result.device.name) for result in claim.results]
        entry = answer.get(claim.uid, Prepared(error="no entry"))
        check(
            [(item.pool, item.device) for item in entry.devices] == wanted,
            f"{wanted[0][0]}/{wanted[0][1]} for claim {claim.name} in {claim.namespace}",
            entry,
        )
    bench.unprepare(near, far)
