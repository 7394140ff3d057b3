"""The feature gates that change what the scheduler does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from dra_api import features

_DEFAULTS: Final = {
    **features.DEFAULTS_1_37,
    "DRADeviceTaintRules": True,
    "DRASchedulerFilterTimeout": True,
    "NominatedNodeNameForExpectation": True,
    "SchedulerPopFromBackoffQ": True,
}


@dataclass(frozen=True, slots=True)
class SchedulerGates:
    """Upstream's gates, named after what they do here."""

    all: Mapping[str, bool]
    """Every gate by its upstream name, for the allocator."""
    filter_timeout: bool
    binding_conditions: bool
    """DRADeviceBindingConditions together with DRAResourceClaimDeviceStatus."""
    prioritized_list: bool
    consumable_capacity: bool
    optional_node_operations: bool
    taint_rules: bool
    nominate_before_binding: bool
    """Pods whose binding takes a while show their node in status.nominatedNodeName meanwhile."""
    pop_from_backoff: bool

    @classmethod
    def of(cls, chosen: Mapping[str, bool]) -> Self:
        """The gates of a cluster; what is not named has its default of 1.37."""
        on = {**_DEFAULTS, **chosen}
        return cls(
            all=on,
            filter_timeout=on["DRASchedulerFilterTimeout"],
            binding_conditions=on[features.BINDING_CONDITIONS] and on[features.DEVICE_STATUS],
            prioritized_list=on[features.PRIORITIZED_LIST],
            consumable_capacity=on[features.CONSUMABLE_CAPACITY],
            optional_node_operations=on[features.OPTIONAL_NODE_OPERATIONS],
            taint_rules=on["DRADeviceTaintRules"] and on[features.DEVICE_TAINTS],
            nominate_before_binding=on["NominatedNodeNameForExpectation"],
            pop_from_backoff=on["SchedulerPopFromBackoffQ"],
        )
