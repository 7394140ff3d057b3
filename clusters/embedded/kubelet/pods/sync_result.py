"""What one look at a Pod's containers did, and what went wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

CRASH_LOOP: Final = "CrashLoopBackOff"


class SyncError(Exception):
    """A look at a Pod failed; it is repeated after a while. `retry_at` is the earliest useful moment, if known."""

    def __init__(self, message: str, retry_at: float | None = None) -> None:
        super().__init__(message)
        self.retry_at = retry_at


class StartError(Exception):
    """A container that was not started: `reason` and `message` of its waiting state."""

    def __init__(self, reason: str, message: str, retry_at: float | None = None) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason, self.message, self.retry_at = reason, message, retry_at


@dataclass
class SyncResult:
    """Outcome by container for starts, and other errors."""

    started: list[str] = field(default_factory=list)
    failed: dict[str, StartError] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    def raise_for_errors(self) -> None:
        """Raise SyncError if anything went wrong; it may be retried when the shortest back-off is over."""
        texts = self.errors + [
            f'failed to "StartContainer" for "{name}" with {error.reason}: "{error.message}"'
            for name, error in self.failed.items()
        ]
        if texts:
            times = [error.retry_at for error in self.failed.values() if error.retry_at is not None]
            raise SyncError(", ".join(texts), min(times) if times else None)
