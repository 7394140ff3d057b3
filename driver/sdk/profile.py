"""What a driver author writes: one class that knows the hardware."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class HardwareDevice:
    """A device that exists.

    `address` identifies it for ever (a PCI address). `attributes` and `capacity` are in the form of a
    ResourceSlice device; `model` is for messages.
    """

    address: str
    model: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    capacity: Mapping[str, Any] = field(default_factory=dict)


class Profile(Protocol):
    """One kind of hardware. Methods may be called from several threads; they raise HardwareError when the
    hardware fails.
    """

    kind: str
    """Prefix of device names and class of CDI ids: "gpu" gives gpu-0 and VENDOR/gpu."""

    @property
    def source(self) -> str:
        """Where devices are looked for, for messages."""

    def scan(self) -> Sequence[HardwareDevice]:
        """The devices that exist, in the order in which new ones get their numbers."""

    def parse_config(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """Check opaque parameters strictly; the result is JSON and goes into `settings` below.

        Raises:
            ConfigError: if a field is unknown or wrong; the text names it.
        """

    def check(self, address: str, name: str, settings: Mapping[str, Any]) -> None:
        """Whether the device can do what the settings ask for, before anything is changed.

        Raises:
            ConfigError: naming the feature that the device lacks.
        """

    def configure(self, address: str, uid: str, settings: Mapping[str, Any] | None, *, shared: bool) -> None:
        """Make a device ready for a claim. None: nobody asked for anything, so nothing but the use is noted.

        `shared`: other claims may have the device at the same time. Repeating a call must be harmless.
        """

    def reset(self, address: str, uid: str) -> None:
        """Give a device back to its starting state; harmless when the claim does not have it."""

    def users(self) -> Mapping[str, Sequence[str]]:
        """Address -> UIDs of the claims for which the hardware is configured now."""

    def edits(self, address: str, name: str, settings: Mapping[str, Any] | None) -> dict[str, Any]:
        """The CDI containerEdits of a device, with the device numbers that it has now; never empty."""
