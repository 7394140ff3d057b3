"""The suite of whole clusters on two nodes, which tests that want one alone take turns with."""

from __future__ import annotations

import dataclasses

import pytest

from clusters import descriptor, gates
from conformance import catalogue
from drakit import judge, tiers
from drakit.up import reference_driver

pytestmark = pytest.mark.process

CHOSEN = ("ALC-CDI-01", "ALC-CON-11", "ALC-SCH-13", "ALC-KUB-01", "ALC-UPD-01", "ALC-SCH-16")
"""Two that share nodes, with the driver under test on both; three that want one alone; one that wants all."""


@pytest.fixture
def order() -> judge.Order:
    return judge.Order(descriptor.load(reference_driver(), catalogue.capabilities()), focus=CHOSEN)


def test_what_wants_a_node_alone_has_it_when_the_others_are_done(
    order: judge.Order, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tier = tiers.find("embedded")
    monkeypatch.setattr(tier, "lent_nodes", 0)
    done = judge.run(order, tier)
    verdicts = {result.requirement.id: result.verdict.value for result in done.results}
    assert {name: verdicts[name] for name in CHOSEN} == dict.fromkeys(CHOSEN, "pass")
    err = capsys.readouterr().err
    assert "2 nodes" in err
    # Those that share come first.
    assert err.index("ALC-CON-11") < min(err.index(name) for name in CHOSEN[2:])


def test_one_cluster_serves_all_whose_gates_it_has(
    order: judge.Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    requirement = dataclasses.replace(catalogue.requirements()["ALC-CLM-01"], gates=("DRADerivedAttributes",))
    missing = dataclasses.replace(catalogue.requirements()["ALC-CLM-02"], gates=("DRAListTypeAttributes",))
    everything = {**catalogue.requirements(), "ALC-CLM-01": requirement, "ALC-CLM-02": missing}
    monkeypatch.setattr(catalogue, "requirements", lambda: everything)
    chosen = dataclasses.replace(
        order, focus=("ALC-CLM-01", "ALC-CLM-02", "ALC-CLM-03"), gates={"DRADerivedAttributes": True}
    )
    done = judge.run(chosen, tiers.find("embedded"))
    found = {result.requirement.id: (result.verdict.value, result.reason) for result in done.results}
    assert found["ALC-CLM-01"][0] == found["ALC-CLM-03"][0] == "pass"
    assert found["ALC-CLM-02"] == ("skip", "feature gate DRAListTypeAttributes is off")
    assert done.context.gates == {"DRADerivedAttributes": True}
    assert done.context.options[-2:] == ("--feature-gates", "DRADerivedAttributes=true")


def test_the_word_all_switches_every_gate_of_dra_on_with_what_it_needs() -> None:
    assert gates.choose("all,DRADerivedAttributes=false") == {
        **gates.all_on(),
        "DRADerivedAttributes": False,
    }
    assert {"DRAWorkloadResourceClaims", "GenericWorkload", "DRAOptionalNodeOperations"} <= set(
        gates.all_on()
    )
    # Locked ones are on without being set, and what is not of DRA stays as it is.
    assert not {"DRAAdminAccess", "NodeDeclaredFeatures", "SchedulerAsyncAPICalls"} & set(gates.all_on())
    assert all(
        gates.effective(gates.all_on())[name] for name in gates.known("1.37") if name.startswith("DRA")
    )
    assert "DRAWorkloadResourceClaims" in gates.all_on("1.36") and "GenericWorkload" in gates.all_on("1.36")
