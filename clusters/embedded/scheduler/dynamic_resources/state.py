"""What the plugin keeps between the extension points of one attempt."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from allocator import Allocator, allocation_of
from allocator.ledger import Grant, Seen
from allocator.node_match import NodeSelection
from clusters.embedded.scheduler.framework.events import Object
from clusters.embedded.scheduler.framework.plugin import CycleState

KEY: Final = "DynamicResources"


@dataclass
class PodState:
    """The claims of a pod, the one for its extended resources last, and what becomes of them."""

    claims: list[Object]
    """Replaced by the written object once an allocation or reservation was stored."""
    selectors: list[NodeSelection | None]
    """Where allocated claims are available; None: everywhere, or not allocated."""
    allocator: Allocator | None = None
    """Present when a claim needs an allocation."""
    wanted: list[Object] = field(default_factory=list)
    """The claims that needed an allocation when the search for a node began."""
    results: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """By node, one allocation for each claim that needs one, in their order."""
    unavailable: set[int] = field(default_factory=set)
    """Allocated claims that cannot be used on some node: candidates for deallocation."""
    decided: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Allocations that Reserve decided on, by claim; PreBind writes them."""
    seen: Seen | None = None
    """What of a ledger the allocator knows."""
    grant: Grant | None = None
    """The decided allocations in the ledger."""
    uncertain: bool = False
    """Nobody knows what a failed write has done: what was reserved must not be given back, but expire."""

    def to_allocate(self) -> list[tuple[int, Object]]:
        """The claims that need an allocation, with their index."""
        return [(index, claim) for index, claim in enumerate(self.claims) if allocation_of(claim) is None]


def state_of(state: CycleState) -> PodState | None:
    """The plugin's state; None for a pod without claims."""
    found: PodState | None = state.data.get(KEY)
    return found
