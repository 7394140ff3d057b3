"""The tier of a cluster of the user's, by a kubeconfig: what `--kubeconfig` and the options beside it stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clusters import gates
from clusters.interface import ClusterError, ClusterSpec
from conformance.planner import Target
from drakit.output import UserError
from drakit.tiers import Begun, Progress, RunningCluster, Tier

if TYPE_CHECKING:
    from clusters.descriptor import Descriptor
    from clusters.existing.cluster import ExistingCluster

PATIENCE = 4.0
"""For the 30 s that most waits take at most. A kubelet whose call for a claim failed looks at the Pod again at its next
regular turn only, which is 60 to 90 s later where nobody has changed `syncFrequency` (`SyncPod` and `completeWork` of
Kubernetes 1.37.2). It fails by chance: the node authorizer may hear of a Pod later than its kubelet."""
PARALLEL = 6
"""Tests at the same time by default: others work on the cluster, too."""


@dataclass(frozen=True)
class Wishes:
    """The words of the command line about the cluster, as they were given."""

    kubeconfig: Path
    context: str = ""
    node_selector: str = ""
    tolerations: tuple[str, ...] = ()
    probe_image: str = ""
    pull_secret: str = ""
    timeout_factor: float = 1.0
    allow_disruptive: bool = False

    @property
    def options(self) -> tuple[str, ...]:
        """The words that choose the same cluster again."""
        words = ["--kubeconfig", str(self.kubeconfig)]
        for option, value in (
            ("--context", self.context),
            ("--node-selector", self.node_selector),
            *(("--tolerations", text) for text in self.tolerations),
            ("--probe-image", self.probe_image),
            ("--image-pull-secret", self.pull_secret),
        ):
            words += [option, value] if value else []
        if self.timeout_factor != 1.0:
            words += ["--timeout-factor", f"{self.timeout_factor:g}"]
        return (*words, "--allow-disruptive") if self.allow_disruptive else tuple(words)


_OPTIONS = (
    click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Judge on a cluster of yours, by this kubeconfig (docs/existing.md). The driver is installed there "
        "already, or its descriptor lists manifests.",
    ),
    click.option("--context", metavar="NAME", default="", help="Its context.  [default: the current one]"),
    click.option(
        "--node-selector", metavar="KEY=VALUE,...", default="", help="Use only nodes with these labels."
    ),
    click.option(
        "--tolerations",
        metavar="KEY=VALUE:EFFECT",
        multiple=True,
        help="What Pods of the kit tolerate; may be given several times.",
    ),
    click.option(
        "--probe-image",
        metavar="IMAGE",
        default="",
        help="Image of the kit's containers, which has the command probe.  [default: busybox]",
    ),
    click.option(
        "--image-pull-secret",
        "pull_secret",
        metavar="NAMESPACE/NAME",
        default="",
        help="Secret with which the image is pulled; it is copied to where the kit's Pods are.",
    ),
    click.option(
        "--timeout-factor", type=float, default=1.0, metavar="NUMBER", help="Wait so many times as long."
    ),
    click.option(
        "--allow-disruptive",
        is_flag=True,
        help="Run what disturbs others on the cluster as well, if it can be.",
    ),
)


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that choose a cluster of the user's."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def wishes(words: Mapping[str, Any]) -> Wishes | None:
    """What the options say, or None without --kubeconfig. Raises UserError for options that make no sense then."""
    if words["kubeconfig"] is not None:
        return Wishes(**words)
    usual = Wishes(Path())
    for name, value in words.items():
        if name != "kubeconfig" and value != getattr(usual, name):
            option = "image-pull-secret" if name == "pull_secret" else name.replace("_", "-")
            raise UserError(f"--{option} is about a cluster of yours: give its --kubeconfig as well")
    return None


class _ExistingTier(Tier):
    """One cluster, which is there: everything runs on it, and what it cannot do is left out."""

    name, article = "existing", "an"
    lent_nodes = 0

    def __init__(self, cluster: ExistingCluster, wishes: Wishes) -> None:
        super().__init__(cluster.version.minor)
        self._cluster = cluster
        self._wishes = wishes
        self.patience = PATIENCE * wishes.timeout_factor
        self.settings = cluster.settings
        table = gates.known(self.version)
        self.gates = {name: on for name, on in sorted(cluster.gates.items()) if on is not table[name].default}

    @property
    def capabilities(self) -> frozenset[str]:
        return self._cluster.capabilities

    @property
    def options(self) -> tuple[str, ...]:
        return self._wishes.options

    def target(self, settled_gates: Mapping[str, bool]) -> Target:
        """Its own gates count, whatever requirements would like."""
        return Target(
            self.version,
            self._cluster.gates,
            self.capabilities,
            self._wishes.allow_disruptive,
            self._cluster.unknown_gates,
            self._cluster.lacks,
        )

    def beginning(self, spec: ClusterSpec, what: str) -> str:
        names = ", ".join(node.name for node in self._cluster.nodes)
        full = self._cluster.version.full
        return f"on the cluster of context {self._cluster.connection.context} (Kubernetes {full}): {names}"

    def check_driver(self, driver: str) -> None:
        """It runs there."""

    def check(self, spec: ClusterSpec) -> None:
        """It is as it is."""

    def get_ready(self, progress: Progress) -> None:
        """It is ready."""

    def start(
        self,
        spec: ClusterSpec,
        *,
        port: int = 0,
        begun: Begun | None = None,
        beside: Sequence[RunningCluster] = (),
    ) -> RunningCluster:
        return self._cluster

    def prepare_namespace(self, namespace: str) -> None:
        self._cluster.prepare_namespace(namespace)


def tier(cluster: ExistingCluster, wishes: Wishes) -> Tier:
    """The tier that the cluster is."""
    return _ExistingTier(cluster, wishes)


def connect(wishes: Wishes, subject: Descriptor, progress: Progress) -> ExistingCluster:
    """The cluster, looked at and with the driver on it. Raises ClusterError; then nothing is left of the kit."""
    from clusters.existing import kubeconfig, settings
    from clusters.existing.cluster import ExistingCluster, Options

    if wishes.timeout_factor <= 0:
        raise ClusterError(f"--timeout-factor {wishes.timeout_factor:g}: must be greater than zero")
    options = Options(
        node_selector=settings.parse_selector(wishes.node_selector),
        tolerations=[settings.parse_toleration(text) for text in wishes.tolerations],
        probe_image=wishes.probe_image,
        pull_secret=settings.parse_reference(wishes.pull_secret) if wishes.pull_secret else None,
        patience=PATIENCE * wishes.timeout_factor,
    )
    connection = kubeconfig.load(wishes.kubeconfig, wishes.context)
    return ExistingCluster(connection, subject, options, progress)
