"""A cluster of the user's, by a kubeconfig, in which the kit makes objects of its own and removes them."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NoReturn, Self

import urllib3

from clusters.client import Client, ClientError
from clusters.clock import Clock
from clusters.descriptor import Descriptor
from clusters.existing import install, leftovers, look, rights
from clusters.existing.kubeconfig import Connection
from clusters.existing.node import ExistingNode
from clusters.existing.owner import Owner
from clusters.existing.probing import probe_containers
from clusters.existing.settings import Settings
from clusters.interface import BareNode, ClusterError, ClusterSpec, Component, NodeSpec
from clusters.log_files import LogCommand

PULL_SECRET: Final = "drakit-pull"  # noqa: S105 - a name
SEVERAL_NODES, PROBE_CONTAINERS = "several_nodes", "probe_containers"

_LACKS: Final = {
    "bare_nodes": "the kit is the kubelet here, on nodes that it makes: clusters that drakit starts have them",
    "own_nodes": "it takes most of a node, and others work on those of this cluster",
    "process_drivers": "the kit runs a driver beside the kubelet here, and it is on no node of this cluster",
    "restart_component": "it stops a component of the control plane, which is not the kit's on this cluster",
    "restart_kubelet": "it stops a kubelet, which is not the kit's on this cluster",
}
"""Why clusters that the kit has not started cannot do what others can, by the words of conformance/tiers.yaml."""

_SECRET_LENGTH: Final = 8
_BUSY_SECONDS: Final = 35.0
_SAY_AFTER: Final = 2.0
_POLL: Final = 0.2
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Options:
    """What the user says about the cluster. `pull_secret` is namespace and name; `patience` multiplies waits."""

    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Mapping[str, str]] = ()
    probe_image: str = ""
    pull_secret: tuple[str, str] | None = None
    patience: float = 1.0


class _GatedClient(Client):
    """A client that can be shut: tests that an interrupt has left running must not make anything afterwards."""

    def _begin(self, *parts: Any) -> None:
        super()._begin(*parts)
        self._gate = threading.Condition()
        self._busy = 0
        self._shut = False

    def _send(self, *parts: Any, **more: Any) -> urllib3.BaseHTTPResponse:
        with self._gate:
            if self._shut:
                raise ClientError(0, "Closed", "the run is over")
            self._busy += 1
        try:
            return super()._send(*parts, **more)
        finally:
            with self._gate:
                self._busy -= 1
                self._gate.notify_all()

    def shut(self) -> None:
        """Let no further request out, and wait for those that are on their way."""
        with self._gate:
            self._shut = True
            self._gate.wait_for(lambda: not self._busy, _BUSY_SECONDS)


class ExistingCluster:
    """A cluster that the kit has not started. Use it as a context manager: in the end nothing of the kit's is left.

    `lacks` says why a capability is missing, where there is more to say than that this kind of cluster has it not;
    `gates` are those that are known, and `unknown_gates` says why others are not.
    """

    def __init__(
        self, connection: Connection, subject: Descriptor, options: Options, progress: Progress
    ) -> None:
        """Look at everything, install the driver if its descriptor says how, and run a first Pod.

        Raises ClusterError when the cluster cannot be used; then nothing is left on it.
        """
        manifests = _manifests(subject)
        self.connection = connection
        self.subject = subject
        self.clock = Clock()
        self.root = Path()
        self.progress = progress
        self._options = options
        self._closed = self._begun = self._installed = False
        self._uses = 0
        self.lacks = dict(_LACKS)
        self._secret: Mapping[str, Any] | None = None
        self._client = _GatedClient.of(connection.server, connection.credentials)
        owner = str(Owner.this())
        self.run = secrets.token_hex(4)
        self.settings = Settings(
            run=self.run,
            owner=owner,
            prefix="drakit-",
            node_selector=dict(options.node_selector),
            tolerations=tuple(options.tolerations),
            image=options.probe_image or "busybox",
            pull_secret=PULL_SECRET if options.pull_secret else "",
            restricted=True,
        )
        try:
            self._look()
            self._begin(manifests, owner)
        except ClientError as error:
            self.close()
            raise look.explain(error, connection) from None
        except BaseException:
            self.close()
            raise

    def _look(self) -> None:
        """What can be told without making anything. Raises ClusterError, ClientError."""
        self.version = look.version(self._client)
        self._check_rights()
        found = look.fitting_nodes(self._client, self.settings)
        self.settings = dataclasses.replace(self.settings, hostnames=look.hostnames(found))
        self._nodes = tuple(ExistingNode(str(node["metadata"]["name"]), self._client) for node in found)
        self.gates, self.unknown_gates = look.feature_gates(self._client, self.version.minor)
        self.spec = ClusterSpec(version=self.version.minor, gates=tuple(sorted(self.gates.items())))
        self._secret = self._read_secret()

    def _check_rights(self) -> None:
        wanted = [*rights.RULES, *([rights.COPY_SECRET] if self._options.pull_secret else [])]
        missing = rights.lacking(self._client, wanted)
        if missing:
            raise ClusterError(
                f"the account of context {self.connection.context} may not {', '.join(missing)}; "
                '"drakit rbac" prints an account with the rights that are needed'
            )

    def _read_secret(self) -> Mapping[str, Any] | None:
        if self._options.pull_secret is None:
            return None
        namespace, name = self._options.pull_secret
        secret = self._client.find("v1", "secrets", name, namespace)
        if secret is None:
            raise ClusterError(
                f"--image-pull-secret {namespace}/{name}: there is no such Secret in the cluster"
            )
        return {"type": secret.get("type", "Opaque"), "data": secret.get("data") or {}}

    def _begin(self, manifests: Sequence[install.Object], owner: str) -> None:
        """Raises ClusterError, ClientError."""
        self._begun = True
        if manifests:
            if self.published():
                raise ClusterError(
                    f'{self.subject.name} has ResourceSlices on the cluster already: say "installed: true" in the '
                    "descriptor instead of manifests"
                )
            self.progress(f"installing {self.subject.name}")
            self._installed = True
            install.make(self._client, manifests, self.run, owner)
        self._wait_published()
        if len(self._nodes) < 2:
            self.lacks[SEVERAL_NODES] = f"there is one node for Pods of the kit, {self._nodes[0].name}"
        if reason := probe_containers(self, self._options.patience):
            self.lacks[PROBE_CONTAINERS] = reason
        self.capabilities = frozenset({SEVERAL_NODES, PROBE_CONTAINERS} - self.lacks.keys())

    def published(self) -> set[str]:
        """The nodes of the slices of the driver under test; "" stands for slices that name none."""
        query = {"fieldSelector": f"spec.driver={self.subject.name}"}
        slices = self._client.list(look.DRA, "resourceslices", **query)
        return {str(item["spec"].get("nodeName", "")) for item in slices}

    def _wait_published(self) -> None:
        begin, said = time.monotonic(), False
        seconds = self.subject.ready_seconds * self._options.patience if self._installed else 0.0
        while not (found := self.published()):
            passed = time.monotonic() - begin
            if passed > seconds:
                what = (
                    f"within {seconds:g} s after its manifests were applied; do its Pods run?"
                    if self._installed
                    else "on the cluster: is it installed, and does it run?"
                )
                raise ClusterError(f"{self.subject.name} has no ResourceSlices {what}")
            if passed > _SAY_AFTER and not said:
                said = True
                self.progress(f"waiting for the ResourceSlices of {self.subject.name}")
            time.sleep(_POLL)
        if not found & {"", *(node.name for node in self._nodes)}:
            raise ClusterError(
                f"{self.subject.name} has devices on {', '.join(sorted(found))}, where Pods of the kit cannot run; "
                "--node-selector and --tolerations let them there"
            )

    def prepare_namespace(self, namespace: str) -> None:
        """Give a namespace of the kit what its Pods need. Raises ClientError."""
        if self._secret is not None:
            body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": PULL_SECRET}, **self._secret}
            self._client.create("v1", "secrets", body, namespace)

    # The interface of clusters

    @property
    def nodes(self) -> Sequence[ExistingNode]:
        """The nodes on which Pods of the kit can run, by name."""
        return self._nodes

    @property
    def url(self) -> str:
        """Where its API server listens."""
        return self.connection.server

    @property
    def owner(self) -> str:
        """The kit starts no processes for it."""
        return ""

    def client(self, identity: str = "admin") -> Client:
        """The client of the kubeconfig, the only identity."""
        return self._client

    def component(self, name: str) -> NoReturn:
        """Raises ValueError: no component of it is the kit's to stop."""
        raise ValueError(f'no component "{name}": the kit has not started this cluster')

    def components(self) -> Mapping[str, Component]:
        """None."""
        return {}

    def ended(self) -> list[str]:
        """None that the kit knows."""
        return []

    def log_commands(self) -> Mapping[str, LogCommand]:
        """None: the kit has no logs of it."""
        return {}

    def add_node(self, spec: NodeSpec | None = None) -> BareNode:
        """Raises ClusterError."""
        raise ClusterError("a cluster that the kit has not started gets no further nodes")

    def wait_ready(self, timeout: float = 0.0) -> None:
        """Nodes that were not Ready when the run began are left alone."""

    def write_kubeconfig(self, path: Path, name: str = "") -> None:
        """Raises ClusterError: the user has one."""
        raise ClusterError("a cluster that the kit has not started has a kubeconfig of the user's")

    def redact(self, text: str) -> str:
        """The text without the token, and without what is in the pull secret."""
        values = (self._secret or {}).get("data", {}).values()
        hidden = [base64.b64decode(value).decode(errors="replace") for value in values]
        with contextlib.suppress(OSError):
            hidden.append(self.connection.credentials.token())
        for secret in hidden:
            # What is shorter is no secret, and in too many words.
            text = text.replace(secret, "[token]") if len(secret) >= _SECRET_LENGTH else text
        return text

    def __enter__(self) -> Self:
        self._uses += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Whoever entered first closes it: that is after reports, which a clean-up that fails must not prevent."""
        self._uses -= 1
        if not self._uses:
            self.close()

    def close(self) -> None:
        """Remove everything that this run has made, and wait until it is gone.

        Raises ClusterError when that fails: `drakit down --kubeconfig` removes it later.
        """
        if self._closed:
            return
        self._closed = True
        self._client.shut()
        self._client.close()
        if not self._begun:
            return
        client = self.connection.client()
        try:
            leftovers.sweep(client, self.run, self.progress)
            if self._installed:
                leftovers.sweep_driver(client, self.run, self.progress)
                for item in client.list(
                    look.DRA, "resourceslices", fieldSelector=f"spec.driver={self.subject.name}"
                ):
                    client.delete(look.DRA, "resourceslices", item["metadata"]["name"])
        except ClientError as error:
            raise ClusterError(
                f"what the run has made could not be removed: {error}; drakit down --kubeconfig FILE does it later"
            ) from None
        finally:
            client.close()


def _manifests(subject: Descriptor) -> list[install.Object]:
    """The manifests of the driver, none when it is installed. Raises ClusterError for a driver that is neither."""
    if subject.installed:
        return []
    if subject.manifests:
        return install.read(subject.manifests)
    raise ClusterError(
        f"{subject.path}: start.command runs a driver on nodes that drakit has started; on a cluster of yours it has "
        'to be there: say "installed: true" if it is, or list the "manifests" that install it'
    )
