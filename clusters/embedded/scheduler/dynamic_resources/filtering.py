"""Filter: whether a node can satisfy the claims of a pod (components 2.3). Runs outside of the event loop."""

from __future__ import annotations

import time
from dataclasses import dataclass

from allocator import AllocationCancelledError, AllocationError, NodeError, allocation_of
from clusters.clock import Clock
from clusters.embedded.scheduler.framework.events import Object
from clusters.embedded.scheduler.framework.node_info import NodeInfo
from clusters.embedded.scheduler.framework.status import Status, error, unresolvable
from dra_api.features import OPTIONAL_NODE_OPERATIONS

from .binding_conditions import BindingFailedError, is_ready, timed_out
from .claim_tracker import results_of
from .state import PodState


@dataclass(frozen=True, slots=True)
class NodeFilter:
    """The settings of Filter; timeouts in seconds, `filter_timeout` 0 for none."""

    clock: Clock
    filter_timeout: float
    binding_timeout: float
    binding_conditions: bool
    """The gates of binding conditions."""

    def check(self, state: PodState, node: NodeInfo) -> Status | None:
        """Look at one node and keep the allocations that it would get."""
        unavailable = {
            index
            for index, claim in enumerate(state.claims)
            if not self._available(state, index, claim, node)
        }
        # As upstream, allocation is tried even so: its errors come first.
        if state.allocator is not None:
            status = self._allocate(state, node)
            if status is not None:
                return status
        if unavailable:
            state.unavailable |= unavailable
            return unresolvable("resourceclaim not available on the node")
        return None

    def _available(self, state: PodState, index: int, claim: Object, node: NodeInfo) -> bool:
        """Whether an allocated claim can be used there; others are."""
        allocation = allocation_of(claim)
        if allocation is None:
            return True
        selector = state.selectors[index]
        if selector is not None and not selector.matches(node.object):
            return False
        declared = (node.object.get("status") or {}).get("declaredFeatures") or ()
        skips = any(result.get("skipNodeOperations") for result in results_of(allocation))
        if skips and OPTIONAL_NODE_OPERATIONS not in declared:
            return False
        if not self.binding_conditions:
            return True
        try:
            return is_ready(claim) or not timed_out(claim, self.clock.now(), self.binding_timeout)
        except BindingFailedError:
            return False

    def _allocate(self, state: PodState, node: NodeInfo) -> Status | None:
        if state.allocator is None:
            return None
        # The limit is on the work of this process, so the cluster's clock has no part in it.
        deadline = time.monotonic() + self.filter_timeout if self.filter_timeout else None
        wanted = state.wanted
        try:
            results = state.allocator.allocate(
                node.object, lambda: deadline is not None and time.monotonic() > deadline, wanted
            )
        except AllocationCancelledError:
            return error(f"node {node.name}: timed out trying to allocate devices")
        except NodeError as problem:
            return unresolvable(str(problem))
        except AllocationError as problem:
            return error(str(problem))
        if len(results) != len(wanted):
            return unresolvable("cannot allocate all claims")
        state.results[node.name] = results
        return None
