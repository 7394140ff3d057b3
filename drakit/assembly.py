"""What a process of `drakit up` does with its order: starts cluster and drivers."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from drakit import quiet  # isort: skip - before anything that loads gRPC
from clusters import descriptor as descriptors
from clusters import device_classes, log_files
from clusters.client import Client, ClientError
from clusters.descriptor import Descriptor
from clusters.document import DocumentError
from clusters.interface import ClusterError, ClusterSpec, NodeSpec
from clusters.process import StartError
from conformance import catalogue
from drakit import example, tiers
from drakit.drivers import Drivers
from drakit.output import counted
from drakit.running import Running
from drakit.state import Folder, Record, StateError
from drakit.tiers import Tier

Answer = Callable[[dict[str, Any]], None]


def start(
    folder: Folder,
    order: dict[str, Any],
    traces: Callable[[str, Path], None],
    stack: contextlib.ExitStack,
    answer: Answer,
) -> Running:
    """Start everything and say so by `answer`; what is to be ended goes onto the stack.

    `traces` is what `Folder.held` yields. Raises StateError when the user has to change something, and OSError.
    """
    try:
        return _start(folder, order, traces, stack, answer)
    except StartError as error:
        raise StateError(f"{order['driver']}: {error}") from None
    except (ClusterError, DocumentError, ClientError) as error:
        raise StateError(str(error)) from None


def _start(
    folder: Folder,
    order: dict[str, Any],
    traces: Callable[[str, Path], None],
    stack: contextlib.ExitStack,
    answer: Answer,
) -> Running:
    begin = time.monotonic()

    def note(text: str) -> None:
        answer({"note": f"{text} ({time.monotonic() - begin:.1f} s)"})

    tier = tiers.find(order["tier"], order["version"], Path(order["binaries"]) if order["binaries"] else None)
    subject = _subject(order, tier)
    spec = _spec(order, tier)
    stack.callback(tier.close)
    tier.get_ready(note)
    cluster = stack.enter_context(tier.start(spec, port=order["port"], begun=traces))
    note(f"API server at {cluster.url}")
    # As kind does: files that are joined in KUBECONFIG keep their clusters apart.
    cluster.write_kubeconfig(folder.kubeconfig, f"drakit-{folder.name}")
    # A kubelet that starts removes the slices of its node: drivers come afterwards.
    cluster.wait_ready()
    note(f"{counted(len(cluster.nodes), 'node')} Ready")
    drivers = Drivers(cluster, subject) if subject is not None and cluster.nodes else None
    if drivers is not None:
        drivers.start()
        classes = device_classes.ensure(cluster.client(), drivers.subject)
        folder.example.write_text(example.manifest(classes[0]), encoding="utf-8")
        note(f"{counted(drivers.wait_published(), 'device')} of {drivers.subject.name}")
        if missing := drivers.wait_registered():
            note(f"the driver has not registered with the kubelet of {', '.join(missing)}")
    record = Record(
        name=folder.name,
        version=_version(cluster.client()),
        tier=tier.name,
        server=cluster.url,
        kubeconfig=str(folder.kubeconfig),
        example=str(folder.example) if drivers is not None else "",
        nodes=[node.name for node in cluster.nodes],
        driver=drivers.subject.name if drivers is not None else "",
        created=time.time(),
        gates=order["gates"],
        schedulers=order["schedulers"],
        logs=str(cluster.root / log_files.FOLDER),
        log_commands={
            name: [list(command.once), list(command.follow)]
            for name, command in cluster.log_commands().items()
        },
    )
    folder.write_record(record)
    answer({"ready": record.shown()})
    return Running(folder, cluster, drivers)


def _version(client: Client) -> str:
    """The full version of the API server, such as 1.37.2."""
    return str(client.request("GET", "/version")["gitVersion"]).removeprefix("v")


def _subject(order: dict[str, Any], tier: Tier) -> Descriptor | None:
    if not order["driver"]:
        return None
    subject = descriptors.load(Path(order["driver"]), catalogue.capabilities())
    tier.check_driver(subject.name)
    return subject


def _spec(order: dict[str, Any], tier: Tier) -> ClusterSpec:
    """The cluster that is ordered. Raises ClusterError for a configuration that is wrong."""
    spec = ClusterSpec(
        version=tier.version,
        nodes=tuple(NodeSpec(machine=order["machine"]) for _ in range(order["nodes"])),
        gates=tuple(order["gates"].items()),
        runtime_config=tuple(order["runtime_config"].items()),
        kubelet=tuple(order["kubelet"].items()),
        scheduler_config=order["scheduler_config"],
        schedulers=order["schedulers"],
        ledger=order["ledger"],
    )
    try:
        tier.check(spec)
    except ValueError as error:
        raise ClusterError(f"--scheduler-config {order['scheduler_config_file']}: {error}") from None
    return spec


__all__ = ["quiet", "start"]
