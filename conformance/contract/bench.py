"""The bench of the driver contract: one node, one driver, and the kit in the place of kubelet and administrator."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path

from clusters.client import Client
from clusters.descriptor import Descriptor
from clusters.embedded.kubelet.plugins import PluginError
from clusters.interface import BareNode
from clusters.process import DriverProcess, StartError, exit_text
from conformance.contract import plugin
from conformance.contract.claims import Allocated, Claim, ClaimFactory, Config, Device
from conformance.contract.evidence import collect
from conformance.contract.findings import Findings
from conformance.contract.plugin import CallFailed, Info, Prepared
from conformance.contract.publication import PUBLISH_SECONDS, Publication
from conformance.contract.registry import Registry
from conformance.model import Evidence, Failed, InputError, NotTestable, check
from conformance.waiting import poll

NAMESPACE, OTHER_NAMESPACE = "default", "elsewhere"


class Bench:
    """What a contract test works with. Failures of the driver raise Failed; nothing here is tier specific."""

    def __init__(
        self, node: BareNode, client: Client, descriptor: Descriptor, findings: Findings | None = None
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
        self.published = Publication(node, client, descriptor, self.findings, self.check_alive)
        self.registry = Registry(node, descriptor, self.findings, self.check_alive)
        self.shared = False
        self.spoiled = False
        self.mark = time.monotonic()
        self._started = 0.0
        self._held: dict[str, Claim] = {}

    # Driver life cycle

    def start(self, *, wait: bool = True) -> None:
        """Start the driver unless it runs; by default wait until the kubelet has registered it."""
        if self.driver is None or not self.driver.running:
            self._started = time.monotonic()
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

    @property
    def starved(self) -> float:
        """Seconds that the running driver could have worked and got no processor."""
        return self.driver.starved if self.driver is not None else 0.0

    def restart(self) -> None:
        """Stop the driver, start it, and wait until it answers."""
        self.process.stop()
        self.start(wait=False)
        self.wait_answering()

    def is_registered(self) -> bool:
        """Whether the kubelet has registered the running driver.

        An earlier process may have left its socket, for which the kubelet keeps its registration.
        """
        kubelet, name = self.node.kubelet, self.descriptor.name
        return kubelet.is_registered(name) and any(
            event.kind == "registered" and event.driver == name
            for event in kubelet.events.since(self._started)
        )

    def wait_registered(self) -> None:
        """Wait for a registration at the kubelet, at most as long as the descriptor allows."""
        strangers_since = 0.0

        def probe() -> bool:
            nonlocal strangers_since
            if self.is_registered():
                return True
            self.check_alive()
            names = ", ".join(sorted({record.driver for record in self.node.kubelet.registrations()}))
            if not names or self.node.kubelet.is_registered(self.descriptor.name):
                strangers_since = 0.0
            elif not strangers_since:
                strangers_since = time.monotonic()
            elif self.registry.only_strangers(strangers_since):
                raise Failed(expected, f"it registered as {names}; is the name in the descriptor right?")
            return False

        expected = f"the kubelet registers the driver as {self.descriptor.name}"
        poll(
            probe,
            self.descriptor.ready_seconds,
            expected,
            lambda: self.node.kubelet.last_problem() or self.registry.describe(),
        )

    def wait_answering(self) -> None:
        """Wait until the driver is registered and answers a call."""
        problem = ""

        def probe() -> bool:
            nonlocal problem
            self.check_alive()
            if not self.is_registered():
                problem = self.node.kubelet.last_problem() or self.registry.describe()
                return False
            try:
                for version in self.registry.look()[1].dra_versions[:1]:
                    plugin.unprepare(self.endpoint(), version, [])
            except CallFailed as error:
                problem = str(error)
                return error.answered
            return True

        poll(probe, self.descriptor.ready_seconds, "the driver is registered and answers", lambda: problem)

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

    def last_words(self) -> str:
        """The end of the driver's output, for what was seen."""
        return f"its last lines are: {self.process.tail(5) or 'nothing'}"

    # Sockets

    def registration_socket(self) -> Path:
        """The driver's own registration socket, as soon as it exists."""
        return self.registry.find()[0]

    def info(self) -> Info:
        """GetInfo, asked on the driver's registration socket."""
        return self.registry.find()[1]

    def service_socket(self) -> Path:
        """The driver's own service socket, as GetInfo tells it."""
        path, info = self.registry.find()
        return Path(info.endpoint or path)

    def version(self) -> str:
        """The DRAPlugin version the kubelet would call."""
        return self.versions()[0]

    def versions(self) -> tuple[str, ...]:
        """The DRAPlugin versions that the driver lists, at least one."""
        info = self.info()
        check(bool(info.dra_versions), "a DRAPlugin version in GetInfo", info.supported_versions)
        return info.dra_versions

    def endpoint(self) -> Path:
        """Where the kubelet calls the plugin (through the recording proxy)."""
        try:
            return self.node.kubelet.endpoint(self.descriptor.name)
        except PluginError as error:
            raise Failed("a registered driver", str(error)) from None

    # Calls to the API server

    def wait_for_call(self, resource: str, verbs: Sequence[str]) -> bool:
        """Wait until the driver has made such a call to the API server; whether it did."""
        try:
            self.api_proxy.wait_for(
                lambda call: call.resource == resource and call.verb in verbs,
                PUBLISH_SECONDS,
                f"{' or '.join(verbs)} of {resource}",
                since=self.mark,
            )
        except TimeoutError:
            return False
        return True

    # Claims

    def require(self, capability: str) -> None:
        """Raise NotTestable when the driver does not declare a capability."""
        if capability not in self.descriptor.capabilities:
            raise NotTestable(f'the descriptor does not declare the capability "{capability}"')

    def devices(self, count: int, *, least: int | None = None) -> list[Device]:
        """The first `count` published devices, or fewer. Raises NotTestable when there are less than `least`."""
        return self.published.devices(count, count if least is None else least)

    def claim(self, *devices: Device, configs: Sequence[Config] = ()) -> Claim:
        """A claim allocated to the devices, all for the request "gpu"."""
        return self.claims.create([Allocated(device) for device in devices], configs)

    def call_prepare(self, *claims: Claim, version: str = "") -> dict[str, Prepared]:
        """Prepare as it is answered. Raises CallFailed when the RPC fails as a whole."""
        for claim in claims:
            self._held[claim.uid] = claim
        return plugin.prepare(self.endpoint(), version or self.version(), claims)

    def prepare_all(self, *claims: Claim) -> dict[str, Prepared]:
        """Prepare several claims with one call, which must be answered."""
        try:
            return self.call_prepare(*claims)
        except CallFailed as error:
            raise Failed("an answer for every claim of the call", str(error)) from None

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
            check(error.answered, f"an error because {why}", error)
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

    def warm_up(self, *devices: Device) -> None:
        """Prepare and unprepare once, so that the driver has written what it keeps for good."""
        claim = self.claim(*devices)
        self.prepare(claim)
        self.unprepare(claim)

    def other_namespace(self) -> str:
        """A second namespace for claims, made at first use."""
        if self.client.find("v1", "namespaces", OTHER_NAMESPACE) is None:
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OTHER_NAMESPACE}}
            self.client.create("v1", "namespaces", namespace)
        return OTHER_NAMESPACE

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

    def tidy(self) -> bool:
        """Unprepare and remove what the test left; whether the driver allowed it, so that another can follow."""
        try:
            for claim in list(self._held.values()):
                self.unprepare(claim)
        except Failed:
            return False
        self.claims.delete_all()
        return True

    def spoil(self) -> None:
        """The test leaves traces: no other shall use this bench."""
        self.spoiled = True

    def close(self) -> None:
        """Stop the driver and remove the node."""
        self.node.close()
