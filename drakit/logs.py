"""`drakit logs`: what a component of a cluster of `drakit up` has printed."""

from __future__ import annotations

import contextlib
import difflib
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Final

import click

from clusters.log_files import EARLIER, LogCommand, found
from conformance.report.layout import clean
from drakit.interrupt import EXIT_CODE as INTERRUPTED
from drakit.output import UserError, drop_output, write_out
from drakit.state import Folder, StateError, all_folders

_POLL: Final = 0.2
_SECONDS, _LAST_LINE_SECONDS = 60.0, 5.0
_LAST_BYTES: Final = 16_384
KEEPER: Final = "keeper"
"""Name of the log of the process that holds the cluster."""


@click.command("logs")
@click.argument("component", required=False)
@click.option("--name", default="drakit", show_default=True, help="Name of the cluster.")
@click.option("-f", "--follow", is_flag=True, help="Go on with what is printed from now on, until Ctrl-C.")
@click.option(
    "--tail", type=click.IntRange(min=0), metavar="N", help="Only the last N lines.  [default: all]"
)
def command(component: str | None, name: str, follow: bool, tail: int | None) -> int:
    """Print the log of a component of a cluster; without COMPONENT, list what there is."""
    try:
        folder = Folder(name)
        if not folder.exists():
            others = ", ".join(other.name for other in all_folders())
            raise UserError(f'no cluster "{name}"' + (f"; there is {others}" if others else ""))
        logs = available(folder)
        if component is None:
            if follow or tail is not None:
                raise UserError(f"which component? there are {', '.join(logs)}")
            write_out("".join(f"{log}\n" for log in logs))
            return 0
        log = _choose(component, logs)
        if isinstance(log, LogCommand):
            _show_command(log, tail, follow=follow)
        else:
            _show(log, tail, follow=follow, running=folder.running)
    except StateError as error:
        raise UserError(str(error)) from None
    except OSError as error:
        raise UserError(f"{error.filename or 'cannot be read'}: {error.strerror}") from None
    except KeyboardInterrupt:
        # The usual end of --follow.
        return 0 if follow else INTERRUPTED
    return 0


def available(folder: Folder) -> dict[str, Path | LogCommand]:
    """The logs of a cluster by the names of their components: files, or commands that print them."""
    record = folder.record()
    logs: dict[str, Path | LogCommand] = {}
    if record is not None:
        logs |= {
            name: LogCommand(tuple(once), tuple(follow))
            for name, (once, follow) in record.log_commands.items()
        }
        logs |= found(Path(record.logs)) if record.logs else {}
    return logs | ({KEEPER: folder.log} if folder.log.exists() else {})


def _choose(component: str, logs: dict[str, Path | LogCommand]) -> Path | LogCommand:
    if component in logs:
        return logs[component]
    close = difflib.get_close_matches(component, logs, 1)
    hint = f', did you mean "{close[0]}"?' if close else ""
    there = f"; there are {', '.join(logs)}" if logs else "; there is no log yet"
    raise UserError(f'no component "{component}"{hint}{there}')


def last_line(log: Path | LogCommand) -> str:
    """The last line of a log that is not empty; "" when there is none."""
    try:
        if isinstance(log, LogCommand):
            data = _printed(log, _LAST_LINE_SECONDS)[-_LAST_BYTES:]
        else:
            with log.open("rb") as file:
                file.seek(max(0, log.stat().st_size - _LAST_BYTES))
                data = file.read()
    except (OSError, UserError):
        return ""
    lines = [line.strip() for line in data.decode(errors="replace").splitlines()]
    return next((line for line in reversed(lines) if line), "")


def _printed(log: LogCommand, seconds: float = _SECONDS) -> bytes:
    """What a command prints of a log. Raises UserError when it cannot."""
    try:
        done = subprocess.run(  # noqa: S603 - words that the keeper of the cluster has written down
            log.once, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False
        )
    except OSError as error:
        raise UserError(f"{log.once[0]}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise UserError(f"{log.once[0]} does not print the log within {seconds:g} s") from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip() or "it said nothing"
        raise UserError(f"the log cannot be read: {said}")
    return done.stdout


def _show_command(log: LogCommand, tail: int | None, *, follow: bool) -> None:
    """Print what a command prints; one that goes on ends with the container that it runs in."""
    try:
        if not follow:
            lines = _printed(log).splitlines(keepends=True)
            _print(lines if tail is None else deque(lines, tail))
            return
        before = 0 if tail is None else max(0, len(_printed(log).splitlines()) - tail)
        with subprocess.Popen(  # noqa: S603 - as above
            log.follow, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        ) as process:
            try:
                assert process.stdout is not None  # noqa: S101 - it is a pipe
                for number, line in enumerate(process.stdout):
                    if number >= before:
                        _print([line])
            finally:
                process.terminate()
    except BrokenPipeError:
        drop_output()


def _show(path: Path, tail: int | None, *, follow: bool, running: Callable[[], bool]) -> None:
    try:
        with path.open("rb") as file:
            lines: Iterable[bytes] = _lines(path, file)
            _print(lines if tail is None else deque(lines, tail))
            if follow:
                _follow(path, file, running)
    except BrokenPipeError:
        drop_output()


def _lines(path: Path, file: IO[bytes]) -> Iterator[bytes]:
    """What is there, the earlier part of a long log first."""
    earlier = path.with_name(path.name + EARLIER)
    if earlier.exists():
        with earlier.open("rb") as before:
            yield from before
    yield from file


def _follow(path: Path, file: IO[bytes], running: Callable[[], bool]) -> None:
    """Print what comes until the cluster has gone."""
    pause = threading.Event()
    with contextlib.ExitStack() as stack:
        while True:
            # Asked before reading: what came before the end is printed.
            alive = running()
            try:
                anew = not os.path.samestat(os.fstat(file.fileno()), path.stat())
            except FileNotFoundError:
                alive = anew = False
            if os.fstat(file.fileno()).st_size < file.tell():
                # A process that holds its log open goes on at the beginning.
                file.seek(0)
            _print(file)
            if anew:
                file = stack.enter_context(path.open("rb"))
            elif not alive:
                return
            else:
                pause.wait(_POLL)


def _print(lines: Iterable[bytes]) -> None:
    """Raises BrokenPipeError when nobody reads."""
    for line in lines:
        end = "\n" if line.endswith(b"\n") else ""
        sys.stdout.write(clean(line.decode(errors="replace").rstrip("\r\n")) + end)
    sys.stdout.flush()
