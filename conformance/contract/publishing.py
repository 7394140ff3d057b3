"""Tests of publishing against an API server that refuses, delays or cuts."""

from __future__ import annotations

import itertools
import threading

from conformance.catalogue import requirement
from conformance.contract.bench import Bench, poll
from conformance.contract.slices import content, returns
from conformance.model import check

_WRITES = ("create", "update", "patch")
_RETRY_AFTER = 2
_INVALID_SECONDS = 8.0
_INVALID_WRITES = 15
_SLOW_SECONDS = 2.0
_REASON = "drakit-made-up-reason"


@requirement("DRV-PUB-01")
def conflict(bench: Bench) -> None:
    # A conflict on an update needs something to update: the slices are edited by somebody else meanwhile.
    with bench.api_proxy.fault(resource="resourceslices", verbs=_WRITES, status=409, times=2) as fault:
        bench.start()
        bench.wait_published()
    check(fault.hits > 0, "a slice write to refuse", "none")


@requirement("DRV-PUB-02")
def server_error(bench: Bench) -> None:
    with (
        bench.api_proxy.fault(resource="resourceslices", verbs=_WRITES, status=500, times=2),
        bench.api_proxy.fault(resource="resourceslices", verbs=_WRITES, status=503, times=2),
    ):
        bench.start()
        bench.wait_published()


@requirement("DRV-PUB-03")
def too_many_requests(bench: Bench) -> None:
    with bench.api_proxy.fault(
        resource="resourceslices", verbs=_WRITES, status=429, times=2, retry_after=_RETRY_AFTER
    ):
        bench.start()
        bench.wait_published()
    writes = bench.api_proxy.calls(since=bench.mark, resource="resourceslices", verbs=_WRITES)
    for first, second in itertools.pairwise(writes):
        if first.status == 429:
            waited = second.time - first.time
            check(
                waited >= _RETRY_AFTER * 0.9,
                f"{_RETRY_AFTER} s between a 429 and the next write",
                f"{waited:.2f} s",
            )


@requirement("DRV-PUB-04")
def invalid_is_not_hammered(bench: Bench) -> None:
    with bench.api_proxy.fault(resource="resourceslices", verbs=_WRITES, status=422):
        bench.start()
        bench.wait_for_call("resourceslices", _WRITES)
        threading.Event().wait(_INVALID_SECONDS)
        writes = bench.api_proxy.calls(since=bench.mark, resource="resourceslices", verbs=_WRITES)
    check(
        len(writes) <= _INVALID_WRITES,
        f"at most {_INVALID_WRITES} writes in {_INVALID_SECONDS:g} s of refusals",
        f"{len(writes)} writes",
    )
    check(bench.process.running, "a running driver", f"it ended with exit code {bench.process.exit_code}")


@requirement("DRV-PUB-05")
def invalid_is_reported(bench: Bench) -> None:
    with bench.api_proxy.fault(resource="resourceslices", verbs=_WRITES, status=422, message=_REASON):
        bench.start()
        poll(
            lambda: _REASON in bench.process.output(),
            10.0,
            f"the reason of the refusal ({_REASON}) in the driver's output",
            lambda: f"its last lines are: {bench.process.tail(5) or 'nothing'}",
        )


@requirement("DRV-PUB-06")
def expired_watch(bench: Bench) -> None:
    bench.start()
    wanted = content(bench.wait_published())
    bench.wait_for_call("resourceslices", ("list", "watch"))
    # While the fault lasts every watch ends; the slices go at a moment when nobody watches.
    with bench.api_proxy.fault(resource="resourceslices", watch="expire", times=2):
        bench.delete_slices()
    returns(bench, wanted)


@requirement("DRV-PUB-07")
def slow_server(bench: Bench) -> None:
    with bench.api_proxy.fault(delay=_SLOW_SECONDS):
        bench.start()
        bench.wait_published()


@requirement("DRV-PUB-08")
def cut_connections(bench: Bench) -> None:
    with bench.api_proxy.fault(resource="resourceslices", verbs=_WRITES, cut="before", times=3):
        bench.start()
        bench.wait_published()
