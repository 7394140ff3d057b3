"""How an extension point ended. Success without anything to say is None."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum


class Code(IntEnum):
    """The codes of upstream's framework, without Wait and Pending, which nothing here gives."""

    SUCCESS = 0
    """Only where a success has something to say."""
    ERROR = 1
    """Something is wrong; the pod is retried with backoff."""
    UNSCHEDULABLE = 2
    """Preemption might help."""
    UNRESOLVABLE = 3
    """Preemption would not help."""
    SKIP = 5
    """The plugin has nothing to do for this pod."""


@dataclass(frozen=True, slots=True)
class Status:
    """A code with its reasons and the plugin that gave it."""

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def rejected(self) -> bool:
        """Whether the pod was found unschedulable, as opposed to an error."""
        return self.code in (Code.UNSCHEDULABLE, Code.UNRESOLVABLE)

    @property
    def message(self) -> str:
        """The reasons in one line."""
        return ", ".join(self.reasons)

    def by(self, plugin: str) -> Status:
        """The same status with its author."""
        return replace(self, plugin=plugin)


SKIP = Status(Code.SKIP)


def error(text: str) -> Status:
    """An error."""
    return Status(Code.ERROR, (text,))


def unschedulable(*reasons: str) -> Status:
    """A rejection that preemption might resolve."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """A rejection that preemption cannot resolve."""
    return Status(Code.UNRESOLVABLE, reasons)
