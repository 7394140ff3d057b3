"""Errors that the driver tells its users."""

from __future__ import annotations


class ClaimError(Exception):
    """One claim cannot be prepared or unprepared; the text becomes the claim's error in the answer."""


class ConfigError(ClaimError):
    """Opaque parameters of a claim or class are wrong; the text names the field."""


class SettingsError(Exception):
    """A setting of the driver is missing or wrong; the process ends with exit code 2."""


class HardwareError(Exception):
    """The hardware refused or is gone; the text says which device and why."""
