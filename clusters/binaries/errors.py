"""What goes wrong with binaries."""

from __future__ import annotations

from clusters.interface import ClusterError


class BinariesError(ClusterError):
    """Binaries that cannot be had; the text says which, why, and what helps."""


class NotHadError(Exception):
    """One source does not have a binary, which is no fault: the next source is asked. The text is the reason."""
