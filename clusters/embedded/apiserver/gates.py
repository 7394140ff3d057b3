"""Which feature gates are on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dra_api import features

_FURTHER_DEFAULTS: Final = {
    "DRAResourceClaimGranularStatusAuthorization": True,
    "DRADeviceTaintRules": True,
    "DRASchedulerFilterTimeout": True,
    "DRAResourcePoolStatus": False,
    "DRAWorkloadResourceClaims": False,
}


def enabled_gates(chosen: Mapping[str, bool]) -> frozenset[str]:
    """The defaults of the Kubernetes version, changed by the cluster's own choice.

    Gates that concern other components are taken as they come: the same map configures a whole cluster.
    """
    gates = {**features.DEFAULTS_1_37, **_FURTHER_DEFAULTS, **chosen}
    return frozenset(name for name, on in gates.items() if on)
