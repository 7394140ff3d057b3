"""Tests of the end of a driver, and of a start that cannot work."""

from __future__ import annotations

from conformance.catalogue import requirement
from conformance.contract.bench import Bench, poll
from conformance.contract.pools import describe_slices
from conformance.model import check


def _stopped(bench: Bench) -> int | None:
    bench.spoil()
    bench.start()
    bench.wait_published()
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
    left = [path.name for path in bench.node.paths.registry.iterdir() if path.is_socket()]
    check(not left, "no registration socket after a clean stop", ", ".join(left))


@requirement("DRV-LIFE-03")
def slices_stay(bench: Bench) -> None:
    bench.spoil()
    bench.start()
    before = bench.wait_published()
    bench.process.stop()
    after = bench.slices()
    names = {item["metadata"]["name"] for item in before} - {item["metadata"]["name"] for item in after}
    check(not names, f"the slices as before: {describe_slices(before)}", describe_slices(after))


@requirement("DRV-LIFE-04")
def exit_code(bench: Bench) -> None:
    code = _stopped(bench)
    check(code == 0, "exit code 0", code if code is not None else "it had to be killed")


@requirement("DRV-LIFE-05")
def unreadable_kubeconfig(bench: Bench) -> None:
    kubeconfig = bench.node.kubeconfig(bench.descriptor)
    kubeconfig.write_text("this is no kubeconfig: [", encoding="utf-8")
    bench.start(wait=False)
    poll(
        lambda: not bench.process.running or kubeconfig.name in bench.process.output(),
        10.0,
        "an end with an error, or the file's name in the driver's output",
        lambda: f"it runs on; its last lines are: {bench.process.tail(5) or 'nothing'}",
    )
    if not bench.process.running:
        check(bench.process.exit_code != 0, "an exit code other than 0", bench.process.exit_code)
