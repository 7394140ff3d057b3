"""Tests of publishing against an API server that refuses, delays or cuts."""

from __future__ import annotations

import collections
import itertools
import threading

from clusters.proxies.api_calls import ApiCall
from clusters.proxies.api_faults import Fault
from conformance.catalogue import requirement
from conformance.contract.bench import Bench
from conformance.contract.pools import content, describe_slices, devices
from conformance.contract.publication import PUBLISH_SECONDS
from conformance.model import NotTestable, check
from conformance.waiting import poll

_WRITES = ("create", "update", "patch")
_RETRY_AFTER = 2
_INVALID_SECONDS = 8.0
_INVALID_WRITES = 15
_RETRY_SECONDS = 3.0
_SLOW_SECONDS = 2.0
_REASON = "drakit-made-up-reason"


def _check_struck(*faults: Fault) -> None:
    """Raise Failed when a fault met no call: without one the driver published in a way that the kit cannot see."""
    for fault in faults:
        check(fault.hits > 0, f"a slice write through the driver's kubeconfig, to be {fault}", "none")


def _subject(call: ApiCall) -> str:
    """The slice that a write is about, so that a retry is told from the write of another slice."""
    body = call.body if isinstance(call.body, dict) else {}
    spec = body.get("spec") or {}
    if "pool" not in spec:
        return call.name
    listed = [device.get("name") for device in spec.get("devices") or []]
    return f"{spec['pool'].get('name')} {listed} {len(spec.get('sharedCounters') or [])}"


@requirement("DRV-PUB-01")
def conflict(bench: Bench) -> None:
    with bench.api_proxy.fault(resource="resourceslices", verbs=_WRITES, status=409, times=2) as first:
        bench.start()
        bench.published.wait()
    _check_struck(first)
    if "slice-repair" not in bench.descriptor.capabilities:
        return
    # A conflict on an update needs something to update.
    wanted = content(bench.published.settled())
    with bench.api_proxy.fault(
        resource="resourceslices", verbs=(*_WRITES, "delete"), status=409, times=1
    ) as second:
        bench.published.take_a_device_away()
        bench.published.returns(wanted)
    _check_struck(second)


@requirement("DRV-PUB-02")
def server_error(bench: Bench) -> None:
    with (
        bench.api_proxy.fault(resource="resourceslices", verbs=_WRITES, status=500, times=2) as first,
        bench.api_proxy.fault(resource="resourceslices", verbs=_WRITES, status=503, times=2) as second,
    ):
        bench.start()
        bench.published.wait()
    _check_struck(first, second)


@requirement("DRV-PUB-03")
def too_many_requests(bench: Bench) -> None:
    with bench.api_proxy.fault(
        resource="resourceslices", verbs=_WRITES, status=429, times=2, retry_after=_RETRY_AFTER
    ) as fault:
        bench.start()
        bench.published.wait()
    _check_struck(fault)
    writes: dict[str, list[ApiCall]] = collections.defaultdict(list)
    for call in bench.api_proxy.calls(since=bench.mark, resource="resourceslices", verbs=_WRITES):
        writes[_subject(call)].append(call)
    for first, second in itertools.chain.from_iterable(map(itertools.pairwise, writes.values())):
        if first.status == 429:
            waited = second.time - first.time
            check(
                waited >= _RETRY_AFTER * 0.9,
                f"{_RETRY_AFTER} s between a 429 and the next write of the slice",
                f"{waited:.2f} s",
            )


@requirement("DRV-PUB-04")
def invalid_is_not_hammered(bench: Bench) -> None:
    with bench.api_proxy.fault(resource="resourceslices", verbs=_WRITES, status=422) as fault:
        bench.start()
        bench.wait_for_call("resourceslices", _WRITES)
        threading.Event().wait(_INVALID_SECONDS)
        writes = bench.api_proxy.calls(since=bench.mark, resource="resourceslices", verbs=_WRITES)
    _check_struck(fault)
    most = max(collections.Counter(map(_subject, writes)).values())
    check(
        most <= _INVALID_WRITES,
        f"at most {_INVALID_WRITES} writes of a slice in {_INVALID_SECONDS:g} s of refusals",
        f"{most} writes",
    )
    bench.check_alive()


@requirement("DRV-PUB-05")
def invalid_is_reported(bench: Bench) -> None:
    with bench.api_proxy.fault(
        resource="resourceslices", verbs=_WRITES, status=422, message=_REASON
    ) as fault:
        bench.start()
        poll(
            lambda: _REASON in bench.process.output(),
            PUBLISH_SECONDS,
            f"the reason of the refusal ({_REASON}) in the driver's output",
            bench.last_words,
        )
    _check_struck(fault)


@requirement("DRV-PUB-06")
def expired_watch(bench: Bench) -> None:
    bench.start()
    wanted = content(bench.published.settled())
    if not bench.wait_for_call("resourceslices", ("watch",)):
        raise NotTestable("the driver watches no slices")
    # While the fault lasts every watch ends; the slices go at a moment when nobody watches.
    with bench.api_proxy.fault(resource="resourceslices", watch="expire", times=2) as fault:
        bench.published.delete()
    check(fault.hits > 0, "an open watch on slices", "none")
    bench.published.returns(wanted)


@requirement("DRV-PUB-07")
def slow_server(bench: Bench) -> None:
    with bench.api_proxy.fault(delay=_SLOW_SECONDS) as fault:
        bench.start()
        bench.published.wait()
    _check_struck(fault)


@requirement("DRV-PUB-08")
def cut_connections(bench: Bench) -> None:
    with bench.api_proxy.fault(resource="resourceslices", verbs=_WRITES, cut="before", times=3) as fault:
        bench.start()
        bench.published.wait()
    _check_struck(fault)


@requirement("DRV-PUB-09")
def lost_answer(bench: Bench) -> None:
    patience = max(PUBLISH_SECONDS, bench.descriptor.slice_repair_seconds)
    with bench.api_proxy.fault(resource="resourceslices", verbs=_WRITES, cut="after", times=1) as fault:
        bench.start()
        bench.published.wait(patience)
        # Without an answer the driver cannot know that the slice is there, and tries again.
        threading.Event().wait(_RETRY_SECONDS)
    slices = bench.published.wait(patience)
    _check_struck(fault)
    found = devices(slices)
    check(len(found) == len(set(found)), "every device once", describe_slices(slices))
