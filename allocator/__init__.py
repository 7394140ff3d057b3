"""Structured allocator of DRA devices: which devices satisfy the claims of a pod on a node.

Pure: no I/O, no clock. `Allocator` answers for one pod; `AllocatedDevices` keeps account of what is in use.
"""

from .allocator import Allocator
from .answers import Answers
from .errors import AllocationCancelledError, AllocationError, NodeError
from .features import Implementation
from .model import DeviceID, PoolID
from .node_match import NodeSelection, NodeSelectorError
from .selectors import CelCache
from .slice_cache import SliceCache
from .state import AllocatedDevices, AllocatedState, SharedDeviceID, allocated, allocation_of

__all__ = [
    "AllocatedDevices",
    "AllocatedState",
    "AllocationCancelledError",
    "AllocationError",
    "Allocator",
    "Answers",
    "CelCache",
    "DeviceID",
    "Implementation",
    "NodeError",
    "NodeSelection",
    "NodeSelectorError",
    "PoolID",
    "SharedDeviceID",
    "SliceCache",
    "allocated",
    "allocation_of",
]
