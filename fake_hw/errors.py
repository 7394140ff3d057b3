"""What can go wrong with fake hardware, as exceptions whose text is fit for a user."""

from __future__ import annotations


class HardwareError(Exception):
    """Base of all errors of this package; its text says what was wrong, where, and what to do."""


class TreeError(HardwareError):
    """A directory cannot become, or is not, a fake hardware tree."""


class FaultError(HardwareError):
    """A fault was asked for that this machine cannot have: unknown device, file or value."""


class JournalError(HardwareError):
    """The journal holds a complete line that is not a record."""


class DeviceNotFoundError(HardwareError):
    """The device is not, or no longer, present in the tree."""


class ConfigureError(HardwareError):
    """The device refused a configuration, because a fault says so or it lacks a feature."""


class ConfigureTimeoutError(HardwareError):
    """A blocked configuration was not released before its deadline."""
