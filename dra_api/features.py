"""Feature gates that change fields of the API, with their defaults in Kubernetes 1.37.

Which gates are on in a cluster is decided by the cluster; validation and field dropping take the names of the
enabled ones. Source: spec of the gates in kubernetes v1.37.2 `pkg/features/kube_features.go`.
"""

from __future__ import annotations

from typing import Final

DYNAMIC_RESOURCE_ALLOCATION: Final = "DynamicResourceAllocation"
ADMIN_ACCESS: Final = "DRAAdminAccess"
PRIORITIZED_LIST: Final = "DRAPrioritizedList"
DEVICE_STATUS: Final = "DRAResourceClaimDeviceStatus"
DEVICE_TAINTS: Final = "DRADeviceTaints"
PARTITIONABLE_DEVICES: Final = "DRAPartitionableDevices"
PARTITIONABLE_DEVICES_TYPE: Final = "DRAPartitionableDevicesType"
COMPATIBILITY_GROUPS: Final = "DRADeviceCompatibilityGroups"
CONSUMABLE_CAPACITY: Final = "DRAConsumableCapacity"
FRACTIONAL_CAPACITY_RANGE: Final = "DRAFractionalCapacityRange"
BINDING_CONDITIONS: Final = "DRADeviceBindingConditions"
LIST_TYPE_ATTRIBUTES: Final = "DRAListTypeAttributes"
DERIVED_ATTRIBUTES: Final = "DRADerivedAttributes"
EXTENDED_RESOURCE: Final = "DRAExtendedResource"
NODE_ALLOCATABLE_RESOURCES: Final = "DRANodeAllocatableResources"
OPTIONAL_NODE_OPERATIONS: Final = "DRAOptionalNodeOperations"

DEFAULTS_1_37: Final[dict[str, bool]] = {
    DYNAMIC_RESOURCE_ALLOCATION: True,
    ADMIN_ACCESS: True,
    PRIORITIZED_LIST: True,
    DEVICE_STATUS: True,
    DEVICE_TAINTS: True,
    PARTITIONABLE_DEVICES: True,
    PARTITIONABLE_DEVICES_TYPE: False,
    COMPATIBILITY_GROUPS: False,
    CONSUMABLE_CAPACITY: True,
    # On by default only where --min-compatibility-version says 1.37; that is 1.36 where it says nothing.
    FRACTIONAL_CAPACITY_RANGE: False,
    BINDING_CONDITIONS: True,
    LIST_TYPE_ATTRIBUTES: False,
    DERIVED_ATTRIBUTES: False,
    EXTENDED_RESOURCE: True,
    NODE_ALLOCATABLE_RESOURCES: False,
    OPTIONAL_NODE_OPERATIONS: False,
}
"""Gate name -> on by default in 1.37; only gates that guard API fields or their validation."""

ENABLED_1_37: Final = frozenset(name for name, enabled in DEFAULTS_1_37.items() if enabled)
"""The gates that are on in a 1.37 cluster without settings."""
