"""The background process that holds a cluster of `drakit up`.

It reads its order as one JSON document on standard input and answers on standard output with JSON lines: {"note":
TEXT}, and at last {"ready": RECORD} or {"error": TEXT}. Afterwards it lives until SIGTERM.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from drakit import quiet  # isort: skip - before anything that loads gRPC
from clusters import descriptor as descriptors
from clusters import device_classes
from clusters.client import Client, ClientError
from clusters.descriptor import Descriptor
from clusters.document import DocumentError
from clusters.embedded.cluster import EmbeddedCluster, check_room
from clusters.interface import ClusterError, ClusterSpec, NodeSpec
from clusters.process import DriverProcess, StartError, exit_text
from conformance import catalogue
from drakit import example
from drakit.state import Folder, Record, StateError

_LOG: Final = logging.getLogger("drakit.keeper")
_POLL: Final = 0.5
_SLICE_POLL: Final = 0.05
_FIRST_PAUSE, _LAST_PAUSE = 1.0, 30.0


def main() -> int:
    """Hold one cluster; the exit code is 0 after an orderly end and 1 when it could not be started."""
    order: dict[str, Any] = json.load(sys.stdin)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    logging.basicConfig(format="%(asctime)s %(name)s %(levelname).1s %(message)s", level=logging.WARNING)
    _LOG.setLevel(logging.INFO)
    folder = Folder(order["name"])
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(folder.held())
        except (StateError, OSError) as error:
            return _failed(error)
        stack.callback(folder.remove)
        try:
            _keep(folder, order, stopping, stack)
        except (ClusterError, DocumentError, StartError, StateError, ClientError, OSError) as error:
            return _failed(error)
        except BaseException as error:
            _answer({"error": f"the kit itself broke: {type(error).__name__}: {error}"})
            raise
    return 0


def _keep(
    folder: Folder, order: dict[str, Any], stopping: threading.Event, stack: contextlib.ExitStack
) -> None:
    begin = time.monotonic()

    def note(text: str) -> None:
        _answer({"note": f"{text} ({time.monotonic() - begin:.1f} s)"})

    subject = None
    if order["driver"]:
        subject = descriptors.load(Path(order["driver"]), catalogue.capabilities())
        check_room(subject.name)
    spec = ClusterSpec(
        nodes=tuple(NodeSpec(machine=order["machine"]) for _ in range(order["nodes"])),
        gates=tuple(order["gates"].items()),
        runtime_config=tuple(order["runtime_config"].items()),
        scheduler_config=order["scheduler_config"],
    )
    cluster = stack.enter_context(EmbeddedCluster(spec, port=order["port"]))
    note(f"API server at {cluster.url}")
    cluster.write_kubeconfig(folder.kubeconfig)
    drivers = _Drivers(cluster, subject) if subject else None
    # A kubelet that starts removes the slices of its node: drivers come afterwards.
    cluster.wait_ready()
    note(f"{len(cluster.nodes)} nodes Ready")
    if drivers is not None:
        drivers.start()
        classes = device_classes.ensure(cluster.client(), drivers.subject)
        folder.example.write_text(example.manifest(classes[0]), encoding="utf-8")
        note(f"{drivers.wait_published(stopping)} devices of {drivers.subject.name}")
    record = Record(
        name=folder.name,
        version=spec.version,
        server=cluster.url,
        kubeconfig=str(folder.kubeconfig),
        example=str(folder.example) if drivers else "",
        nodes=[node.name for node in cluster.nodes],
        driver=subject.name if subject else "",
        created=time.time(),
        gates=order["gates"],
    )
    folder.write_record(record)
    _answer({"ready": asdict(record)})
    _detach()
    while not stopping.wait(_POLL):
        if drivers is not None:
            drivers.revive()
    _LOG.info("asked to end")


class _Drivers:
    """The driver on every node, started anew when it ends, as a DaemonSet would."""

    def __init__(self, cluster: EmbeddedCluster, subject: Descriptor) -> None:
        self.subject = subject
        self._cluster = cluster
        self._running: dict[str, DriverProcess] = {}
        self._due: dict[str, float] = {}
        self._pause: dict[str, float] = {}

    def start(self) -> None:
        """Start it on all nodes at the same time. Raises StartError."""
        nodes = self._cluster.nodes
        with ThreadPoolExecutor(max(1, min(len(nodes), 8))) as pool:
            processes = list(pool.map(lambda node: node.run_driver(self.subject), nodes))
        self._running = {node.name: process for node, process in zip(nodes, processes, strict=True)}

    def wait_published(self, stopping: threading.Event) -> int:
        """Wait until each node has a slice of the driver; the number of devices. Raises StartError."""
        client: Client = self._cluster.client()
        deadline = time.monotonic() + self.subject.ready_seconds
        wanted = set(self._running)
        while True:
            query = {"fieldSelector": f"spec.driver={self.subject.name}"}
            slices = client.list("resource.k8s.io/v1", "resourceslices", **query)
            missing = wanted - {item["spec"].get("nodeName") for item in slices}
            if not missing or stopping.is_set():
                return sum(len(item["spec"].get("devices") or []) for item in slices)
            for name in sorted(missing):
                process = self._running[name]
                if not process.running:
                    raise StartError(
                        f"the driver on {name} ended with {exit_text(process.exit_code)}: {process.tail(3)}"
                    )
            if time.monotonic() > deadline:
                raise StartError(
                    f"the driver published no slice for {', '.join(sorted(missing))} within "
                    f"{self.subject.ready_seconds:g} s; it printed: {self._running[min(missing)].tail(3)}"
                )
            stopping.wait(_SLICE_POLL)

    def revive(self) -> None:
        """Start again what has ended, each time after a longer pause."""
        for name, process in self._running.items():
            if process.running:
                self._due.pop(name, None)
            elif name not in self._due:
                pause = self._pause.get(name, _FIRST_PAUSE)
                self._due[name] = time.monotonic() + pause
                self._pause[name] = min(pause * 2, _LAST_PAUSE)
                _LOG.warning("the driver on %s ended with %s", name, exit_text(process.exit_code))
            elif time.monotonic() >= self._due.pop(name):
                with contextlib.suppress(StartError):
                    process.start()


def _failed(error: Exception) -> int:
    text = str(error)
    if isinstance(error, OSError):
        text = f"{error.filename or 'cannot go on'}: {error.strerror}"
    _LOG.error("%s", text)
    _answer({"error": text})
    return 1


def _answer(message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def _detach() -> None:
    """Let go of the pipe to `drakit up`."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # Threads of a broken cluster must not keep the process.
    os._exit(code)

__all__ = ["main", "quiet"]
