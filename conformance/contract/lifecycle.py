"""Tests of the end of a driver, and of a start that cannot work."""

from __future__ import annotations

from conformance.catalogue import requirement
from conformance.contract.bench import Bench
from conformance.contract.pools import describe_slices
from conformance.contract.words import news
from conformance.model import check
from conformance.waiting import poll


def _stopped(bench: Bench) -> int | None:
    bench.spoil()
    bench.start()
    bench.published.wait()
    return bench.process.stop()


@requirement("DRV-LIFE-01")
def ends_in_time(bench: Bench) -> None:
    code = _stopped(bench)
    seconds = bench.descriptor.stop_seconds
    check(
        code is not None,
        f"the end within {seconds:g} s of {bench.descriptor.stop_signal.name}",
        "it had to be killed",
    )


@requirement("DRV-LIFE-02")
def socket_removed(bench: Bench) -> None:
    _stopped(bench)
    left = [path.name for path in bench.registry.sockets()]
    check(not left, "no registration socket after a clean stop", ", ".join(left))


@requirement("DRV-LIFE-03")
def slices_stay(bench: Bench) -> None:
    bench.spoil()
    bench.start()
    before = bench.published.wait()
    bench.process.stop()
    after = bench.published.slices()
    names = {item["metadata"]["name"] for item in before} - {item["metadata"]["name"] for item in after}
    check(not names, f"the slices as before: {describe_slices(before)}", describe_slices(after))


@requirement("DRV-LIFE-04")
def exit_code(bench: Bench) -> None:
    code = _stopped(bench)
    check(code == 0, "exit code 0", code if code is not None else "it had to be killed")


@requirement("DRV-LIFE-05")
def unreadable_kubeconfig(bench: Bench) -> None:
    bench.start()
    bench.process.stop()
    usual = bench.process.output()
    kubeconfig = bench.node.kubeconfig(bench.descriptor)
    kubeconfig.write_text("this is no kubeconfig: [", encoding="utf-8")
    bench.start(wait=False)
    poll(
        lambda: (
            not bench.process.running
            or any(kubeconfig.name in line for line in news(usual, bench.process.output()))
        ),
        bench.descriptor.ready_seconds,
        "an end with an error, or a line about the file in the driver's output",
        lambda: f"it runs on; {bench.last_words()}",
    )
    if not bench.process.running:
        check(bench.process.exit_code != 0, "an exit code other than 0", bench.process.exit_code)
