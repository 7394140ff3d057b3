"""Tests of restarts: what was prepared stays prepared, and damage to state does not take the driver down."""

from __future__ import annotations

from pathlib import Path

from conformance.catalogue import requirement
from conformance.contract.bench import Bench, poll
from conformance.contract.cdi import resolvable
from conformance.model import NotTestable, check


def _restart(bench: Bench) -> None:
    bench.process.stop()
    bench.start(wait=False)
    bench.wait_answering()


def _state_files(bench: Bench) -> list[Path]:
    files = [
        path for path in sorted(bench.node.paths.plugins.rglob("*")) if path.is_file() and path.stat().st_size
    ]
    if not files:
        raise NotTestable("the driver keeps no file in its plugin directory")
    return files


@requirement("DRV-RST-01")
def unprepare_after_restart(bench: Bench) -> None:
    bench.start()
    before = set(bench.cdi_files())
    (device,) = bench.devices(1)
    claim = bench.claim(device)
    bench.prepare(claim)
    _restart(bench)
    bench.unprepare(claim)
    leftover = set(bench.cdi_files()) - before
    check(not leftover, "the CDI directory as before the claim", f"new files {', '.join(sorted(leftover))}")
    bench.prepare(bench.claim(device))


@requirement("DRV-RST-02")
def still_held_after_sigkill(bench: Bench) -> None:
    bench.start()
    (device,) = bench.devices(1)
    holder = bench.claim(device)
    bench.prepare(holder)
    bench.process.kill()
    bench.start(wait=False)
    bench.wait_answering()
    other = bench.claim(device)
    bench.refuse(other, f"claim {holder.name} holds {device.pool}/{device.name}")
    bench.unprepare(holder)
    bench.prepare(other)


@requirement("DRV-RST-03")
def same_answer_after_restart(bench: Bench) -> None:
    bench.start()
    claim = bench.claim(*bench.devices(2))
    first = bench.prepare(claim)
    _restart(bench)
    again = bench.prepare(claim)
    check(first == again, f"Prepare after a restart answers {first}", again)
    resolvable(bench, again)


def _empty_cdi(bench: Bench) -> None:
    for path in bench.node.paths.cdi.iterdir():
        if path.is_file():
            path.unlink()


@requirement("DRV-RST-04")
def cdi_emptied_then_prepare(bench: Bench) -> None:
    bench.start()
    claim = bench.claim(*bench.devices(1))
    first = bench.prepare(claim)
    bench.process.stop()
    _empty_cdi(bench)
    bench.start(wait=False)
    bench.wait_answering()
    again = bench.prepare(claim)
    check(first == again, f"Prepare after a restart answers {first}", again)
    resolvable(bench, again)


@requirement("DRV-RST-05")
def cdi_emptied_then_start(bench: Bench) -> None:
    bench.start()
    claim = bench.claim(*bench.devices(1))
    answer = bench.prepare(claim)
    bench.process.stop()
    _empty_cdi(bench)
    bench.start(wait=False)
    bench.wait_answering()
    resolvable(bench, answer)


def _damage(bench: Bench, damaged: dict[Path, bytes]) -> None:
    """Prepare, stop, damage the state, start: the driver must come up and serve a device that nobody held."""
    for path, content in damaged.items():
        path.write_bytes(content)
    bench.start(wait=False)
    bench.wait_answering()


@requirement("DRV-RST-06")
def damaged_state(bench: Bench) -> None:
    bench.spoil()
    bench.start()
    held, free = bench.devices(2)
    bench.prepare(bench.claim(held))
    bench.process.stop()
    before = len(bench.process.output())
    files = _state_files(bench)
    damaged = {}
    for path in files:
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 0x15
        damaged[path] = bytes(content)
    _damage(bench, damaged)
    bench.prepare(bench.claim(free))
    names = [path.name for path in files]
    poll(
        lambda: any(name in bench.process.output()[before:] for name in names),
        5.0,
        f"the name of a damaged file ({', '.join(names)}) in the driver's output",
        lambda: f"its last lines are: {bench.process.tail(5)}",
    )


@requirement("DRV-RST-07")
def empty_state(bench: Bench) -> None:
    bench.spoil()
    bench.start()
    held, free = bench.devices(2)
    bench.prepare(bench.claim(held))
    bench.process.stop()
    _damage(bench, dict.fromkeys(_state_files(bench), b""))
    bench.prepare(bench.claim(free))


@requirement("DRV-RST-08")
def vanished_device(bench: Bench) -> None:
    bench.spoil()
    bench.start()
    vanishing, staying = bench.devices(2)
    lost, kept = bench.claim(vanishing), bench.claim(staying)
    bench.prepare(lost)
    answer = bench.prepare(kept)
    bench.process.stop()
    bench.hook("vanishDevice", vanishing)
    bench.start(wait=False)
    bench.wait_answering()
    again = bench.prepare(kept)
    check(answer == again, f"Prepare of the unharmed claim answers {answer}", again)
    bench.unprepare(lost)
