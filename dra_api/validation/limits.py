"""Limits of the resource.k8s.io API (k8s.io/api v0.37.2 `resource/v1/types.go`); lengths in bytes."""

from __future__ import annotations

from typing import Final

REQUESTS: Final = 32
"""Requests of a claim, and names in a list of requests."""
CONSTRAINTS: Final = 32
CONFIGS: Final = 32
ALLOCATION_CONFIGS: Final = 2 * CONFIGS
RESULTS: Final = 32
SUB_REQUESTS: Final = 8
SELECTORS: Final = 32
DERIVED_ATTRIBUTES: Final = 32
EXPRESSION: Final = 10 * 1024
OPAQUE_PARAMETERS: Final = 10 * 1024
RESERVED_FOR: Final = 256
DEVICES: Final = 128
DEVICES_ADVANCED: Final = 64
"""Devices of a slice with taints, counter consumption or list attributes."""
ATTRIBUTES_AND_CAPACITIES: Final = 32
ATTRIBUTE_VALUES: Final = 48
ATTRIBUTE_LENGTH: Final = 64
DOMAIN_LENGTH: Final = 63
IDENTIFIER_LENGTH: Final = 32
TAINTS: Final = 16
COUNTER_CONSUMPTIONS: Final = 2
COUNTERS: Final = 32
COUNTER_SETS: Final = 8
COMPATIBILITY_GROUPS: Final = 2
BINDING_CONDITIONS: Final = 4
VALID_VALUES: Final = 10
STATUS_CONDITIONS: Final = 8
STATUS_DATA: Final = 10 * 1024
INTERFACE_NAME: Final = 256
HARDWARE_ADDRESS: Final = 128
IPS: Final = 16
TAINT_RULE_CONDITIONS: Final = 8
POOL_NAME: Final = 253
POOLS: Final = 1000
POOL_CONDITIONS: Final = 10
POOL_SUMMARIES: Final = 32
VALIDATION_ERROR: Final = 256
