"""`drakit driver`: the reference driver by hand."""

from __future__ import annotations

import click

_SETTINGS = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


@click.group("driver")
def command() -> None:
    """The reference DRA driver."""


@command.command("run", context_settings=_SETTINGS, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(arguments: tuple[str, ...]) -> int:
    """Run the driver on a hardware tree until SIGTERM or Ctrl-C; --help lists its settings."""
    from driver import main as driver

    try:
        return driver.main(list(arguments), prog="drakit driver run")
    except SystemExit as stop:
        return int(stop.code or 0)
