"""What the allocator may do, by feature gates, and which of upstream's three implementations that stands for."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Literal, Self

from dra_api import features as gates

Implementation = Literal["stable", "incubating", "experimental"]
"""One of upstream's three allocators. They differ in a few results."""


@dataclass(frozen=True, slots=True)
class Features:
    """The switches of the allocator.

    Upstream runs the first of its implementations stable, incubating and experimental that supports everything
    that is on, unless it is told which one. Source: kubernetes v1.37.2 `dynamicresources.go` (AllocatorFeatures),
    dynamic-resource-allocation `structured/allocator.go`.
    """

    admin_access: bool = False
    prioritized_list: bool = False
    partitionable_devices: bool = False
    device_taints: bool = False
    binding_conditions: bool = False
    consumable_capacity: bool = False
    fractional_capacity_range: bool = False
    list_type_attributes: bool = False
    optional_node_operations: bool = False
    derived_attributes: bool = False
    compatibility_groups: bool = False
    told: Implementation | None = None
    """The implementation to follow; None for the first that supports what is on."""

    @classmethod
    def from_gates(cls, enabled: Mapping[str, bool], told: Implementation | None = None) -> Self:
        """The switches for feature gates of the scheduler; what is not named has its default of 1.37."""
        on = {**gates.DEFAULTS_1_37, **enabled}
        return cls(
            admin_access=on[gates.ADMIN_ACCESS],
            prioritized_list=on[gates.PRIORITIZED_LIST],
            partitionable_devices=on[gates.PARTITIONABLE_DEVICES],
            device_taints=on[gates.DEVICE_TAINTS],
            binding_conditions=on[gates.BINDING_CONDITIONS] and on[gates.DEVICE_STATUS],
            consumable_capacity=on[gates.CONSUMABLE_CAPACITY],
            fractional_capacity_range=on[gates.FRACTIONAL_CAPACITY_RANGE],
            list_type_attributes=on[gates.LIST_TYPE_ATTRIBUTES],
            optional_node_operations=on[gates.OPTIONAL_NODE_OPERATIONS],
            derived_attributes=on[gates.DERIVED_ATTRIBUTES],
            compatibility_groups=on[gates.COMPATIBILITY_GROUPS],
            told=told,
        )

    @property
    def implementation(self) -> Implementation:
        """The implementation that upstream runs."""
        if self.told is not None:
            return self.told
        if (
            self.list_type_attributes
            or self.optional_node_operations
            or self.derived_attributes
            or self.compatibility_groups
        ):
            return "experimental"
        if self.binding_conditions or self.consumable_capacity or self.fractional_capacity_range:
            return "incubating"
        return "stable"

    def lets_skip_operations(self, declared: Container[str]) -> bool:
        """Whether devices whose node operations are left out may go to a node that declares these features.

        Only the experimental implementation looks at that.
        """
        return not self.experimental or (
            self.optional_node_operations and gates.OPTIONAL_NODE_OPERATIONS in declared
        )

    @property
    def experimental(self) -> bool:
        """Whether upstream runs its experimental implementation."""
        return self.implementation == "experimental"

    @property
    def stable(self) -> bool:
        """Whether upstream runs its stable implementation."""
        return self.implementation == "stable"
