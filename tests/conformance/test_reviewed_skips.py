from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters import gates
from clusters.descriptor import HOOKS, Descriptor
from clusters.document import DocumentError
from clusters.embedded.cluster import EmbeddedCluster
from clusters.local.cluster import LocalCluster
from conformance import catalogue, reviewed
from conformance.model import SkipCause
from conformance.planner import Target, plan
from conformance.reviewed import Skip, unreviewed

# Declares and has everything, so that nothing is left out for its sake.
ABLE = replace(
    Descriptor(Path("d.yaml"), "d.example.com", (), ("run",)),
    capabilities=frozenset(catalogue.capabilities()),
    hooks=dict.fromkeys(HOOKS, ()),
)
TIERS: dict[str, frozenset[str]] = {
    "embedded": EmbeddedCluster.CAPABILITIES,
    "local": LocalCluster.CAPABILITIES,
    # The least: one node, and no image of the kit's containers.
    "existing": frozenset(),
}


def planned(tier: str) -> Iterator[Skip]:
    version, own = gates.LATEST, tier != "existing"
    every = dict.fromkeys(gates.known(version), True)
    target = Target(version, every, TIERS[tier], allow_disruptive=own)
    for result in plan(catalogue.requirements().values(), ABLE, target).settled:
        needs = reviewed.words(result.requirement)
        yield Skip(result.requirement.id, str(result.cause), result.reason, needs)


@pytest.mark.parametrize("tier", TIERS)
def test_nothing_is_left_out_that_nobody_has_agreed_to(tier: str) -> None:
    assert unreviewed(tier, planned(tier)) == []


@pytest.mark.parametrize("tier", TIERS)
def test_the_list_holds_nothing_that_the_tier_can_do(tier: str) -> None:
    skipped = {skip.requirement for skip in planned(tier) if skip.cause == SkipCause.TIER}
    for word, ids in reviewed.left_out(tier).items():
        assert word not in TIERS[tier]
        assert set(ids) <= skipped


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    path = tmp_path / "tiers.yaml"

    def write(left_out: dict[str, Any]) -> None:
        words = dict(catalogue.tier_capabilities())
        path.write_text(yaml.safe_dump({"capabilities": words, "left_out": left_out}))

    monkeypatch.setattr(reviewed, "_FILE", path)
    reviewed.left_out.cache_clear()
    yield write
    reviewed.left_out.cache_clear()


def test_a_skip_is_allowed_for_the_lack_that_is_listed_alone(listed: Any) -> None:
    listed({"local": {"virtual_clock": ["ALC-UPD-08"]}})
    lacking = Skip("ALC-UPD-08", "tier", "no virtual clock", ("virtual_clock",))
    assert unreviewed("local", [lacking]) == []
    assert unreviewed("embedded", [lacking]) == [
        "ALC-UPD-08 is left out on tier embedded: no virtual clock (tiers.yaml)"
    ]
    # Another requirement, another lack, and another cause are not what was agreed to.
    assert len(unreviewed("local", [replace(lacking, requirement="ALC-UPD-07")])) == 1
    assert len(unreviewed("local", [replace(lacking, needs=("restart_kubelet",))])) == 1
    assert len(unreviewed("local", [replace(lacking, cause="prerequisite")])) == 1


def test_what_the_driver_or_the_version_does_not_have_needs_no_review(listed: Any) -> None:
    listed({})
    skips = [Skip("DRV-UNP-05", "driver", "no hook"), Skip("ALC-SEL-25", "version", "too old")]
    assert unreviewed("local", skips) == []


def test_gates_of_a_cluster_of_somebody_else_need_no_review(listed: Any) -> None:
    listed({})
    skip = Skip("ALC-ALT-04", "gate", "feature gate DRAListTypeAttributes is off")
    assert unreviewed("existing", [skip]) == []
    assert len(unreviewed("kind", [skip])) == 1


def test_a_list_with_words_that_mean_nothing_is_refused(listed: Any) -> None:
    listed({"local": {"virtual_clok": ["ALC-UPD-99"]}})
    with pytest.raises(DocumentError) as error:
        reviewed.left_out("local")
    assert "left_out.local.virtual_clok: is no capability" in str(error.value)
    assert '"ALC-UPD-99" is not one of' in str(error.value)


def test_the_skips_of_a_report_are_found() -> None:
    results = [
        {"id": "ALC-KUB-01", "verdict": "skip", "cause": "tier", "reason": "cannot"},
        {"id": "ALC-KUB-02", "verdict": "pass"},
        {"id": "ALC-SCH-19", "verdict": "skip", "cause": "tier", "reason": "disruptive"},
    ]
    assert list(reviewed.skips_of({"results": results})) == [
        Skip("ALC-KUB-01", "tier", "cannot", ("restart_kubelet",)),
        Skip("ALC-SCH-19", "tier", "disruptive", ("disruptive",)),
    ]


def test_a_suite_stands_for_its_requirements(listed: Any) -> None:
    listed({"existing": {"bare_nodes": ["contract"]}})
    ids = reviewed.left_out("existing")["bare_nodes"]
    assert "DRV-REG-01" in ids
    assert all(catalogue.requirements()[name].suite == "contract" for name in ids)
    assert len(ids) == sum(one.suite == "contract" for one in catalogue.requirements().values())
