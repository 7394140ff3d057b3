"""What goes wrong with container engines, kind and its configuration."""

from __future__ import annotations

from clusters.interface import ClusterError


class EngineError(ClusterError):
    """A container engine that cannot be used, or a command of it that failed; the text ends with what it said."""


class KindError(ClusterError):
    """The kind command cannot be had or is too old, or a cluster cannot be described to it."""
