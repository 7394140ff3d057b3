"""`drakit hw`: fake GPU hardware by hand."""

from __future__ import annotations

import click

_SETTINGS = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


@click.command("hw", context_settings=_SETTINGS, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> int:
    """Fake GPU hardware as a directory tree: create, show, fault, heal, journal."""
    from fake_hw import cli

    try:
        return cli.main(list(arguments), prog="drakit hw")
    except SystemExit as stop:
        return int(stop.code or 0)
