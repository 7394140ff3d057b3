"""The background process that holds a cluster of `drakit up`.

It reads its order as one JSON document on standard input and answers on standard output with JSON lines: {"note":
TEXT}, and at last {"ready": RECORD}, {"error": TEXT} when the user has to change something, or {"broke": TEXT} when
the kit has a fault. Afterwards it lives until SIGTERM. While the cluster starts it also ends when nobody reads its
answers any more.
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
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any, Final

from drakit import quiet  # isort: skip - before anything that loads gRPC
from clusters import descriptor as descriptors
from clusters import device_classes, gates
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
from drakit.state import Folder, Record, StateError

_LOG: Final = logging.getLogger("drakit.keeper")
_POLL: Final = 0.5
_COULD_NOT: Final = 1


class _Ended(BaseException):
    """Asked to end while the cluster starts."""


class _Stopping:
    """SIGTERM and SIGINT: ends the start of the cluster at once, and the cluster in an orderly way."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self._interruptible = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._handle)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.event.set()
        if self._interruptible:
            self._interruptible = False
            raise _Ended

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """A signal in this context raises _Ended; so does one that came before."""
        try:
            self._interruptible = True
            if self.event.is_set():
                raise _Ended
            yield
        finally:
            self._interruptible = False


def main() -> int:
    """Hold one cluster; the exit code is 0 after an orderly end and 1 when it could not be started."""
    order: dict[str, Any] = json.load(sys.stdin)
    _restore_path(order["python_path"])
    stopping = _Stopping()
    logging.basicConfig(format="%(asctime)s %(name)s %(levelname).1s %(message)s", level=logging.WARNING)
    _LOG.setLevel(logging.INFO)
    with contextlib.ExitStack() as stack:
        try:
            folder = Folder(order["name"])
            traces = stack.enter_context(folder.held())
            _log_to(folder.log)
            with stopping.interruptible():
                drivers = _start(folder, order, traces, stack)
        except _Ended:
            return _failed(f'cluster "{order["name"]}" was told to end before it was ready')
        except OSError as error:
            return _failed(f"{error.filename or 'cannot go on'}: {error.strerror}")
        except StartError as error:
            return _failed(f"{order['driver']}: {error}")
        except (ClusterError, DocumentError, StateError, ClientError) as error:
            return _failed(str(error))
        except Exception:  # noqa: BLE001 - whatever else happens is a fault of the kit, and told as one
            _answer({"broke": traceback.format_exc()})
            return _COULD_NOT
        while not stopping.event.wait(_POLL):
            if drivers is not None:
                drivers.revive()
        _LOG.info("asked to end")
    return 0


def _start(
    folder: Folder,
    order: dict[str, Any],
    traces: Callable[[str, Path], None],
    stack: contextlib.ExitStack,
) -> Drivers | None:
    """Start everything, and say so. What is to be ended goes onto the stack."""
    begin = time.monotonic()

    def note(text: str) -> None:
        _answer({"note": f"{text} ({time.monotonic() - begin:.1f} s)"}, heard=True)

    subject = _subject(order)
    cluster = stack.enter_context(EmbeddedCluster(_spec(order), port=order["port"]))
    traces(cluster.owner, cluster.root)
    note(f"API server at {cluster.url}")
    cluster.write_kubeconfig(folder.kubeconfig)
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
    )
    folder.write_record(record)
    _answer({"ready": asdict(record)}, heard=True)
    _detach()
    return drivers


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


def _restore_path(value: str | None) -> None:
    """Set PYTHONPATH as the user had it: it was changed for this process, not for drivers in Python."""
    os.environ.pop("PYTHONPATH", None)
    if value is not None:
        os.environ["PYTHONPATH"] = value


def _failed(text: str) -> int:
    _LOG.error("%s", text)
    _answer({"error": text})
    return _COULD_NOT


def _answer(message: dict[str, Any], *, heard: bool = False) -> None:
    """Send a message to `drakit up`; with `heard`, raise _Ended when nobody reads it."""
    try:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()
    except (OSError, ValueError):
        if heard:
            raise _Ended from None


def _log_to(path: Path) -> None:
    """Let everything that goes to standard error go to the log, which its owner alone may read."""
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, sys.stderr.fileno())
    os.close(log)


def _detach() -> None:
    """Let go of the pipe to `drakit up`."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


if __name__ == "__main__":
    code = main()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    # Threads of a broken cluster must not keep the process.
    os._exit(code)

__all__ = ["main", "quiet"]
