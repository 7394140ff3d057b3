"""Tests of restarts: what was prepared stays prepared, and damage to state does not take the driver down."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from conformance.catalogue import requirement
from conformance.contract.bench import Bench
from conformance.contract.cdi import check_no_new_files, resolvable
from conformance.contract.claims import Device
from conformance.contract.plugin import Prepared
from conformance.contract.words import news
from conformance.model import Failed, NotTestable, check
from conformance.waiting import poll

_RESTORE_SECONDS = 15.0
_WORDS_SECONDS = 15.0


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
    (device,) = bench.devices(1)
    bench.warm_up(device)
    before = bench.cdi_files()
    claim = bench.claim(device)
    bench.prepare(claim)
    bench.restart()
    bench.unprepare(claim)
    check_no_new_files(bench, before)
    bench.prepare(bench.claim(device))


@requirement("DRV-RST-02")
def still_held_after_sigkill(bench: Bench) -> None:
    bench.require("whole-devices")
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
    claim = bench.claim(*bench.devices(2, least=1))
    first = bench.prepare(claim)
    bench.restart()
    again = bench.prepare(claim)
    check(first == again, f"Prepare after a restart answers {first}", again)


def _restart_with_empty_cdi(bench: Bench) -> None:
    bench.process.stop()
    for path in bench.node.paths.cdi.iterdir():
        if path.is_file():
            path.unlink()
    bench.start(wait=False)
    bench.wait_answering()


@requirement("DRV-RST-04")
def cdi_emptied_then_prepare(bench: Bench) -> None:
    bench.start()
    claim = bench.claim(*bench.devices(1))
    first = bench.prepare(claim)
    resolvable(bench, first)
    _restart_with_empty_cdi(bench)
    again = bench.prepare(claim)
    check(first == again, f"Prepare after a restart answers {first}", again)
    resolvable(bench, again)


@requirement("DRV-RST-05")
def cdi_emptied_then_start(bench: Bench) -> None:
    bench.start()
    claim = bench.claim(*bench.devices(1))
    answer = bench.prepare(claim)
    resolvable(bench, answer)
    _restart_with_empty_cdi(bench)
    poll(lambda: _is_resolvable(bench, answer), _RESTORE_SECONDS, f"definitions for {answer}")


def _is_resolvable(bench: Bench, answer: Prepared) -> bool:
    try:
        resolvable(bench, answer)
    except Failed:
        return False
    return True


def _stop_with_state(bench: Bench) -> dict[Path, bytes]:
    """Stop the driver: its state files."""
    bench.process.stop()
    paths = [path for path in sorted(bench.node.paths.plugins.rglob("*")) if path.is_file()]
    files = {path: content for path in paths if (content := path.read_bytes())}
    if not files:
        raise NotTestable("the driver keeps no file in its plugin directory")
    return files


def _start_with(bench: Bench, files: Mapping[Path, bytes], device: Device) -> None:
    """Start with these state files: the driver must come up and serve the device."""
    for path, content in files.items():
        path.write_bytes(content)
    bench.start(wait=False)
    bench.wait_answering()
    bench.warm_up(device)


@requirement("DRV-RST-06")
def damaged_state(bench: Bench) -> None:
    bench.spoil()
    bench.start()
    held, free = bench.devices(2)
    bench.prepare(bench.claim(held))
    # What it says about its state when nothing is wrong.
    bench.restart()
    files = _stop_with_state(bench)
    usual = bench.process.output()
    # One wrong byte may pass for good where there is no checksum; half of a file cannot.
    _start_with(bench, {path: _flipped(content) for path, content in files.items()}, free)
    bench.process.stop()
    _start_with(bench, {path: content[: len(content) // 2] for path, content in files.items()}, free)
    names = [path.name for path in files]
    poll(
        lambda: any(name in line for line in news(usual, bench.process.output()) for name in names),
        _WORDS_SECONDS,
        f"a line about a damaged file ({', '.join(names)}) in the driver's output",
        bench.last_words,
    )


def _flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 0x15]) + content[middle + 1 :]


@requirement("DRV-RST-07")
def empty_state(bench: Bench) -> None:
    bench.spoil()
    bench.start()
    held, free = bench.devices(2)
    bench.prepare(bench.claim(held))
    files = _stop_with_state(bench)
    _start_with(bench, dict.fromkeys(files, b""), free)


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
