"""Command line of the reference driver. Exit codes: 0 stopped, 1 cannot run, 2 a setting is missing or wrong."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Final

from driver.sdk import failpoints, log
from driver.sdk.errors import SettingsError

_DRIVER_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
PROFILES: Final = ("gpu",)
_LONGEST_SECONDS: Final = 86400
"""Longest interval; the clocks of the system cannot wait for years."""


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog,
        description="The reference DRA driver: publishes the devices of a hardware tree and prepares claims.",
        allow_abbrev=False,
    )
    option = parser.add_argument
    option("--profile", choices=PROFILES, default="gpu", help="kind of hardware (default: %(default)s)")
    option("--name", help="driver name, a DNS subdomain of at most 63 characters")
    option("--node", "--node-name", dest="node", help="name of the Node")
    option("--kubeconfig", type=Path, help="kubeconfig file (default: the service account of the pod)")
    option("--plugin-dir", type=Path, help="own directory: state and service socket")
    option("--registry-dir", type=Path, help="the kubelet's directory for registration sockets")
    option("--cdi-dir", type=Path, help="directory for CDI specs")
    option("--hw-root", type=Path, help="root of the hardware tree, with sys and dev in it")
    option(
        "--resync-delay",
        type=_seconds,
        default=5.0,
        metavar="S",
        help="repair slices this late (%(default)s)",
    )
    option(
        "--rescan-interval",
        type=_seconds,
        default=2.0,
        metavar="S",
        help="look at the hardware every (%(default)s)",
    )
    option(
        "--reconcile-interval", type=_seconds, default=60.0, metavar="S",
        help="look for claims that have gone every (%(default)s)",
    )  # fmt: skip
    actions = parser.add_mutually_exclusive_group()
    actions.add_argument("--list-failpoints", action="store_true", help="print the failpoints and end")
    actions.add_argument(
        "--ready", action="store_true", help="ask the driver of --plugin-dir if it is ready; exit 0 or 1"
    )
    actions.add_argument(
        "--list-claims", action="store_true", help="print the claims in --plugin-dir as JSON and end"
    )
    return parser


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= _LONGEST_SECONDS:
        raise argparse.ArgumentTypeError(
            f"{text!r} must be a number of seconds above 0 and at most {_LONGEST_SECONDS}"
        )
    return value


def _required(arguments: argparse.Namespace, *names: str) -> None:
    missing = [
        f"--{name.replace('_', '-')}" for name in names if getattr(arguments, name) in (None, "", Path())
    ]
    if missing:
        raise SettingsError(f"{', '.join(missing)} must be given; see --help")


def _check(arguments: argparse.Namespace) -> None:
    """Everything that can be known to be wrong before anything is touched."""
    _required(arguments, "name", "node", "plugin_dir", "registry_dir", "cdi_dir", "hw_root")
    if not _DRIVER_NAME.match(arguments.name) or len(arguments.name) > 63:
        raise SettingsError(
            f"--name {arguments.name!r}: must be a lower-case DNS subdomain of at most 63 characters"
        )
    if not _DRIVER_NAME.match(arguments.node) or len(arguments.node) > 253:
        raise SettingsError(
            f"--node {arguments.node!r}: must be the name of a Node, a lower-case DNS subdomain"
        )
    if arguments.kubeconfig is None and "KUBERNETES_SERVICE_HOST" not in os.environ:
        raise SettingsError("--kubeconfig must be given outside of a pod")
    if arguments.kubeconfig is not None and not os.access(arguments.kubeconfig, os.R_OK):
        raise SettingsError(f"--kubeconfig {arguments.kubeconfig}: cannot be read")
    if not arguments.registry_dir.is_dir():
        raise SettingsError(
            f"--registry-dir {arguments.registry_dir}: is not a directory; the kubelet makes it at start"
        )


def main(arguments: Sequence[str] | None = None, prog: str = "python -m driver") -> int:
    """Answer a question or run the driver; `prog` is its name in the help.

    Returns the exit code, except after a driver has run: at SIGTERM or SIGINT it ends the process itself.
    """
    options = _parser(prog).parse_args(arguments)
    if options.list_failpoints:
        sys.stdout.writelines(f"{name}\t{meaning}\n" for name, meaning in failpoints.POINTS.items())
        return 0
    try:
        failpoints.arm(os.environ.get(failpoints.VARIABLE, ""))
        if options.ready or options.list_claims:
            _required(options, "plugin_dir")
            return _ask(options)
        _check(options)
        return _run(options)
    except (SettingsError, failpoints.FailpointError) as problem:
        sys.stderr.write(f"driver: {problem}\n")
        return 2


def _ask(options: argparse.Namespace) -> int:
    from driver import inspect_state
    from node_api.sockets import SocketPathError

    if not options.plugin_dir.is_dir():
        raise SettingsError(f"--plugin-dir {options.plugin_dir}: is not a directory")
    try:
        return (
            inspect_state.ready(options.plugin_dir)
            if options.ready
            else inspect_state.claims(options.plugin_dir)
        )
    except SocketPathError as problem:
        raise SettingsError(f"--plugin-dir: {problem}") from problem
    except OSError as problem:
        sys.stderr.write(f"driver: {problem}\n")
        return 1


def _run(options: argparse.Namespace) -> int:
    from driver.profiles.gpu import GpuProfile
    from driver.sdk.plugin import InstanceRunningError, Plugin, Settings
    from node_api.sockets import SocketPathError, check_socket_path

    log.start()
    settings = Settings(
        name=options.name,
        node=options.node,
        kubeconfig=options.kubeconfig,
        plugin_dir=options.plugin_dir,
        registry_dir=options.registry_dir,
        cdi_dir=options.cdi_dir,
        resync_delay=options.resync_delay,
        rescan_interval=options.rescan_interval,
        reconcile_interval=options.reconcile_interval,
    )
    try:
        for path in (settings.service_socket, settings.registration_socket):
            check_socket_path(path)
    except SocketPathError as problem:
        raise SettingsError(str(problem)) from problem
    try:
        plugin = Plugin(settings, GpuProfile(options.hw_root))
        _on_signals(lambda *_: plugin.end())
        plugin.start()
    except (InstanceRunningError, SocketPathError, OSError) as problem:
        sys.stderr.write(f"driver: {problem}\n")
        return 1
    plugin.wait()
    plugin.stop()
    _on_signals(signal.SIG_IGN)
    if isinstance(plugin.failure, SettingsError):
        sys.stderr.write(f"driver: {plugin.failure}\n")
    sys.stderr.flush()
    # The interpreter would wait for calls that hang in the hardware, for ever if need be.
    os._exit(_exit_code(plugin.failure))


def _on_signals(handler: Callable[[int, FrameType | None], object] | signal.Handlers) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handler)


def _exit_code(failure: Exception | None) -> int:
    if failure is None:
        return 0
    return 2 if isinstance(failure, SettingsError) else 1
