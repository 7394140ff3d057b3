"""Entry point of the drakit command: one thin module per sub-command, loaded when it is used."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

from drakit.version import __version__

_COMMANDS = {
    "conformance": "drakit.conformance",
    "driver": "drakit.driver",
    "hw": "drakit.hw",
}


class _LazyGroup(click.Group):
    """Imports a sub-command only when it is asked for, so that each starts quickly."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(_COMMANDS[cmd_name]).command
        return command


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="drakit")
def cli() -> None:
    """Prove Kubernetes DRA drivers and clusters.

    \b
    drakit conformance DRIVER.yaml    judge a driver, a verdict per requirement
    drakit hw create DIR              fake GPU hardware as a directory tree
    drakit driver run --profile gpu   the reference driver on such a tree

    Exit codes of conformance: 0 all declared MUSTs hold, 1 a MUST failed, 2 wrong usage or input,
    3 the kit itself broke, 4 nothing was tested.
    """


def main(arguments: list[str] | None = None) -> Any:
    """Run the command; errors of the user end in one line and exit code 2."""
    try:
        return cli.main(args=arguments, prog_name="drakit", standalone_mode=False) or 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.Abort:
        click.echo("drakit: interrupted; everything it started is stopped", err=True)
        return 130
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except BrokenPipeError:
        sys.stderr.close()
        return 141


def script() -> None:
    """Console script."""
    sys.exit(main())
