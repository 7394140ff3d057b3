"""The garbage collector: objects whose owners are gone, and the three ways to delete an owner."""

from __future__ import annotations

from clusters.embedded.controllers.garbage_collector.collector import GarbageCollector

__all__ = ["GarbageCollector"]
