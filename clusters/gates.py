"""Feature gates that concern DRA: which Kubernetes version has which, their stages, defaults, locks and dependencies.

Source: `pkg/features/kube_features.go` of kubernetes v1.37.2, which holds the history of each gate, and
`pkg/features/kube_features.go` of apiserver v0.37.2 for those of the API machinery.
"""

from __future__ import annotations

import difflib
import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

VERSIONS: Final = ("1.34", "1.35", "1.36", "1.37")
"""The Kubernetes minors that are known here, oldest first."""
LATEST: Final = VERSIONS[-1]


ALL: Final = "all"
"""In a setting, every gate of DRA."""


class GateError(ValueError):
    """A gate or version that cannot be set so; the text says what is allowed."""


class Stage(enum.StrEnum):
    """How mature a gate's feature is."""

    ALPHA = "alpha"
    BETA = "beta"
    GA = "GA"
    DEPRECATED = "deprecated"


@dataclass(frozen=True)
class Gate:
    """A gate in one version: its stage and default, whether that is locked, and the gates that it needs."""

    stage: Stage
    default: bool
    locked: bool = False
    needs: tuple[str, ...] = ()


_NONE: Final = "-"
_WORDS: Final = {"A": Stage.ALPHA, "B": Stage.BETA, "GA": Stage.GA, "D": Stage.DEPRECATED}
_DRA: Final = ("DynamicResourceAllocation",)

# Stage and default in each of VERSIONS: A(lpha), B(eta), GA, D(eprecated), then `+` on or `-` off, `*` for locked.
_HISTORY: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "DynamicResourceAllocation": ("GA+  GA+* GA+* GA+*", ()),
    "DRAAdminAccess": ("B+   B+   GA+* GA+*", _DRA),
    "DRAPrioritizedList": ("B+   B+   GA+  GA+*", _DRA),
    # Upstream does not tie it to DynamicResourceAllocation, since their defaults conflicted once.
    "DRAResourceClaimDeviceStatus": ("B+   B+   B+   GA+*", ()),
    "DRASchedulerFilterTimeout": ("B+   B+   B+   B+", _DRA),
    "DRADeviceTaints": ("A-   A-   B+   GA+", _DRA),
    "DRADeviceTaintRules": ("-    A-   B-   GA+", ("DRADeviceTaints",)),
    "DRAPartitionableDevices": ("A-   A-   B+   B+", _DRA),
    "DRAConsumableCapacity": ("A-   A-   B+   B+", _DRA),
    "DRADeviceBindingConditions": ("A-   A-   B+   B+", (*_DRA, "DRAResourceClaimDeviceStatus")),
    "DRAExtendedResource": ("A-   A-   B+   GA+*", _DRA),
    "DRAResourceClaimGranularStatusAuthorization": (
        "-    -    B+   B+",
        (*_DRA, "DRAResourceClaimDeviceStatus"),
    ),
    "DRAListTypeAttributes": ("-    -    A-   A-", _DRA),
    "DRANodeAllocatableResources": ("-    -    A-   A-", _DRA),
    "DRAResourcePoolStatus": ("-    -    A-   A-", _DRA),
    "DRAWorkloadResourceClaims": ("-    -    A-   B-", (*_DRA, "GenericWorkload")),
    # Off when the control plane is to be compatible with 1.36 (--min-compatibility-version), which nobody sets here.
    "DRAFractionalCapacityRange": ("-    -    -    B-", ("DRAConsumableCapacity",)),
    "DRADerivedAttributes": ("-    -    -    A-", _DRA),
    "DRADeviceCompatibilityGroups": ("-    -    -    A-", (*_DRA, "DRAPartitionableDevices")),
    "DRAOptionalNodeOperations": ("-    -    -    A-", (*_DRA, "NodeDeclaredFeatures")),
    "DRAPartitionableDevicesType": (
        "-    -    -    A-",
        (*_DRA, "DRAPartitionableDevices", "DRAResourcePoolStatus"),
    ),
    "ResourceHealthStatus": ("A-   A-   B+   B+", _DRA),
    "ResourceHealthStatusMessage": ("-    -    B+   B+", ("ResourceHealthStatus",)),
    "KubeletPodResourcesDynamicResources": ("B+   B+   GA+* GA+*", ()),
    "KubeletPodResourcesGet": ("B+   B+   GA+* GA+*", ()),
    "KubeletPodResourcesListUseActivePods": ("D+   D+   D+   D+", ()),
    "NodeDeclaredFeatures": ("-    A-   B+   GA+*", ()),
    "GenericWorkload": ("-    A-   A-   B-", ()),
    "TopologyAwareWorkloadScheduling": ("-    -    A-   A-", ("GenericWorkload",)),
    "PodLevelResources": ("B+   B+   B+   B+", ()),
    "InPlacePodVerticalScaling": ("B+   GA+* GA+* GA+*", ()),
    "InPlacePodLevelResourcesVerticalScaling": (
        "-    A-   B+   B+",
        ("InPlacePodVerticalScaling", "PodLevelResources", "NodeDeclaredFeatures"),
    ),
    "SchedulerAsyncAPICalls": ("B-   B-   B-   B-", ()),
    "DeclarativeValidation": ("B+   B+   GA+* GA+*", ()),
    "DeclarativeValidationBeta": ("-    -    B+   B+", ("DeclarativeValidation",)),
}

# The group version that components read when a gate is on, in each of VERSIONS; a component that cannot read it waits
# for ever. Those that are served by default are left out. Source: where informers are made, in
# `cmd/kube-controller-manager/app` and `pkg/scheduler` of kubernetes v1.34.4, v1.35.4, v1.36.3 and v1.37.2.
_API: Final[Mapping[str, tuple[str, ...]]] = {
    "DRADeviceTaints": ("resource.k8s.io/v1alpha3", _NONE, _NONE, _NONE),
    "DRADeviceTaintRules": (_NONE, "resource.k8s.io/v1alpha3", "resource.k8s.io/v1beta2", _NONE),
    "DRAResourcePoolStatus": (_NONE, _NONE, "resource.k8s.io/v1alpha3", "resource.k8s.io/v1alpha3"),
    "GenericWorkload": (
        _NONE,
        "scheduling.k8s.io/v1alpha1",
        "scheduling.k8s.io/v1alpha2",
        "scheduling.k8s.io/v1beta1",
    ),
}


def _table() -> dict[str, dict[str, Gate]]:
    table: dict[str, dict[str, Gate]] = {version: {} for version in VERSIONS}
    for name, (history, needs) in _HISTORY.items():
        for version, word in zip(VERSIONS, history.split(), strict=True):
            if word != _NONE:
                stage = _WORDS[word.rstrip("+-*")]
                table[version][name] = Gate(stage, "+" in word, word.endswith("*"), needs)
    return table


GATES: Final[Mapping[str, Mapping[str, Gate]]] = _table()
"""The gates of each version, by name."""


def known(version: str) -> Mapping[str, Gate]:
    """The gates of a Kubernetes minor. Raises GateError for a version that is not known here."""
    if version not in GATES:
        raise GateError(f"Kubernetes {version} is not known; there are {', '.join(VERSIONS)}")
    return GATES[version]


def parse(text: str) -> dict[str, bool]:
    """The pairs of a setting such as `DRADeviceTaints=false,DRADerivedAttributes=true`. Raises GateError."""
    result = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = pair.partition("=")
        if not equals:
            raise GateError(f"missing bool value for {name}: write {name}=true or {name}=false")
        if value.lower() not in ("true", "false"):
            raise GateError(f'invalid value of {name}={value}: "{value}" is neither true nor false')
        result[name.strip()] = value.lower() == "true"
    return result


def choose(text: str, version: str = LATEST) -> dict[str, bool]:
    """The gates of a setting as `parse` reads it, where the word `all` stands for all of `all_on`. Raises GateError."""
    words = [word.strip() for word in text.split(",")]
    everything = all_on(version) if ALL in words else {}
    return everything | parse(",".join(word for word in words if word != ALL))


def all_on(version: str = LATEST) -> dict[str, bool]:
    """Every gate of DRA on, with those that they need; the ones that are locked on need no setting."""
    table = known(version)
    wanted = [name for name in table if name.startswith("DRA")]
    for name in wanted:  # grows while it is walked through
        wanted += [need for need in table[name].needs if need in table and need not in wanted]
    return {name: True for name in sorted(wanted) if not table[name].locked}


def effective(
    chosen: Mapping[str, bool], version: str = LATEST, told: Mapping[str, bool] | None = None
) -> dict[str, bool]:
    """Every gate's value in a version: the defaults, changed by the choice. Raises GateError for one that cannot be.

    A gate that is on by default goes off with what it needs. `told` are values that a cluster has instead of defaults.
    """
    table = known(version)
    for name, value in chosen.items():
        gate = table.get(name)
        if gate is None:
            raise GateError(f"unrecognized feature gate: {name}{_hint(name, version)}")
        if gate.locked and value is not gate.default:
            raise GateError(
                f"cannot set feature gate {name} to {_word(value)}, feature is locked to {_word(gate.default)}"
                f"{_elsewhere(name, version)}"
            )
    had = {name: value for name, value in (told or {}).items() if name in table}
    gates = {name: gate.default for name, gate in table.items()} | had | dict(chosen)
    changed = True
    while changed:
        changed = False
        for name, gate in table.items():
            # What a version does not have yet cannot be needed there.
            missing = [need for need in gate.needs if need in table and not gates[need]]
            if not gates[name] or not missing:
                continue
            if name in chosen:
                raise GateError(
                    f"{name} is enabled, but depends on features that are disabled: [{' '.join(missing)}]"
                )
            # A component of a real cluster refuses to start, which helps nobody who wants to see a feature off.
            gates[name] = False
            changed = True
    return gates


def settings(chosen: Mapping[str, bool], version: str = LATEST) -> dict[str, bool]:
    """What has to be set for the choice to hold: `chosen`, and gates that go off with what they need.

    It is what components of a real cluster take as `--feature-gates`. Raises GateError.
    """
    table = known(version)
    return {
        name: value
        for name, value in effective(chosen, version).items()
        if name in chosen or value is not table[name].default
    }


def runtime_config(chosen: Mapping[str, bool], version: str = LATEST) -> dict[str, bool]:
    """What a real API server has to serve beyond its defaults for a choice of gates. Raises GateError.

    It is what kube-apiserver takes as `--runtime-config`.
    """
    gates = effective(chosen, version)
    column = VERSIONS.index(version)
    needed = {history[column] for name, history in _API.items() if gates.get(name, False)}
    return dict.fromkeys(sorted(needed - {_NONE}), True)


def needed_api(name: str, version: str = LATEST) -> str:
    """The group version, off by default, that a gate needs to be served in a version; "" when there is none."""
    api = _API[name][VERSIONS.index(version)] if name in _API and version in VERSIONS else _NONE
    return "" if api == _NONE else api


def versions_of(name: str) -> tuple[str, ...]:
    """The versions that have a gate, oldest first."""
    return tuple(version for version in VERSIONS if name in GATES[version])


def _hint(name: str, version: str) -> str:
    """Which gate was meant, or in which versions there is one of that name."""
    if having := versions_of(name):
        return f" in Kubernetes {version}; {', '.join(having)} {'has' if len(having) == 1 else 'have'} it"
    return _similar(name, GATES[version])


def _elsewhere(name: str, version: str) -> str:
    free = [other for other in versions_of(name) if other != version and not GATES[other][name].locked]
    return f" in Kubernetes {version}; it can be set in {', '.join(free)}" if free else ""


def _similar(name: str, candidates: Iterable[str]) -> str:
    lowered = {candidate.lower(): candidate for candidate in candidates}
    close = difflib.get_close_matches(name.lower(), lowered, 1)
    return f', did you mean "{lowered[close[0]]}"?' if close else ""


def _word(value: bool) -> str:
    return "true" if value else "false"
