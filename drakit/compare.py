"""The same requirements on several kinds of clusters, and both verdicts side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from conformance.report import document, terminal
from conformance.report.comparison import Side, build, exit_code, print_comparison
from drakit.judge import Order, print_report_files, run, write_reports
from drakit.output import UserError, say, standard_output, write_out
from drakit.tiers import Tier


def compare(order: Order, tiers: Sequence[Tier], *, report_dir: Path | None, as_json: bool) -> int:
    """Run what is asked for on each tier, one after another, and print where verdicts differ; the gravest exit code.

    Reports of each go to a folder of its name. Raises ClusterError, InputError and UserError when the user has to
    change something.
    """
    for tier in tiers:
        # What is missing for the last one is told before the first one has run.
        tier.check_driver(order.subject.name)
        tier.get_ready(say)
    sides: dict[str, Side] = {}
    folders: list[Path] = []
    unwritten: list[str] = []
    for tier in tiers:
        done = run(order, tier)
        sides[tier.name] = Side(done.context, done.results, done.seconds)
        if report_dir is not None:
            folder = report_dir / tier.name
            problem = write_reports(folder, done)
            unwritten += [problem] if problem else []
            folders += [] if problem else [folder]
    if as_json:
        write_out(document.to_json(build(sides)))
    else:
        with standard_output() as console:
            print_comparison(console, sides)
            if folders:
                print_report_files(console, folders)
    if unwritten:
        raise UserError("\n".join(unwritten))
    code = exit_code([document.exit_code(side.results) for side in sides.values()])
    if as_json and code:
        say(terminal.CONCLUSIONS[code])
    return code
