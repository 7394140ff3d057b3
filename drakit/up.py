"""`drakit up`: a whole cluster in the background."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from clusters import gates
from clusters.gates import GateError
from clusters.process import exit_text
from drakit import tiers
from drakit.interrupt import stoppable
from drakit.output import UserError, counted, say, write_out
from drakit.state import Folder, StateError

_DEFAULT_NAME: Final = "drakit"
_DEFAULT_MACHINE: Final = "dual-numa-4"
_MOST_SCHEDULERS: Final = 16
_LEDGER_VARIABLE: Final = "DRAKIT_LEDGER"
# The containers of a kind cluster end one by one on a busy machine.
_STOP_SECONDS: Final = 90.0
_LAST_LINES: Final = 20
_COULD_NOT, _KIT_BROKE = 1, 3


@dataclass(frozen=True)
class Order:
    """A cluster for the background: what the options of the command say, with files and drivers as absolute paths."""

    name: str
    nodes: int
    tier: str
    version: str
    machine: str = _DEFAULT_MACHINE
    binaries: str = ""
    gates: dict[str, bool] = field(default_factory=dict)
    runtime_config: dict[str, bool] = field(default_factory=dict)
    kubelet: dict[str, str] = field(default_factory=dict)
    scheduler_config: str = ""
    scheduler_config_file: str = ""
    schedulers: int = 1
    ledger: str = ""
    driver: str = ""
    port: int = 0


class KitBrokeError(Exception):
    """The keeper ended by a fault of the kit, or was killed; the text is what is known."""


@click.command("up")
@click.option(
    "--name", default=_DEFAULT_NAME, show_default=True, help="Name of the cluster; several can run."
)
@click.option(
    "--nodes", type=click.IntRange(0, 200), default=2, show_default=True, help="How many nodes it has."
)
@click.option("--gpus", type=click.IntRange(1, 240), help="Fake GPUs of each node.  [default: 4]")
@click.option("--machine", metavar="NAME|FILE", help="The machine that each node is, instead of --gpus.")
@click.option(
    "--tier",
    type=click.Choice(tiers.NAMES),
    default=tiers.DEFAULT,
    show_default=True,
    help="embedded: drakit's own components; local: real Kubernetes and kubelets as processes, as root; "
    "kind: real Kubernetes in containers.",
)
@click.option(
    "--kubernetes-version",
    metavar="VERSION",
    default=gates.LATEST,
    show_default=True,
    help=f"Kubernetes of a local or kind cluster: {', '.join(gates.VERSIONS)}, or one of their patch releases.",
)
@click.option(
    "--binaries",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Take the binaries of a local cluster from here.",
)
@click.option(
    "--feature-gates",
    metavar="GATE=true,...|all",
    default="",
    help="Gates other than by default; all switches every gate of DRA on.",
)
@click.option(
    "--runtime-config", metavar="API=true,...", default="", help="API versions other than by default."
)
@click.option(
    "--scheduler-config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A KubeSchedulerConfiguration.",
)
@click.option(
    "--schedulers",
    type=click.IntRange(1, _MOST_SCHEDULERS),
    default=1,
    show_default=True,
    help="How many schedulers share the Pods of an embedded cluster (docs/ledger.md).",
)
@click.option(
    "--ledger",
    metavar="URL",
    envvar=_LEDGER_VARIABLE,
    default="",
    help="The Redis server through which several schedulers allocate: redis://, rediss:// or unix://.  "
    "[default: one of the cluster's own]",
)
@click.option(
    "--driver",
    type=click.Path(path_type=Path),
    metavar="DRIVER.yaml",
    help="Run this driver on each node instead of the reference driver.",
)
@click.option("--no-driver", is_flag=True, help="Run no driver.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port of the API server.  [default: a free one]"
)
@click.option("--json", "as_json", is_flag=True, help="Print the record of the cluster as JSON.")
def command(
    name: str,
    nodes: int,
    gpus: int | None,
    machine: str | None,
    tier: str,
    kubernetes_version: str,
    binaries: Path | None,
    feature_gates: str,
    runtime_config: str,
    scheduler_config: Path | None,
    schedulers: int,
    ledger: str,
    driver: Path | None,
    no_driver: bool,
    port: int,
    as_json: bool,
) -> int:
    """Start a whole cluster on this machine: API server, scheduler, controllers, and nodes with fake GPUs.

    It runs in the background until "drakit down". Of the embedded tier every component is drakit's own and runs without
    root; of the local tier all are Kubernetes' own, and need root. Neither needs Docker, and what runs in containers is
    simulated (docs/cluster.md says what they can do). Nodes of the kind tier are containers; what runs on them is real.
    """
    if gpus is not None and machine is not None:
        raise UserError("--gpus and --machine exclude each other: a machine has its number of GPUs")
    if no_driver and driver is not None:
        raise UserError("--driver and --no-driver exclude each other")
    if schedulers > 1 and tier != tiers.DEFAULT:
        raise UserError(f"--schedulers: a {tier} cluster has one, Kubernetes' own; leave --tier {tier} out")
    if schedulers == 1:
        if _is_given("ledger"):
            raise UserError("--ledger is for several schedulers; give --schedulers 2 or more as well")
        ledger = ""
    order = Order(
        name=name,
        nodes=nodes,
        machine=_machine(gpus, machine),
        tier=tier,
        version=kubernetes_version,
        binaries=str(binaries.resolve()) if binaries else "",
        gates=_gates(feature_gates, kubernetes_version),
        runtime_config=_versions(runtime_config),
        scheduler_config=_read(scheduler_config) if scheduler_config else "",
        scheduler_config_file=str(scheduler_config or ""),
        schedulers=schedulers,
        ledger=ledger,
        driver="" if no_driver else str(driver.resolve() if driver else reference_driver()),
        port=port,
    )
    note: Callable[[str], None] = (lambda text: None) if as_json else say
    if ledger:
        # One that cannot be reached takes its time.
        note(f"asking the ledger at {_ledger_address(ledger)}")
    try:
        record = start(order, note)
    except StateError as error:
        raise UserError(str(error)) from None
    except OSError as error:
        raise UserError(f"{error.filename or 'cannot start'}: {error.strerror}") from None
    except KitBrokeError as error:
        say(f"the kit itself broke; please report it with these lines:\n{error}")
        return _KIT_BROKE
    except KeyboardInterrupt:
        raise click.Abort from None
    if as_json:
        write_out(json.dumps(record, indent=2) + "\n")
    else:
        write_out(_welcome(record))
    return 0


def reference_driver() -> Path:
    """The descriptor of the reference driver, as installed."""
    import driver

    return Path(driver.__file__).parent / "reference.yaml"


def _is_given(option: str) -> bool:
    """Whether an option stands in the command line itself."""
    return click.get_current_context().get_parameter_source(option) is ParameterSource.COMMANDLINE


def _ledger_address(url: str) -> str:
    """The URL as it may be shown."""
    from allocator.ledger import address

    try:
        return address.parse(url).where
    except ValueError as error:
        raise UserError(f"{'--ledger' if _is_given('ledger') else _LEDGER_VARIABLE}: {error}") from None


def _machine(gpus: int | None, machine: str | None) -> str:
    if machine is None:
        return f"gpus-{gpus}" if gpus is not None else _DEFAULT_MACHINE
    from fake_hw import machines
    from fake_hw.errors import HardwareError

    try:
        machines.find(machine)
    except HardwareError as error:
        raise UserError(f"--machine: {error}") from None
    is_file = "/" in machine or Path(machine).suffix
    return str(Path(machine).resolve()) if is_file else machine


def _gates(text: str, version: str) -> dict[str, bool]:
    minor = tiers.minor(version)
    if minor not in gates.VERSIONS:
        raise UserError(
            f"--kubernetes-version: {version} is not known; there are {', '.join(reversed(gates.VERSIONS))}"
        )
    try:
        chosen = gates.choose(text, minor)
        gates.effective(chosen, minor)
    except GateError as error:
        raise UserError(f"--feature-gates: {error}") from None
    return chosen


def _versions(text: str) -> dict[str, bool]:
    """As kube-apiserver reads it: a version without a value is switched on."""
    words = [word.strip() for word in text.split(",")]
    try:
        return gates.parse(",".join(word if "=" in word or not word else f"{word}=true" for word in words))
    except GateError as error:
        raise UserError(f"--runtime-config: {error}") from None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UserError(f"--scheduler-config {path}: cannot be read: {why}") from None


def start(order: Order, note: Callable[[str], None]) -> dict[str, Any]:
    """Start a keeper and wait for its word, the record of the cluster; `note` gets what it says meanwhile.

    Raises StateError when the user has to change something, OSError, and KitBrokeError.
    """
    folder = Folder(order.name)
    # The order has the URL, and its password is nothing for drivers.
    environment = {name: value for name, value in os.environ.items() if name != _LEDGER_VARIABLE}
    with stoppable():
        keeper = subprocess.Popen(
            [sys.executable, "-P", "-m", "drakit.keeper"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={
                **environment,
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                "TMPDIR": tempfile.gettempdir(),
            },
        )
        try:
            return _follow(keeper, order, folder, note)
        except BaseException:
            _end(keeper, folder)
            raise
        finally:
            for pipe in (keeper.stdout, keeper.stderr):
                if pipe is not None:
                    pipe.close()


def _follow(
    keeper: subprocess.Popen[bytes], order: Order, folder: Folder, note: Callable[[str], None]
) -> dict[str, Any]:
    assert keeper.stdin and keeper.stdout and keeper.stderr  # noqa: S101 - all are pipes
    with contextlib.suppress(BrokenPipeError):
        text = json.dumps({**asdict(order), "python_path": os.environ.get("PYTHONPATH")})
        keeper.stdin.write(text.encode())
        keeper.stdin.close()
    for line in keeper.stdout:
        message = json.loads(line)
        if "ready" in message:
            record: dict[str, Any] = message["ready"]
            return record
        if "error" in message:
            raise StateError(message["error"])
        if "broke" in message:
            raise KitBrokeError(message["broke"])
        note(message["note"])
    how = exit_text(keeper.wait())
    lines = [*keeper.stderr.read().decode(errors="replace").splitlines(), *folder.last_log()][-_LAST_LINES:]
    raise KitBrokeError("\n".join([f"the process of the cluster ended with {how}", *lines]))


def _end(keeper: subprocess.Popen[bytes], folder: Folder) -> None:
    """End the keeper; nothing is left of the cluster."""
    if keeper.poll() is None:
        keeper.send_signal(signal.SIGTERM)
    try:
        keeper.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        keeper.kill()
        keeper.wait()
    if keeper.returncode != _COULD_NOT:
        # It was killed before it could clean up itself.
        with contextlib.suppress(OSError):
            folder.clear()


def _welcome(record: dict[str, Any]) -> str:
    name = "" if record["name"] == _DEFAULT_NAME else f" --name {record['name']}"
    kind = f"Kubernetes {record['version']} ({record['tier']})"
    lines = [
        f'cluster "{record["name"]}" is ready: {kind}, {counted(len(record["nodes"]), "node")}'
        + (f", {record['schedulers']} schedulers" if record["schedulers"] > 1 else "")
        + (f" with driver {record['driver']}" if record["driver"] else ""),
        "",
        f"  export KUBECONFIG={shlex.quote(record['kubeconfig'])}",
        "  kubectl get nodes,resourceslices",
    ]
    if record["example"]:
        lines += [
            f"  kubectl apply -f {shlex.quote(record['example'])}",
            "  kubectl wait --for=condition=Ready pod/example",
            "  kubectl logs example",
        ]
    lines += [f"  drakit status{name}", f"  drakit down{name}", ""]
    return "\n".join(lines)
