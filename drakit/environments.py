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

_FEW = 3
_CONTRACT = "contract"


def alone(requirement: Requirement, tier: Tier) -> bool:
    """Whether a test runs without others: one that breaks what they use, or moves their clock.

    Contract tests that break something do so on a node of their own.
    """
    moves_clock = requirement.skips_time and "virtual_clock" in tier.capabilities
    disruptive = requirement.suite != _CONTRACT and requirement.isolation is Isolation.DISRUPTIVE
    return disruptive or moves_clock


class Environments:
    """Starts the clusters that the requirements to run need, and no other, and gives every test its bench."""

    def __init__(self, subject: Descriptor, tier: Tier, run: Sequence[Requirement], listen: Listener) -> None:
        self._subject = subject
        self._tier = tier
        self._listen = listen
        self._counts: dict[ClusterSpec, int] = {}
        for requirement in run:
            spec = self._spec(requirement)
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
        self._tier.get_ready(lambda text: self._listen(Note(text)))
        with contextlib.ExitStack() as stack:
            self._environments = {
                spec: stack.enter_context(self._start(spec, stack)) for spec in self._counts
            }
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *problem: object) -> None:
        self._stack.close()

    def _spec(self, requirement: Requirement) -> ClusterSpec:
        if requirement.suite == _CONTRACT:
            return ClusterSpec(version=self._tier.version, control_plane=False)
        return cluster_spec(requirement, self._tier.version)

    def _start(self, spec: ClusterSpec, stack: contextlib.ExitStack) -> Any:
        what = f"{len(spec.nodes)} nodes" if spec.control_plane else "an API server for the driver contract"
        with_gates = "".join(f", {name} on" for name, on in spec.gates if on)
        kind = f"{self._tier.article} {self._tier.name} cluster (Kubernetes {spec.version})"
        self._listen(Note(f"{self._subject.name}: starting {kind}: {what}{with_gates}"))
        cluster = stack.enter_context(self._tier.start(spec))
        self._clusters.append(cluster)
        cluster.wait_ready()
        if not spec.control_plane:
            return ContractEnvironment(cluster, self._subject, few=self._counts[spec] <= _FEW)
        return ClusterEnvironment(cluster, self._subject, timeout_factor=self._tier.patience)

    def bench(self, requirement: Requirement) -> AbstractContextManager[Bench]:
        """A bench on the cluster of the requirement."""
        return self._environments[self._spec(requirement)].bench(requirement)

    def redact(self, text: str) -> str:
        """The text without the credentials of any cluster."""
        for cluster in self._clusters:
            text = cluster.redact(text)
        return text
