from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from clusters.descriptor import Descriptor
from clusters.interface import ClusterError, ClusterSpec
from conformance import catalogue
from conformance.events import Event, Note
from conformance.model import Isolation
from drakit.environments import Environments, alone, takes_turns
from drakit.tiers import RunningCluster, Tier

SUBJECT = Descriptor(Path("d.yaml"), "d.example.com", (), ("run",))
CONTRACT, WHOLE = (catalogue.requirements()[name] for name in ("DRV-PREP-01", "ALC-CLM-01"))


class Imagined(Tier):
    """Notes what it is asked to start, and starts nothing."""

    name, article = "imagined", "an"

    def __init__(self, *capabilities: str) -> None:
        super().__init__("1.36")
        self.can = frozenset(capabilities)
        self.asked: list[ClusterSpec] = []
        self.ready = 0

    @property
    def capabilities(self) -> frozenset[str]:
        return self.can

    def check_driver(self, driver: str) -> None:
        pass

    def check(self, spec: ClusterSpec) -> None:
        pass

    def get_ready(self, progress: object) -> None:
        self.ready += 1

    def start(
        self, spec: ClusterSpec, *, port: int = 0, begun: object = None, beside: object = ()
    ) -> RunningCluster:
        self.asked.append(spec)
        raise ClusterError("not here")


def test_only_the_clusters_that_are_needed_are_started_in_the_version_of_the_tier() -> None:
    for requirement, nodes in ((CONTRACT, 0), (WHOLE, 5)):
        tier, told = Imagined(), list[Event]()
        with (
            pytest.raises(ClusterError),
            Environments(SUBJECT, tier, [requirement, requirement], told.append),
        ):
            pass
        (spec,) = tier.asked
        assert (spec.version, len(spec.nodes), spec.control_plane) == ("1.36", nodes, bool(nodes))
        assert tier.ready == 1
        assert isinstance(told[0], Note)
        assert "starting an imagined cluster (Kubernetes 1.36)" in told[0].text


def test_requirements_with_other_gates_have_a_cluster_of_their_own() -> None:
    tier = Imagined()
    gated = replace(WHOLE, gates=("DRAListTypeAttributes",))
    environments = Environments(SUBJECT, tier, [WHOLE, gated, gated], lambda event: None)
    assert [spec.gates for spec in environments.specs] == [(), (("DRAListTypeAttributes", True),)]


def test_what_moves_the_clock_runs_alone_where_there_is_one_to_move() -> None:
    skipping = replace(WHOLE, skips_time=True)
    assert alone(skipping, Imagined("virtual_clock"))
    assert not alone(skipping, Imagined())
    assert not alone(WHOLE, Imagined("virtual_clock"))


def test_what_breaks_a_shared_cluster_runs_alone_and_a_contract_test_has_a_node() -> None:
    assert alone(replace(WHOLE, isolation=Isolation.DISRUPTIVE), Imagined())
    assert not alone(replace(CONTRACT, isolation=Isolation.DISRUPTIVE), Imagined())


@pytest.mark.parametrize(("lent", "turns"), [(0, True), (1, False)])
def test_tests_that_want_a_node_alone_take_turns_where_there_is_none_to_lend(lent: int, turns: bool) -> None:
    tier = Imagined()
    tier.lent_nodes = lent
    exclusive = replace(WHOLE, isolation=Isolation.EXCLUSIVE)
    assert takes_turns(exclusive, tier) is turns
    assert not alone(exclusive, tier)
    assert not takes_turns(WHOLE, tier)
    assert not takes_turns(replace(CONTRACT, isolation=Isolation.EXCLUSIVE), tier)
