"""The bench of the driver contract: one node, one driver, and the kit in the place of kubelet and administrator."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from clusters.client import Client
from clusters.descriptor import Descriptor
from clusters.embedded.kubelet.plugins import PluginError
from clusters.interface import Node
from clusters.process import DriverProcess, StartError, exit_text
from conformance.contract import plugin
from conformance.contract.claims import RESOURCE_API, Allocated, Claim, ClaimFactory, Config, Device
from conformance.contract.evidence import collect
from conformance.contract.plugin import CallFailed, Info, Prepared
from conformance.contract.pools import complete, describe_slices, devices
from conformance.model import Evidence, Failed, InputError, NotTestable, check

NAMESPACE = "default"
FIRST_POLL, LAST_POLL = 0.03, 0.4
PUBLISH_SECONDS = 30.0
STRANGER_SECONDS = 3.0
_WRITES = ("create", "update", "patch", "delete", "deletecollection")
T = TypeVar("T")


def poll(
    probe: Callable[[], T | None],
    timeout: float,
    expected: str,
    seen: Callable[[], object] = lambda: "it did not happen",
) -> T:
    """The first truthy answer of `probe`. Raises Failed after `timeout` seconds, saying what was expected."""
    deadline = time.monotonic() + timeout
    pause, interval = threading.Event(), FIRST_POLL
    while True:
        value = probe()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise Failed(f"{expected} within {timeout:g} s", str(seen()))
        pause.wait(interval)
        interval = min(LAST_POLL, interval * 1.5)


@dataclass
class Findings:
    """What one bench has found out about the driver for all of them.

    `started`: its command works. `deviceless`: why nothing can be tested that needs a device; "" by now.
    """

    started: bool = False
    deviceless: str = ""


class Bench:
    """What a contract test works with. Failures of the driver raise Failed; nothing here is tier specific.

    `must_publish`: for this test a driver without devices is a failure, and not a reason to leave it out.
    """

    def __init__(
        self, node: Node, client: Client, descriptor: Descriptor, findings: Findings | None = None
    ) -> None:
        self.node = node
        self.client = client
        self.descriptor = descriptor
        self.api_proxy = node.api_proxy
        self.plugin_proxy = node.plugin_proxy
        device_class = descriptor.device_classes[0] if descriptor.device_classes else descriptor.name
        self.claims = ClaimFactory(client, NAMESPACE, descriptor.name, device_class)
        self.driver: DriverProcess | None = None
        self.findings = findings or Findings()
        self.shared = False
        self.spoiled = False
        self.must_publish = False
        self.mark = time.monotonic()
        self._held: dict[str, Claim] = {}

    # Driver life cycle

    def start(self, *, wait: bool = True) -> None:
        """Start the driver unless it runs; by default wait until the kubelet has registered it."""
        if self.driver is None:
            self.driver = self.node.run_driver(self.descriptor)
        elif not self.driver.running:
            self.driver.start()
        self.findings.started = True
        if wait:
            self.wait_registered()

    @property
    def process(self) -> DriverProcess:
        """The driver's process; it must have been started."""
        assert self.driver is not None, "start() comes first"  # noqa: S101 - a mistake in a test of the kit
        return self.driver

    def wait_registered(self) -> None:
        """Wait for a registration at the kubelet, at most as long as the descriptor allows.

        A driver may have several names, and the wanted one may be late; a driver that has for some seconds only
        registered others will not come.
        """
        strangers_since = 0.0

        def probe() -> bool:
            nonlocal strangers_since
            if self.node.kubelet.is_registered(self.descriptor.name):
                return True
            self.check_alive()
            names = self._registered()
            if not names:
                strangers_since = 0.0
            elif not strangers_since:
                strangers_since = time.monotonic()
            elif time.monotonic() - strangers_since > STRANGER_SECONDS:
                raise Failed(expected, f"it registered as {names}; is the name in the descriptor right?")
            return False

        expected = f"the kubelet registers the driver as {self.descriptor.name}"
        poll(
            probe,
            self.descriptor.ready_seconds,
            expected,
            lambda: self.node.kubelet.last_problem() or self._sockets(),
        )

    def _registered(self) -> str:
        return ", ".join(sorted({plugin.driver for plugin in self.node.kubelet.registrations()}))

    def registration_socket(self) -> Path:
        """The driver's own registration socket, as soon as it exists."""

        def probe() -> Path | None:
            self.check_alive()
            return next(
                (
                    path
                    for path in sorted(self.node.paths.registry.iterdir())
                    if path.is_socket() and not path.name.startswith(".")
                ),
                None,
            )

        return poll(
            probe,
            self.descriptor.ready_seconds,
            "a registration socket in the registry directory",
            self._sockets,
        )

    def check_alive(self) -> None:
        """Raise Failed when the driver has ended."""
        if self.driver is not None and not self.driver.running:
            words = [line.strip() for line in self.driver.output().splitlines() if line.strip()]
            last = f", its last words: {words[-1]}" if words else " and printed nothing"
            raise Failed("a running driver", f"it ended with {exit_text(self.driver.exit_code)}{last}")

    def check_directories(self) -> None:
        """Raise Failed when the driver has removed a directory of the node."""
        paths = self.node.paths
        gone = [path.name for path in (paths.plugins, paths.registry, paths.cdi) if not path.is_dir()]
        if gone:
            raise Failed("the node's directories stay", f"removed: {', '.join(gone)}")

    def _sockets(self) -> str:
        names = sorted(path.name for path in self.node.paths.registry.iterdir())
        return f"the registry directory holds {', '.join(names) or 'nothing'}"

    def info(self) -> Info:
        """GetInfo, asked on the driver's registration socket."""
        socket = self.registration_socket()
        try:
            return plugin.get_info(socket)
        except CallFailed as error:
            raise Failed("an answer to GetInfo", str(error)) from None

    def service_socket(self) -> Path:
        """The driver's own service socket, as GetInfo tells it."""
        return Path(self.info().endpoint or self.registration_socket())

    def wait_answering(self) -> None:
        """Wait until the driver is registered and answers a call that it must always answer."""
        problem = ""

        def probe() -> bool:
            nonlocal problem
            self.check_alive()
            if not self.node.kubelet.is_registered(self.descriptor.name):
                problem = self.node.kubelet.last_problem() or self._sockets()
                return False
            try:
                versions = plugin.get_info(self.registration_socket()).dra_versions
                plugin.unprepare(self.endpoint(), versions[0], [])
            except (CallFailed, Failed) as error:
                problem = str(error)
                return False
            return True

        poll(probe, self.descriptor.ready_seconds, "the driver is registered and answers", lambda: problem)

    # Slices

    def delete_slices(self) -> None:
        """Remove every slice of the driver on this node, behind its back."""
        for item in self.slices():
            self.client.delete(RESOURCE_API, "resourceslices", item["metadata"]["name"])

    def slices(self) -> list[dict[str, Any]]:
        """The driver's slices for this node, as the API server holds them."""
        selector = f"spec.driver={self.descriptor.name},spec.nodeName={self.node.name}"
        return self.client.list(RESOURCE_API, "resourceslices", fieldSelector=selector)

    def wait_published(self, timeout: float = PUBLISH_SECONDS) -> list[dict[str, Any]]:
        """The slices, once every pool is complete and some device is there.

        Raises NotTestable when the driver is known to have no device.
        """

        def probe() -> list[dict[str, Any]] | None:
            self.check_alive()
            slices = self.slices()
            if complete(slices) and devices(slices):
                return slices
            if self.findings.deviceless and self.must_publish:
                raise Failed(expected, describe_slices(slices))
            if self.findings.deviceless:
                raise NotTestable(self.findings.deviceless)
            return None

        expected = "a complete pool with devices"
        return poll(probe, timeout, expected, lambda: describe_slices(self.slices()))

    def devices(self, count: int) -> list[Device]:
        """The first `count` published devices. Raises NotTestable when there are fewer."""
        try:
            slices = self.wait_published(min(PUBLISH_SECONDS, self.descriptor.ready_seconds))
        except Failed:
            self._note_deviceless()
            raise
        found = devices(slices)
        if len(found) < count:
            raise NotTestable(f"{count} devices are needed; the driver published {len(found)}")
        return found[:count]

    def _note_deviceless(self) -> None:
        """Tell a driver that has nothing to publish, which is legal, from one that fails to publish."""
        slices = self.slices()
        tried = self.api_proxy.calls(resource="resourceslices", verbs=_WRITES)
        if self.process.running and not devices(slices) and (complete(slices) or not tried):
            seen = describe_slices(slices)
            self.findings.deviceless = f"a device is needed; the driver published none ({seen})"
            raise NotTestable(self.findings.deviceless)

    def wait_for_call(self, resource: str, verbs: Sequence[str]) -> None:
        """Wait until the driver has made such a call to the API server."""
        try:
            self.api_proxy.wait_for(
                lambda call: call.resource == resource and call.verb in verbs,
                PUBLISH_SECONDS,
                f"{' or '.join(verbs)} of {resource}",
                since=self.mark,
            )
        except TimeoutError as error:
            raise Failed(f"a call to {' or '.join(verbs)} {resource}", str(error)) from None

    def foreign_slices(self) -> list[dict[str, Any]]:
        """The driver's slices for no node, or for one that does not exist."""
        nodes = {item["metadata"]["name"] for item in self.client.list("v1", "nodes")}
        everything = self.client.list(
            RESOURCE_API, "resourceslices", fieldSelector=f"spec.driver={self.descriptor.name}"
        )
        return [item for item in everything if item["spec"].get("nodeName") not in nodes]

    # Claims

    def claim(self, *devices: Device, configs: Sequence[Config] = ()) -> Claim:
        """A claim allocated to the devices, all for the request "gpu"."""
        return self.claims.create([Allocated(device) for device in devices], configs)

    def version(self) -> str:
        """The DRAPlugin version the kubelet would call."""
        versions = self.info().dra_versions
        check(bool(versions), "a DRAPlugin version in GetInfo", self.info().supported_versions)
        return versions[0]

    def endpoint(self) -> Path:
        """Where the kubelet calls the plugin (through the recording proxy)."""
        try:
            return self.node.kubelet.endpoint(self.descriptor.name)
        except PluginError as error:
            raise Failed("a registered driver", str(error)) from None

    def call_prepare(self, *claims: Claim, version: str = "") -> dict[str, Prepared]:
        """Prepare as it is answered. Raises CallFailed when the RPC fails as a whole."""
        for claim in claims:
            self._held[claim.uid] = claim
        return plugin.prepare(self.endpoint(), version or self.version(), claims)

    def prepare(self, claim: Claim, version: str = "") -> Prepared:
        """Prepare one claim, which must succeed."""
        expected = f"claim {claim.name} is prepared"
        try:
            answer = self.call_prepare(claim, version=version)
        except CallFailed as error:
            raise Failed(expected, str(error)) from None
        check(claim.uid in answer, expected, f"an answer for {', '.join(answer) or 'no claim'}")
        check(not answer[claim.uid].error, expected, answer[claim.uid])
        return answer[claim.uid]

    def refuse(self, claim: Claim, why: str) -> str:
        """Prepare one claim, which must be refused; the text of the refusal."""
        try:
            answer = self.call_prepare(claim)
        except CallFailed as error:
            refused = error.code not in ("UNAVAILABLE", "DEADLINE_EXCEEDED", "UNIMPLEMENTED")
            check(refused, f"an error because {why}", error)
            return str(error)
        entry = answer.get(claim.uid)
        check(
            entry is not None and bool(entry.error),
            f"an error because {why}",
            entry or "no entry for the claim",
        )
        assert entry is not None  # noqa: S101 - checked above
        return entry.error

    def unprepare(self, *claims: Claim) -> None:
        """Unprepare claims, which must succeed."""
        expected = f"claim {', '.join(claim.name for claim in claims)} is unprepared"
        try:
            answer = plugin.unprepare(self.endpoint(), self.version(), claims)
        except CallFailed as error:
            raise Failed(expected, str(error)) from None
        for claim in claims:
            check(claim.uid in answer, expected, f"an answer for {', '.join(answer) or 'no claim'}")
            check(not answer[claim.uid], expected, f"error {answer[claim.uid]!r}")
            self._held.pop(claim.uid, None)

    def allow_admin_access(self) -> None:
        """Label the claims' namespace for admin access."""
        label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
        self.client.patch("v1", "namespaces", NAMESPACE, label)

    # Files and hooks

    def cdi_files(self) -> dict[str, bytes]:
        """Every file of the CDI directory that a runtime would look at or that was left over, by name."""
        found: dict[str, bytes] = {}
        for path in sorted(self.node.paths.cdi.iterdir()):
            with contextlib.suppress(FileNotFoundError, IsADirectoryError):
                found[path.name] = path.read_bytes()
        return found

    def hook(self, name: str, device: Device | None = None) -> None:
        """Run a hook of the descriptor. Raises InputError when it does not work."""
        try:
            self.node.run_hook(self.descriptor, name, device.name if device else "")
        except StartError as error:
            raise InputError(str(error)) from None

    # Keeping house

    def begin(self) -> None:
        """A test begins, or a new part of it: calls and evidence count from `mark`."""
        self.mark = time.monotonic()

    def evidence(self) -> Sequence[Evidence]:
        """What was seen since the test began."""
        return collect(self, self.mark)

    def tidy(self) -> None:
        """Unprepare and remove what the test left. Raises Failed when the driver does not allow it."""
        for claim in list(self._held.values()):
            self.unprepare(claim)
        self.claims.delete_all()

    def spoil(self) -> None:
        """The test leaves traces: no other shall use this bench."""
        self.spoiled = True

    def close(self) -> None:
        """Stop the driver and remove the node."""
        self.node.close()
