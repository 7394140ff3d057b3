"""Structured allocator of DRA devices: which devices satisfy the claims of a pod on a node.

Pure: no I/O, no clock. `Allocator` answers for one pod; `AllocatedDevices` keeps account of what is in use.
"""

from .allocator import Allocator
from .errors import AllocationCancelledError, AllocationError, NodeError
from .model import DeviceID, PoolID, SliceCache
from .selectors import CelCache, DeviceInput
from .state import AllocatedDevices, AllocatedState, SharedDeviceID, allocated

__all__ = [
    "AllocatedDevices",
    "AllocatedState",
    "AllocationCancelledError",
    "AllocationError",
    "Allocator",
    "CelCache",
    "DeviceID",
    "DeviceInput",
    "NodeError",
    "PoolID",
    "SharedDeviceID",
    "SliceCache",
    "allocated",
]
