"""Feature gates of Kubernetes 1.37 that concern DRA, with their defaults, dependencies and locks.

Source: `pkg/features/kube_features.go` of kubernetes v1.37.2.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final


class GateError(ValueError):
    """A gate or version that cannot be set so; the text says what is allowed."""


@dataclass(frozen=True)
class Gate:
    """A gate in one version: its default, whether that is locked, and the gates that it needs."""

    default: bool
    locked: bool = False
    needs: tuple[str, ...] = ()


_DRA: Final = ("DynamicResourceAllocation",)

GATES_1_37: Final[Mapping[str, Gate]] = {
    "DynamicResourceAllocation": Gate(True, locked=True),
    "DRAAdminAccess": Gate(True, True, _DRA),
    "DRAPrioritizedList": Gate(True, True, _DRA),
    "DRAResourceClaimDeviceStatus": Gate(True, True, _DRA),
    "DRASchedulerFilterTimeout": Gate(True, False, _DRA),
    "DRADeviceTaints": Gate(True, False, _DRA),
    "DRADeviceTaintRules": Gate(True, False, ("DRADeviceTaints",)),
    "DRAPartitionableDevices": Gate(True, False, _DRA),
    "DRAConsumableCapacity": Gate(True, False, _DRA),
    "DRADeviceBindingConditions": Gate(True, False, (*_DRA, "DRAResourceClaimDeviceStatus")),
    "DRAExtendedResource": Gate(True, True, _DRA),
    "DRAResourceClaimGranularStatusAuthorization": Gate(True, False, (*_DRA, "DRAResourceClaimDeviceStatus")),
    "DRAListTypeAttributes": Gate(False, False, _DRA),
    "DRANodeAllocatableResources": Gate(False, False, _DRA),
    "DRAResourcePoolStatus": Gate(False, False, _DRA),
    "DRAWorkloadResourceClaims": Gate(False, False, (*_DRA, "GenericWorkload")),
    "DRAFractionalCapacityRange": Gate(True, False, ("DRAConsumableCapacity",)),
    "DRADerivedAttributes": Gate(False, False, _DRA),
    "DRADeviceCompatibilityGroups": Gate(False, False, (*_DRA, "DRAPartitionableDevices")),
    "DRAOptionalNodeOperations": Gate(False, False, (*_DRA, "NodeDeclaredFeatures")),
    "DRAPartitionableDevicesType": Gate(
        False, False, (*_DRA, "DRAPartitionableDevices", "DRAResourcePoolStatus")
    ),
    "ResourceHealthStatus": Gate(True),
    "ResourceHealthStatusMessage": Gate(True),
    "KubeletPodResourcesDynamicResources": Gate(True, locked=True),
    "KubeletPodResourcesGet": Gate(True, locked=True),
    "KubeletPodResourcesListUseActivePods": Gate(True),
    "NodeDeclaredFeatures": Gate(True, locked=True),
    "GenericWorkload": Gate(False),
    "PodLevelResources": Gate(True),
    "InPlacePodVerticalScaling": Gate(True),
    "InPlacePodLevelResourcesVerticalScaling": Gate(True),
}


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


def effective(chosen: Mapping[str, bool]) -> dict[str, bool]:
    """Every gate's value: the defaults, changed by the choice. Raises GateError for a choice that cannot be."""
    for name, value in chosen.items():
        gate = GATES_1_37.get(name)
        if gate is None:
            raise GateError(f"unrecognized feature gate: {name}{_hint(name, GATES_1_37)}")
        if gate.locked and value is not gate.default:
            raise GateError(
                f"cannot set feature gate {name} to {_word(value)}, feature is locked to {_word(gate.default)}"
            )
    gates = {name: gate.default for name, gate in GATES_1_37.items()} | dict(chosen)
    for name, gate in GATES_1_37.items():
        missing = [need for need in gate.needs if not gates[need]]
        if gates[name] and missing and name in chosen:
            raise GateError(
                f"{name} is enabled, but depends on features that are disabled: [{' '.join(missing)}]"
            )
        if missing and name not in chosen:
            # A gate that is on by default goes off with what it needs; the server of a real cluster refuses to
            # start, which helps nobody who wants to see a feature off.
            gates[name] = False
    return gates


def _hint(name: str, known: Iterable[str]) -> str:
    lowered = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), lowered, 1)
    return f', did you mean "{lowered[close[0]]}"?' if close else ""


def _word(value: bool) -> str:
    return "true" if value else "false"
