"""A whole driver on one node: puts the parts together, starts them in the right order and stops them."""

from __future__ import annotations

import fcntl
import os
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Final

import grpc

from driver.sdk import log
from driver.sdk.api import Connection
from driver.sdk.cdi import CdiFiles
from driver.sdk.checkpoint import Checkpoint
from driver.sdk.errors import HardwareError, SettingsError
from driver.sdk.inventory import Inventory
from driver.sdk.listening import Listening
from driver.sdk.preparer import Preparer
from driver.sdk.profile import HardwareDevice, Profile
from driver.sdk.publisher import CONDITION, Publisher
from driver.sdk.readiness import Readiness
from driver.sdk.reconciler import Reconciler
from driver.sdk.recovery import recover
from driver.sdk.services import REGISTERED, plugin_server, registration_server

SERVICE_SOCKET: Final = "dra.sock"
CHECKPOINT: Final = "checkpoint.json"
_UNREGISTERED: Final = "no kubelet has registered the driver yet"
_STOP_SECONDS: Final = 5.0
"""How long running calls may take after SIGTERM."""


@dataclass(frozen=True)
class Settings:
    """Where a driver runs. Durations in seconds; `kubeconfig` None: the service account of the pod."""

    name: str
    node: str
    kubeconfig: Path | None
    plugin_dir: Path
    registry_dir: Path
    cdi_dir: Path
    resync_delay: float = 5.0
    rescan_interval: float = 2.0
    reconcile_interval: float = 60.0

    @property
    def service_socket(self) -> Path:
        """The socket for the kubelet's calls; absolute, as the kubelet needs it."""
        return self.plugin_dir.absolute() / SERVICE_SOCKET

    @property
    def registration_socket(self) -> Path:
        """The socket by which the kubelet discovers the driver."""
        return self.registry_dir.absolute() / f"{self.name}-reg.sock"


class InstanceRunningError(Exception):
    """Another process has the state directory."""


class Plugin:
    """The driver. `start`, then `wait`, then `stop`; `failure` says why it ended by itself.

    The lock of the state directory goes with the process and not before: a call that hangs in the hardware may
    outlive `stop`, and must not write behind the back of a successor.
    """

    def __init__(self, settings: Settings, profile: Profile) -> None:
        self.settings = settings
        self.failure: Exception | None = None
        # Of all primitives only this one may be used in a signal handler that interrupts its user.
        self._ended: SimpleQueue[None] = SimpleQueue()
        self._profile = profile
        self._stop = threading.Event()
        self._publisher: Publisher | None = None
        self._readiness = Readiness({REGISTERED: _UNREGISTERED, CONDITION: "no slice was accepted yet"})
        self._listening = Listening(self._readiness)
        self._connection = Connection()
        _lock_directory(settings.plugin_dir)
        self._checkpoint = Checkpoint.load(settings.plugin_dir / CHECKPOINT)
        self._readiness.probe("checkpoint", self._damage)
        self._inventory = Inventory(profile, self._checkpoint)
        self._cdi = CdiFiles(settings.cdi_dir, settings.name, profile.kind)
        self._preparer = Preparer(
            driver=settings.name,
            pool=settings.node,
            profile=profile,
            inventory=self._inventory,
            checkpoint=self._checkpoint,
            cdi=self._cdi,
            claims=self._connection,
        )

    def _damage(self) -> str:
        """Damaged checkpoints that were kept aside: a human should look before they are forgotten."""
        kept = ", ".join(map(str, self._checkpoint.kept_aside()))
        return f"a damaged checkpoint was kept as {kept}; remove it when it is of no more use" if kept else ""

    def start(self) -> None:
        """Recover, then listen; everything that needs the API follows in the background.

        Raises:
            OSError, SocketPathError: if the state directory or a socket cannot be used.
        """
        recover(
            checkpoint=self._checkpoint,
            profile=self._profile,
            inventory=self._inventory,
            preparer=self._preparer,
            cdi=self._cdi,
        )
        try:
            self._listen()
        except BaseException:
            self.stop()
            raise
        self._thread("connect", self._connect)
        self._thread("sockets", lambda: self._listening.run(self._stop, self.settings.rescan_interval))

    def _listen(self) -> None:
        endpoint = self.settings.service_socket
        # The kubelet may call as soon as it has read the registration.
        self._listening.open(endpoint, lambda: plugin_server(self._preparer, self._readiness))
        self._listening.open(self.settings.registration_socket, self._registration)
        log.info("listening", driver=self.settings.name, node=self.settings.node, endpoint=endpoint)

    def _registration(self) -> grpc.Server:
        # Kubelets forget a driver whose socket goes away.
        self._readiness.set(REGISTERED, _UNREGISTERED)
        endpoint = str(self.settings.service_socket)
        return registration_server(self.settings.name, endpoint, self._readiness)

    def end(self) -> None:
        """Let `wait` return; safe in signal handlers."""
        self._ended.put(None)

    def wait(self) -> None:
        """Wait for `end` or for the failure of a part."""
        self._ended.get()

    def stop(self) -> None:
        """Leave the registration first, then finish running calls and close. Slices and claims stay."""
        self._stop.set()
        if self._publisher is not None:
            self._publisher.stop()
        self._listening.close(_STOP_SECONDS)
        log.info("stopped", driver=self.settings.name)

    def _thread(self, name: str, body: Callable[[], None]) -> None:
        """Run a part of the driver in the background; its defect is the end of the driver."""

        def run() -> None:
            try:
                body()
            except Exception as problem:  # noqa: BLE001 - a driver that lives without one of its parts misleads
                if not isinstance(problem, SettingsError):
                    log.error("a part of the driver has failed", part=name, problem=traceback.format_exc())
                self.failure = problem
                self.end()

        threading.Thread(target=run, name=name, daemon=True).start()

    def _connect(self) -> None:
        api = self._connection.connect(self.settings.kubeconfig, f"{self.settings.name}/{self.settings.node}")
        publisher = self._publisher = Publisher(
            api,
            driver=self.settings.name,
            node=self.settings.node,
            pool=self.settings.node,
            source=self._profile.source,
            readiness=self._readiness,
            resync_delay=self.settings.resync_delay,
        )
        reconciler = Reconciler(self._checkpoint, self._preparer, self._connection)
        self._thread("publisher", publisher.run)
        self._thread("scan", lambda: self._scan(publisher))
        self._thread("slices", lambda: publisher.cache.run(self._stop))
        self._thread("reconciler", lambda: reconciler.run(self._stop, self.settings.reconcile_interval))

    def _scan(self, publisher: Publisher) -> None:
        """Tell the publisher which devices there are, again and again: sysfs does not announce changes."""
        problem_before = ""
        while True:
            try:
                found = self._inventory.look()
            except (HardwareError, OSError) as problem:
                # Not the same as no devices: what was published stays.
                if str(problem) != problem_before:
                    log.warning("hardware cannot be read", source=self._profile.source, problem=problem)
                problem_before = str(problem)
            else:
                problem_before = ""
                publisher.set_devices([_slice_device(name, device) for name, device in found.items()])
            if self._stop.wait(self.settings.rescan_interval):
                return


def _slice_device(name: str, device: HardwareDevice) -> dict[str, object]:
    value: dict[str, object] = {"name": name, "attributes": dict(device.attributes)}
    if device.capacity:
        value["capacity"] = dict(device.capacity)
    return value


def _lock_directory(directory: Path, patience: float = 2.0) -> None:
    """Make the state directory and lock it for this process; an instance that is just stopping gets a moment.

    Raises:
        InstanceRunningError: if another instance keeps it.
    """
    directory.mkdir(mode=0o750, parents=True, exist_ok=True)
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(descriptor)
                raise InstanceRunningError(
                    f"another instance of the driver uses {directory}: stop it, or give this one another --plugin-dir"
                ) from None
            # flock has no deadline of its own.
            time.sleep(0.05)
        else:
            return
