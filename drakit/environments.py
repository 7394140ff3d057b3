"""The clusters of one run: one for each set of requirements that can share it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from clusters.descriptor import Descriptor
from clusters.interface import ClusterSpec
from conformance.cluster.environment import ClusterEnvironment, cluster_spec
from conformance.contract.environment import ContractEnvironment
from conformance.events import Listener, Note
from conformance.model import Isolation, Requirement
from conformance.runner import Bench, Environment
from drakit.tiers import RunningCluster, Tier

_FEW, _MANY = 3, 3
_CONTRACT = "contract"


def alone(requirement: Requirement, tier: Tier) -> bool:
    """Whether a test runs without any other: one that moves their clock, or breaks the cluster that they use.

    Contract tests that break something do so on a node of their own.
    """
    moves_clock = requirement.skips_time and "virtual_clock" in tier.capabilities
    return moves_clock or (requirement.suite != _CONTRACT and requirement.isolation is Isolation.DISRUPTIVE)


def takes_turns(requirement: Requirement, tier: Tier) -> bool:
    """Whether a test takes a node that the others of its cluster use, since there is none to lend."""
    return (
        requirement.suite != _CONTRACT
        and requirement.isolation is Isolation.EXCLUSIVE
        and not tier.lent_nodes
    )


class Environments:
    """Starts the clusters that the requirements to run need, and no other, and gives every test its bench."""

    def __init__(
        self,
        subject: Descriptor,
        tier: Tier,
        run: Sequence[Requirement],
        listen: Listener,
        gates: Mapping[str, bool] | None = None,
    ) -> None:
        """`gates` are those of one cluster for all; without them each requirement has what it needs."""
        self._gates = gates
        self._subject = subject
        self._tier = tier
        self._listen = listen
        self._counts: dict[ClusterSpec, int] = {}
        for requirement in run:
            spec = self.spec(requirement)
            self._counts[spec] = self._counts.get(spec, 0) + 1
        self._clusters: list[RunningCluster] = []
        self._environments: Mapping[ClusterSpec, Environment] = {}
        self._stack = contextlib.ExitStack()

    @property
    def specs(self) -> Sequence[ClusterSpec]:
        """The clusters that are needed."""
        return tuple(self._counts)

    def __enter__(self) -> Environments:
        """Start the clusters. Raises ClusterError."""
        for spec in self._counts:
            self._tier.check(spec)
        with contextlib.ExitStack() as stack:
            stack.callback(self._tier.close)
            self._tier.get_ready(lambda text: self._listen(Note(text)))
            # Whole clusters first: an API server alone can be had beside one.
            specs = sorted(self._counts, key=lambda spec: not spec.control_plane)
            self._environments = {spec: stack.enter_context(self._start(spec, stack)) for spec in specs}
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *problem: object) -> None:
        self._stack.close()

    def spec(self, requirement: Requirement) -> ClusterSpec:
        """The cluster on which a requirement is tested."""
        if requirement.suite == _CONTRACT:
            return ClusterSpec(version=self._tier.version, control_plane=False)
        return cluster_spec(
            requirement, self._tier.version, lent_nodes=self._tier.lent_nodes, gates=self._gates
        )

    def _start(self, spec: ClusterSpec, stack: contextlib.ExitStack) -> Any:
        what = f"{len(spec.nodes)} nodes" if spec.control_plane else "an API server for the driver contract"
        beginning = self._tier.beginning(spec, what + _gates_text(spec))
        self._listen(Note(f"{self._subject.name}: {beginning}"))
        cluster = stack.enter_context(self._tier.start(spec, beside=self._clusters))
        self._clusters.append(cluster)
        cluster.wait_ready()
        if not spec.control_plane:
            return ContractEnvironment(cluster, self._subject, few=self._counts[spec] <= _FEW)
        return ClusterEnvironment(
            cluster,
            self._subject,
            timeout_factor=self._tier.patience,
            settings=self._tier.settings,
            prepare_namespace=self._tier.prepare_namespace,
        )

    def bench(self, requirement: Requirement) -> AbstractContextManager[Bench]:
        """A bench on the cluster of the requirement."""
        return self._environments[self.spec(requirement)].bench(requirement)

    def redact(self, text: str) -> str:
        """The text without the credentials of any cluster."""
        for cluster in self._clusters:
            text = cluster.redact(text)
        return text


def _gates_text(spec: ClusterSpec) -> str:
    """The gates of a cluster in words, only their number when they are many."""
    on = [name for name, value in spec.gates if value]
    return f", {len(on)} feature gates on" if len(on) > _MANY else "".join(f", {name} on" for name in on)
