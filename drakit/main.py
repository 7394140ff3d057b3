"""Entry point of the drakit command: one thin module per sub-command, loaded when it is used."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import traceback
from typing import NoReturn

import click

from drakit.interrupt import EXIT_CODE as INTERRUPTED
from drakit.output import accept_any_text, say
from drakit.version import __version__

_COMMANDS = {
    "allocate": "drakit.allocate",
    "binaries": "drakit.binaries",
    "cel": "drakit.cel",
    "conformance": "drakit.conformance",
    "devices": "drakit.devices",
    "doctor": "drakit.doctor",
    "down": "drakit.down",
    "driver": "drakit.driver",
    "explain": "drakit.explain",
    "hw": "drakit.hw",
    "kind": "drakit.kind",
    "lint": "drakit.lint",
    "logs": "drakit.logs",
    "rbac": "drakit.rbac",
    "status": "drakit.status",
    "up": "drakit.up",
}
_KIT_BROKE = 3


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
    drakit up                         a whole cluster with fake GPUs, for kubectl
    drakit rbac                       the rights to judge on a cluster of yours
    drakit status, drakit down        show it, end it
    drakit logs COMPONENT             what a component of it has printed
    drakit binaries list              the binaries of real clusters, where they come from
    drakit kind build-image           a node image for --tier kind, without a registry
    drakit doctor                     what is missing here, or wrong in a cluster, and what mends it
    drakit allocate -f FILE           which node and devices Pods and claims would get, without a cluster
    drakit explain pod NAME -f FILE   why a Pod or claim gets them, or none, node by node
    drakit devices -f FILE            what devices there are, who has them, what is free
    drakit cel EXPRESSION -f FILE     what a selector says about each device, and what it costs
    drakit lint FILE                  mistakes in manifests, and what mends them
    drakit hw create DIR              fake GPU hardware as a directory tree
    drakit driver run --profile gpu   the reference driver on such a tree

    Exit codes of conformance: 0 all declared MUSTs hold, 1 a MUST failed, 2 wrong usage or input,
    3 the kit itself broke, 4 nothing was tested.
    """


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code; errors of the user end in one line and exit code 2."""
    try:
        return int(cli.main(args=arguments, prog_name="drakit", standalone_mode=False) or 0)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.Abort:
        say("interrupted; everything it started is stopped")
        return INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.UsageError as error:
        program = error.ctx.command_path if error.ctx else "drakit"
        say(f"{error.format_message()} ({program} --help tells what there is)")
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except BrokenPipeError:
        # The reader of help or version has enough.
        return 0
    except Exception as error:  # noqa: BLE001 - whatever else happens is a fault of the kit, and has its exit code
        traceback.print_exc()
        say(f"the kit itself broke: {type(error).__name__}: {error}; please report it with the lines above")
        return _KIT_BROKE


def script() -> NoReturn:
    """Console script."""
    accept_any_text()
    code = main()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    # Tests that an interrupt has left behind may hang in a call that nothing ends: nobody waits for their threads.
    os._exit(code)
