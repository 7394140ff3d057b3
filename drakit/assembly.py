"""What a process of `drakit up` does with its order: starts cluster and drivers."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from drakit import quiet  # isort: skip - before anything that loads gRPC
from clusters import descriptor as descriptors
from clusters import device_classes, gates, log_files
from clusters.client import ClientError
from clusters.descriptor import Descriptor
from clusters.document import DocumentError
from clusters.embedded.cluster import EmbeddedCluster, check_room
from clusters.embedded.scheduler.config import load_config
from clusters.interface import ClusterError, ClusterSpec, NodeSpec
from clusters.process import StartError
from conformance import catalogue
from drakit import example
from drakit.drivers import Drivers
from drakit.output import counted
from drakit.running import Running
from drakit.state import Folder, Record, StateError

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

    subject = _subject(order)
    cluster = stack.enter_context(EmbeddedCluster(_spec(order), port=order["port"]))
    traces(cluster.owner, cluster.root)
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
    record = Record(
        name=folder.name,
        version=cluster.spec.version,
        server=cluster.url,
        kubeconfig=str(folder.kubeconfig),
        example=str(folder.example) if drivers is not None else "",
        nodes=[node.name for node in cluster.nodes],
        driver=drivers.subject.name if drivers is not None else "",
        created=time.time(),
        gates=order["gates"],
        logs=str(cluster.root / log_files.FOLDER),
    )
    folder.write_record(record)
    answer({"ready": asdict(record)})
    return Running(folder, cluster, drivers)


def _subject(order: dict[str, Any]) -> Descriptor | None:
    if not order["driver"]:
        return None
    subject = descriptors.load(Path(order["driver"]), catalogue.capabilities())
    check_room(subject.name)
    return subject


def _spec(order: dict[str, Any]) -> ClusterSpec:
    """The cluster that is ordered. Raises ClusterError for a configuration that is wrong."""
    try:
        load_config(order["scheduler_config"], gates.effective(order["gates"]))
    except ValueError as error:
        raise ClusterError(f"--scheduler-config {order['scheduler_config_file']}: {error}") from None
    return ClusterSpec(
        nodes=tuple(NodeSpec(machine=order["machine"]) for _ in range(order["nodes"])),
        gates=tuple(order["gates"].items()),
        runtime_config=tuple(order["runtime_config"].items()),
        scheduler_config=order["scheduler_config"],
    )


__all__ = ["quiet", "start"]
