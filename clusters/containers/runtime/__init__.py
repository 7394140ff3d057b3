"""A simulated container runtime: sandboxes and containers as records, CDI applied, programs as tasks on the clock."""

from __future__ import annotations

from clusters.containers.runtime.runtime import Runtime

__all__ = ["Runtime"]
