from __future__ import annotations

import pytest

from clusters import gates, versions
from clusters.gates import GATES, GateError, Stage, effective, settings

# One row for each way in which a gate went through the versions, by hand from the release notes of its stages.
HISTORIES = {
    "DynamicResourceAllocation": ["GA on", "GA on locked", "GA on locked", "GA on locked"],
    "DRAPrioritizedList": ["beta on", "beta on", "GA on", "GA on locked"],
    "DRADeviceTaints": ["alpha off", "alpha off", "beta on", "GA on"],
    "DRADeviceTaintRules": ["", "alpha off", "beta off", "GA on"],
    "DRAResourceClaimGranularStatusAuthorization": ["", "", "beta on", "beta on"],
    "DRANodeAllocatableResources": ["", "", "alpha off", "alpha off"],
    "DRAFractionalCapacityRange": ["", "", "", "beta off"],
    "DRAOptionalNodeOperations": ["", "", "", "alpha off"],
    "NodeDeclaredFeatures": ["", "alpha off", "beta on", "GA on locked"],
    "KubeletPodResourcesListUseActivePods": ["deprecated on"] * 4,
}


def shown(name: str, version: str) -> str:
    gate = GATES[version].get(name)
    return f"{gate.stage} {'on' if gate.default else 'off'}{' locked' if gate.locked else ''}" if gate else ""


@pytest.mark.parametrize("name", HISTORIES)
def test_a_gate_has_stage_default_and_lock_of_each_version(name: str) -> None:
    assert [shown(name, version) for version in gates.VERSIONS] == HISTORIES[name]


def test_alpha_gates_are_off_and_locked_ones_are_ga() -> None:
    for table in GATES.values():
        for name, gate in table.items():
            assert gate.stage is not Stage.ALPHA or not gate.default, name
            assert gate.stage is Stage.GA or not gate.locked, name


def test_every_need_is_a_gate_of_the_same_version_and_no_less_mature() -> None:
    for version, table in GATES.items():
        for name, gate in table.items():
            for need in gate.needs:
                assert need in table, f"{name} of {version} needs {need}"
                assert not (gate.default and not table[need].default), f"{name} is on without {need}"


def test_defaults_differ_between_versions() -> None:
    assert effective({}, "1.35")["DRAConsumableCapacity"] is False
    assert effective({}, "1.36")["DRAConsumableCapacity"] is True
    assert effective({}) == effective({}, "1.37")


@pytest.mark.parametrize(
    ("chosen", "version", "text"),
    [
        (
            {"DRADerivedAttributes": True},
            "1.36",
            "unrecognized feature gate: DRADerivedAttributes in Kubernetes 1.36; 1.37 has it",
        ),
        (
            {"DRAListTypeAttributes": True},
            "1.35",
            "unrecognized feature gate: DRAListTypeAttributes in Kubernetes 1.35; 1.36, 1.37 have it",
        ),
        (
            {"DRAAdminAcess": True},
            "1.37",
            'unrecognized feature gate: DRAAdminAcess, did you mean "DRAAdminAccess"?',
        ),
        (
            {"DRAAdminAccess": False},
            "1.36",
            (
                "cannot set feature gate DRAAdminAccess to false, feature is locked to true in Kubernetes 1.36; "
                "it can be set in 1.34, 1.35"
            ),
        ),
        (
            {"DRADeviceTaintRules": True, "DRADeviceTaints": False},
            "1.36",
            "DRADeviceTaintRules is enabled, but depends on features that are disabled: [DRADeviceTaints]",
        ),
        ({}, "1.33", "Kubernetes 1.33 is not known; there are 1.34, 1.35, 1.36, 1.37"),
    ],
)
def test_what_cannot_be_is_told_with_the_versions_where_it_can(
    chosen: dict[str, bool], version: str, text: str
) -> None:
    with pytest.raises(GateError) as error:
        effective(chosen, version)
    assert str(error.value) == text


def test_what_needs_a_gate_goes_off_with_it_also_through_others() -> None:
    on = effective({"DynamicResourceAllocation": False}, "1.34")
    assert [name for name, value in on.items() if value and name.startswith("DRA")] == [
        "DRAResourceClaimDeviceStatus"
    ]
    assert settings({"DRAConsumableCapacity": False}) == {"DRAConsumableCapacity": False}
    assert settings({"DRADeviceTaints": False}) == {"DRADeviceTaints": False, "DRADeviceTaintRules": False}
    assert settings({"DRADeviceTaints": False}, "1.35") == {"DRADeviceTaints": False}


def test_api_versions_have_the_kinds_of_each_kubernetes_version() -> None:
    table = versions.API_VERSIONS
    assert "DeviceTaintRule" in table["resource.k8s.io/v1"]["1.37"].kinds
    assert "DeviceTaintRule" not in table["resource.k8s.io/v1"]["1.36"].kinds
    assert table["resource.k8s.io/v1alpha3"]["1.35"].kinds == ("DeviceTaintRule",)
    assert "1.36" not in table["scheduling.k8s.io/v1beta1"]
    assert versions.PLUGIN_SERVICES["DRAResourceHealth"]["1.36"] == ("v1alpha1",)


def test_what_is_served_follows_the_runtime_config() -> None:
    assert versions.served("1.36") == {"resource.k8s.io/v1"}
    assert versions.served("1.36", {"resource.k8s.io/v1beta2": True}) == {
        "resource.k8s.io/v1",
        "resource.k8s.io/v1beta2",
    }
    assert versions.served("1.37", {"api/all": True, "api/beta": False}) == {
        "resource.k8s.io/v1",
        "resource.k8s.io/v1alpha3",
        "scheduling.k8s.io/v1alpha3",
    }
    # The embedded server reads it the same way.
    from clusters.embedded.apiserver.served import Resources

    for config in ({}, {"api/all": True}, {"api/beta": True, "resource.k8s.io/v1beta1": False}):
        own = {
            version for version in versions.served("1.37", config) if version.startswith("resource.k8s.io/")
        }
        assert {f"resource.k8s.io/{name}" for name in Resources(config).groups()["resource.k8s.io"]} == own


def test_embedded_components_have_the_defaults_of_1_37() -> None:
    from clusters.embedded.apiserver.gates import enabled_gates
    from clusters.embedded.scheduler.gates import SchedulerGates

    defaults = effective({})
    on = {name for name, value in defaults.items() if value}
    assert enabled_gates({}) & set(defaults) <= on
    for name, value in SchedulerGates.of({}).all.items():
        assert defaults.get(name, value) is value, name


def test_an_embedded_cluster_of_another_version_is_refused() -> None:
    from clusters.embedded.cluster import EmbeddedCluster
    from clusters.interface import ClusterError, ClusterSpec

    with pytest.raises(ClusterError, match=r"is Kubernetes 1\.37 and no other; a local one can be 1\.36"):
        EmbeddedCluster(ClusterSpec(version="1.36"))


# By hand from where each version's controllers and scheduler make their informers.
NEEDED = {
    ("1.34", "DRADeviceTaints"): "resource.k8s.io/v1alpha3",
    ("1.35", "DRADeviceTaintRules"): "resource.k8s.io/v1alpha3",
    ("1.36", "DRADeviceTaintRules"): "resource.k8s.io/v1beta2",
    ("1.36", "DRAResourcePoolStatus"): "resource.k8s.io/v1alpha3",
    ("1.37", "DRAResourcePoolStatus"): "resource.k8s.io/v1alpha3",
    ("1.35", "GenericWorkload"): "scheduling.k8s.io/v1alpha1",
    ("1.36", "GenericWorkload"): "scheduling.k8s.io/v1alpha2",
    ("1.37", "GenericWorkload"): "scheduling.k8s.io/v1beta1",
}


@pytest.mark.parametrize(("version", "gate"), NEEDED)
def test_a_gate_needs_the_api_version_that_components_read(version: str, gate: str) -> None:
    chosen = {gate: True} | {
        need: True for need in GATES[version][gate].needs if not GATES[version][need].default
    }
    assert gates.runtime_config(chosen, version) == {NEEDED[version, gate]: True}


@pytest.mark.parametrize("version", gates.VERSIONS)
def test_without_a_choice_nothing_more_has_to_be_served(version: str) -> None:
    assert gates.runtime_config({}, version) == {}


def test_gates_that_are_off_need_nothing() -> None:
    assert gates.runtime_config({"GenericWorkload": False, "DRADeviceTaints": False}) == {}
