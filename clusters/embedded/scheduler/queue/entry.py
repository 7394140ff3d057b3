"""A pod in the queue."""

from __future__ import annotations

from dataclasses import dataclass, field

from clusters.embedded.scheduler.framework.events import Object
from clusters.embedded.scheduler.framework.runtime import priority

from .heap import Key


@dataclass(eq=False)
class QueuedPod:
    """A pod with what is known about its attempts so far."""

    pod: Object
    timestamp: float
    """When it came into the queue, or came back last (seconds)."""
    attempts: int = 0
    plugins: set[str] = field(default_factory=set)
    """The plugins that refused it."""
    gating_plugin: str = ""
    """The plugin that does not let it be tried."""
    unschedulable_count: int = 0
    consecutive_errors: int = 0
    backoff_until: float | None = None
    """Cached end of the backoff, None: not worked out yet."""
    flushed: float = 0.0
    """When it was last tried again only because it had waited long."""

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return pod_key(self.pod)

    @property
    def uid(self) -> str:
        """The uid of the pod."""
        return str(self.pod["metadata"]["uid"])

    @property
    def order(self) -> tuple[int, float]:
        """Higher priority first, then first come."""
        return -priority(self.pod), self.timestamp

    @property
    def gated(self) -> bool:
        """Whether it may not be tried."""
        return bool(self.gating_plugin)


def pod_key(pod: Object) -> Key:
    """Namespace and name."""
    metadata = pod["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
