"""The command line of fake hardware; `main` is all that another command needs to offer the same."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Never

from fake_hw.errors import HardwareError

Run = Callable[[argparse.Namespace], None]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Never:
        """One line instead of the whole usage."""
        self.exit(2, f"{self.prog}: {message} (try --help)\n")


def main(argv: Sequence[str] | None = None, prog: str = "python -m fake_hw") -> int:
    """Run one command; the exit code is 0, or 2 after one line on stderr for each thing that is wrong.

    `prog` is the command that the help and the errors name. As with argparse, bad usage raises SystemExit(2).
    """
    arguments = _parser(prog).parse_args(argv)
    run: Run = arguments.run
    try:
        run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader, such as head, has enough. Nothing may be written to it when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except HardwareError as error:
        for line in str(error).splitlines():
            sys.stderr.write(f"{prog}: {line}\n")
        return 2
    except OSError as error:
        sys.stderr.write(f"{prog}: {error.filename or arguments.root}: {error.strerror}\n")
        return 2
    return 0


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = _Parser(prog=prog, description="Fake GPU hardware as a directory tree that looks like Linux.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    create = commands.add_parser("create", help="make the tree of a machine")
    create.add_argument("root", type=Path, metavar="ROOT", help="directory to make: absent or empty")
    create.add_argument("--machine", default="dual-numa-4", metavar="NAME|FILE", help="default: %(default)s")
    create.add_argument(
        "--node",
        default="",
        metavar="NODE",
        help="give the GPUs UUIDs of their own, made from this name, unless a FILE says what they are",
    )
    create.add_argument("--force", action="store_true", help="replace a fake hardware tree")
    create.add_argument("--no-mknod", action="store_true", help="regular files instead of character devices")
    create.set_defaults(run=_create)

    machines = commands.add_parser("machines", help="list the machines that come with the program")
    machines.set_defaults(run=_machines, root="")

    show = _with_root(
        commands, "show", "what the tree holds, which faults are set, what is configured", _show
    )
    show.add_argument("--json", action="store_true", help="the same as one JSON document")

    _add_faults(commands)
    _with_root(commands, "heal", "remove every fault", _heal)
    log = _with_root(commands, "journal", "who configured what when, and every double use", _journal)
    log.add_argument("--json", action="store_true", help="the same as one JSON document")
    return parser


def _with_root(commands: Any, name: str, text: str, run: Run) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    parser.add_argument("root", type=Path, metavar="ROOT", help="a fake hardware tree")
    parser.set_defaults(run=run)
    return parser


def _add_faults(commands: Any) -> None:
    fault = _with_root(commands, "fault", "break something", _show)
    kinds = fault.add_subparsers(metavar="KIND", required=True)

    def kind(name: str, text: str, run: Run) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = kinds.add_parser(name, help=text, description=text)
        parser.set_defaults(run=run)
        return parser

    def one(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
        parser.add_argument(
            "bdf", nargs="?", default="*", metavar="GPU", help="BDF or gpu-N, default every one"
        )
        return parser

    vanish = kind("vanish", "take devices off the bus", lambda a: _faults(a).vanish(*a.bdf))
    vanish.add_argument("bdf", nargs="+", metavar="GPU", help="BDF, or gpu-N for the N-th by address")
    back = kind("return", "put vanished devices back", lambda a: _faults(a).bring_back(*a.bdf))
    back.add_argument("bdf", nargs="+", metavar="GPU", help="BDF, or gpu-N for the N-th by address")
    kind("empty", "take every GPU off the bus", lambda a: _faults(a).empty())
    missing = kind("missing", "leave out files or directories", lambda a: _faults(a).missing(*a.target))
    missing.add_argument("target", nargs="+", metavar="TARGET", help="path below ROOT, or GPU/FILE")
    text = kind("text", "give a file another content", _text)
    text.add_argument("target", metavar="TARGET", help="path below ROOT, or GPU/FILE")
    choice = text.add_mutually_exclusive_group(required=True)
    choice.add_argument("--value", metavar="TEXT", help="the new content")
    choice.add_argument("--bad", metavar="NAME", help="empty, too-long, wide, cut-utf8 or not-semver")
    minor = kind("minor", "give GPUs other minor numbers", lambda a: _faults(a).renumber(dict(a.numbers)))
    minor.add_argument("numbers", nargs="+", type=_assignment, metavar="GPU=N")
    fail = one(kind("fail", "let configure calls fail", lambda a: _faults(a).fail_configure(a.bdf, a.call)))
    fail.add_argument("--call", type=int, metavar="N", help="only the N-th call from now on")
    one(kind("block", "let configure calls wait", lambda a: _faults(a).block_configure(a.bdf)))
    one(kind("release", "let blocked calls go on", lambda a: _faults(a).release(a.bdf)))


def _assignment(text: str) -> tuple[str, int]:
    bdf, equals, number = text.partition("=")
    if not equals or not number.isascii() or not number.isdigit():
        raise argparse.ArgumentTypeError(f'"{text}" must be BDF=N, such as 0000:65:01.0=130')
    return bdf, int(number)


def _faults(arguments: argparse.Namespace) -> Any:
    """The faults of the tree. Devices given by number are replaced by their addresses in the arguments."""
    from fake_hw.faults import Faults

    for name in ("bdf", "target"):
        found = getattr(arguments, name, None)
        if isinstance(found, str):
            setattr(arguments, name, _address(arguments.root, found))
        elif found:
            setattr(arguments, name, [_address(arguments.root, text) for text in found])
    if "numbers" in arguments:
        arguments.numbers = [(_address(arguments.root, text), number) for text, number in arguments.numbers]
    return Faults(arguments.root)


def _address(root: Path, text: str) -> str:
    """`gpu-N` or `gpu-N/FILE` with the address of the N-th GPU of the machine by address, present or not."""
    from fake_hw import tree

    match = re.fullmatch(r"gpu-([0-9]{1,9})(/.*)?", text)
    if not match:
        return text
    addresses = sorted(gpu.bdf for gpu in tree.read_marker(root).machine.gpus())
    if int(match[1]) >= len(addresses):
        have = ", ".join(f"gpu-{number}" for number in range(len(addresses))) or "none"
        raise HardwareError(f"{text}: no such GPU; there are {have}")
    return addresses[int(match[1])] + (match[2] or "")


def _create(arguments: argparse.Namespace) -> None:
    from fake_hw import machines, tree

    machine = machines.find(arguments.machine, arguments.node)
    marker = tree.create(machine, arguments.root, force=arguments.force, mknod=not arguments.no_mknod)
    nodes = "character devices" if marker.real_devices else "regular files as device nodes"
    _write(f"{arguments.root}: {machine.name} with {_gpus(len(machine.gpus()))}, {nodes}")


def _gpus(count: int) -> str:
    return f"{count} GPU" if count == 1 else f"{count} GPUs"


def _machines(arguments: argparse.Namespace) -> None:
    from fake_hw import machines

    for name in machines.names():
        _write(f"{name:<12}  {machines.get(name).description or ''}".rstrip())


def _text(arguments: argparse.Namespace) -> None:
    if arguments.bad is not None:
        _faults(arguments).bad_text(arguments.target, arguments.bad)
    else:
        _faults(arguments).text(arguments.target, os.fsencode(arguments.value) + b"\n")


def _heal(arguments: argparse.Namespace) -> None:
    _faults(arguments).heal()


def _show(arguments: argparse.Namespace) -> None:
    from fake_hw import faults, state, tree, usage
    from fake_hw.reader import Host

    directory = state.directory(arguments.root)
    marker = tree.read_marker(arguments.root)
    scan = Host(arguments.root).scan()
    used = usage.load(directory).devices
    active = asdict(faults.load(directory))
    if arguments.json:
        document = {
            "schemaVersion": 1,
            "machine": marker.machine.name,
            "realDevices": marker.real_devices,
            "gpus": [asdict(gpu) for gpu in scan.gpus],
            "problems": scan.problems,
            "faults": active,
            "configured": {
                bdf: {claim: asdict(use) for claim, use in uses.items()} for bdf, uses in used.items()
            },
        }
        _write(json.dumps(document, indent=2, default=str))
        return
    _write(f"machine {marker.machine.name}: {len(scan.gpus)} of {_gpus(len(marker.machine.gpus()))} present")
    rows = [("BDF", "ROOT", "NUMA", "NODE", "MEMORY", "PRODUCT", "CLAIMS")]
    for gpu in scan.gpus:
        numa = "-" if gpu.numa_node is None else str(gpu.numa_node)
        memory = f"{gpu.memory / 2**30:g}Gi" if gpu.memory else "-"
        claims = ",".join(used.get(gpu.bdf, {})) or "-"
        rows.append(
            (gpu.bdf, gpu.pcie_root or "-", numa, gpu.dev_name or "-", memory, gpu.product or "-", claims)
        )
    _table(rows)
    for problem in scan.problems:
        _write(f"problem: {problem}")
    for name, value in active.items():
        if value:
            _write(f"fault: {name} {json.dumps(value)}")


def _journal(arguments: argparse.Namespace) -> None:
    from fake_hw import journal

    events = journal.read(arguments.root)
    overlaps = journal.overlaps(events)
    if arguments.json:
        document = {
            "schemaVersion": 1,
            "events": [asdict(event) for event in events],
            "overlaps": [asdict(overlap) for overlap in overlaps],
        }
        _write(json.dumps(document, indent=2))
        return
    for event in events:
        words = [
            event.time,
            str(event.pid),
            event.kind,
            event.bdf,
            event.claim,
            "shared" if event.shared else "",
        ]
        words += [json.dumps(event.settings) if event.settings else "", event.detail]
        _write("  ".join(word for word in words if word))
    for overlap in overlaps:
        span = "still" if overlap.end_ns is None else f"for {(overlap.end_ns - overlap.start_ns) / 1e9:.6f} s"
        _write(f"DOUBLE USE  {overlap.bdf}  by {overlap.claims[0]} and {overlap.claims[1]}, {span}")


def _table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        _write("  ".join(_padded(row, widths)).rstrip())


def _padded(row: Iterable[str], widths: Iterable[int]) -> Iterable[str]:
    return (cell.ljust(width) for cell, width in zip(row, widths, strict=True))


def _write(line: str) -> None:
    sys.stdout.write(line + "\n")
