from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from clusters.descriptor import Descriptor
from conformance.model import Isolation, Level, Requirement, Verdict
from conformance.planner import SelectionError, Target, minor, plan

BASE = Requirement("DRV-AAA-01", Level.MUST, "It works.", "driver", ("somewhere",), "first")
DESCRIPTOR = Descriptor(Path("d.yaml"), "d.example.com", (), ("run",))
TARGET = Target("1.37", {"DRAOff": False, "DRAOn": True}, frozenset())


def one(
    requirement: Requirement, descriptor: Descriptor = DESCRIPTOR, target: Target = TARGET
) -> tuple[Verdict, str]:
    result = plan([requirement], descriptor, target)
    if result.run:
        return Verdict.PASS, ""
    return result.settled[0].verdict, result.settled[0].reason


def test_a_requirement_without_conditions_runs() -> None:
    assert one(BASE) == (Verdict.PASS, "")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"since": "1.38"}, "needs Kubernetes 1.38 or newer; this is 1.37"),
        ({"until": "1.36"}, "ended with Kubernetes 1.36; this is 1.37"),
        ({"capability": "sharing"}, 'the descriptor does not declare the capability "sharing"'),
        ({"gates": ("DRAOff",)}, "feature gate DRAOff is off"),
        ({"gates": ("DRALater",)}, "Kubernetes 1.37 has no feature gate DRALater"),
        ({"needs": ("cgroups",)}, 'this kind of cluster cannot do "cgroups"'),
        ({"hooks": ("failDevice",)}, "the descriptor has no hook failDevice"),
    ],
)
def test_what_cannot_be_tested_is_skipped_with_its_reason(change: dict[str, object], reason: str) -> None:
    assert one(replace(BASE, **change)) == (Verdict.SKIP, reason)  # type: ignore[arg-type]


def test_versions_compare_as_numbers() -> None:
    # As text "1.9" would be above "1.37".
    assert one(replace(BASE, since="1.9")) == (Verdict.PASS, "")
    assert minor("1.37.2") == (1, 37)


def test_disruptive_requirements_need_a_cluster_of_our_own_or_leave() -> None:
    disruptive = replace(BASE, isolation=Isolation.DISRUPTIVE)
    guest = replace(TARGET, allow_disruptive=False)
    assert one(disruptive)[0] is Verdict.PASS
    assert one(disruptive, target=guest)[0] is Verdict.SKIP


def test_declared_and_available_conditions_let_it_run() -> None:
    demanding = replace(BASE, capability="sharing", gates=("G",), needs=("cgroups",), hooks=("failDevice",))
    able = replace(DESCRIPTOR, capabilities=frozenset({"sharing"}), hooks={"failDevice": ()})
    assert one(demanding, able, Target("1.37", {"G": True}, frozenset({"cgroups"})))[0] is Verdict.PASS


def test_focus_and_skip_disable_the_rest() -> None:
    second = replace(BASE, id="DRV-BBB-01", area="second")
    third = replace(BASE, id="DRV-BBB-02", area="second")
    result = plan([BASE, second, third], DESCRIPTOR, TARGET, focus=["second"], skip=["drv-bbb-02"])
    assert [requirement.id for requirement in result.run] == ["DRV-BBB-01"]
    assert {(r.requirement.id, r.verdict, r.reason) for r in result.settled} == {
        ("DRV-AAA-01", Verdict.DISABLED, "not selected by --focus"),
        ("DRV-BBB-02", Verdict.DISABLED, "left out by --skip"),
    }


def test_globs_select_by_id() -> None:
    second = replace(BASE, id="DRV-BBB-01", area="second")
    assert [r.id for r in plan([BASE, second], DESCRIPTOR, TARGET, focus=["*-bbb-*"]).run] == ["DRV-BBB-01"]


def test_a_pattern_that_matches_nothing_is_an_error_with_a_hint() -> None:
    with pytest.raises(
        SelectionError, match='"DRV-AAA-10" matches no requirement; did you mean "DRV-AAA-01"'
    ):
        plan([BASE], DESCRIPTOR, TARGET, focus=["DRV-AAA-10"])


def test_a_gate_of_which_nothing_is_known_counts_as_off_for_that_reason() -> None:
    gated = replace(BASE, gates=("DRADeviceTaints",))
    blind = Target("1.37", {}, frozenset(), unknown_gates="the metrics cannot be read")
    reason = "whether feature gate DRADeviceTaints is on is not known: the metrics cannot be read"
    assert one(gated, target=blind) == (Verdict.SKIP, reason)
    # One that the version does not have is no secret.
    later = replace(BASE, gates=("DRALater",))
    assert one(later, target=blind) == (Verdict.SKIP, "Kubernetes 1.37 has no feature gate DRALater")


def test_a_cluster_may_say_itself_what_it_lacks() -> None:
    single = replace(TARGET, lacks={"several_nodes": "there is one node"})
    assert one(replace(BASE, needs=("several_nodes",)), target=single) == (Verdict.SKIP, "there is one node")
