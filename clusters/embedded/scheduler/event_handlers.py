"""From changes of objects to cache, queue and trackers.

Source: kubernetes v1.37.2 `pkg/scheduler/eventhandlers.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Set

from clusters.embedded.components.informer import Handler, Informer

from .cache import Cache
from .dynamic_resources.claim_tracker import ClaimTracker
from .dynamic_resources.slice_tracker import SliceTracker
from .framework.changes import node_changes, pod_changes
from .framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    Action,
    ClusterEvent,
    Object,
    Resource,
)
from .framework.runtime import priority
from .queue.scheduling_queue import SchedulingQueue
from .share import ALONE, Share


class EventHandlers:
    """The handlers of one scheduler."""

    def __init__(
        self,
        queue: SchedulingQueue,
        cache: Cache,
        claims: ClaimTracker,
        slices: SliceTracker,
        scheduler_names: Set[str],
        share: Share = ALONE,
    ) -> None:
        """`share` says which of the pods that name this scheduler are for it."""
        self._queue = queue
        self._cache = cache
        self._claims = claims
        self._slices = slices
        self._names = scheduler_names
        self._share = share

    def register(
        self, pods: Informer, nodes: Informer, claims: Informer, slices: Informer, classes: Informer
    ) -> None:
        """Follow the informers."""
        pods.add_handler(self.on_pod)
        nodes.add_handler(self.on_node)
        claims.add_handler(self._claims.cache.inform)
        self._claims.cache.add_handler(self._moves(Resource.CLAIM))
        slices.add_handler(self._slices.on_slice)
        self._slices.add_handler(self._moves(Resource.SLICE))
        classes.add_handler(self._moves(Resource.CLASS))

    def on_node(self, old: Object | None, new: Object | None) -> None:
        """A node was added, changed or deleted."""
        if new is not None:
            self._cache.set_node(new)
            if old is None:
                self._queue.move_all(ClusterEvent(Resource.NODE, Action.ADD), None, new)
                return
            for event in node_changes(new, old):
                self._queue.move_all(event, old, new)
        elif old is not None:
            self._queue.move_all(ClusterEvent(Resource.NODE, Action.DELETE), old, None)
            self._cache.remove_node(old["metadata"]["name"])

    def on_pod(self, old: Object | None, new: Object | None) -> None:
        """A pod was added, changed or deleted."""
        if new is None:
            if old is not None:
                self._deleted(old)
        elif old is None:
            self._added(new)
        else:
            self._updated(old, new)

    def _added(self, pod: Object) -> None:
        if _has_node(pod):
            self._assigned(pod)
        elif self._is_ours(pod):
            self._queue.add(pod)

    def _updated(self, old: Object, new: Object) -> None:
        if _has_node(old):
            self._cache.update_pod(new)
            for event in pod_changes(new, old, is_target=False):
                self._queue.move_all(event, old, new)
        elif _has_node(new):
            self._assigned(new)
            if self._is_ours(old):
                self._queue.delete(old)
        elif self._is_ours(old):
            self._waiting_updated(old, new)

    def _waiting_updated(self, old: Object, new: Object) -> None:
        if old["metadata"]["resourceVersion"] == new["metadata"]["resourceVersion"]:
            return
        if self._cache.is_assumed(new["metadata"]["uid"]):
            leaves = new["metadata"].get("deletionTimestamp") and not old["metadata"].get("deletionTimestamp")
            if leaves:
                self._assumed_leaves(new)
            return
        self._queue.update(old, new)
        nominated = _nominated(old)
        if nominated and nominated != _nominated(new):
            self._queue.move_all(ASSIGNED_POD_DELETE, old, None, _at_most(priority(old)))

    def _deleted(self, pod: Object) -> None:
        if _has_node(pod):
            self._cache.remove_pod(pod["metadata"]["uid"])
            self._queue.move_all(ASSIGNED_POD_DELETE, pod, None)
            return
        if not self._is_ours(pod):
            return
        self._queue.delete(pod)
        if self._cache.is_assumed(pod["metadata"]["uid"]):
            self._assumed_leaves(pod)
        elif _nominated(pod):
            self._queue.move_all(ASSIGNED_POD_DELETE, pod, None, _at_most(priority(pod)))

    def _assumed_leaves(self, pod: Object) -> None:
        """A pod that is being bound goes away: its room is free at once, whatever becomes of the binding."""
        assumed = self._cache.assumed_pod(pod["metadata"]["uid"])
        self._cache.remove_pod(pod["metadata"]["uid"])
        self._queue.move_all(ASSIGNED_POD_DELETE, assumed, None)

    def _assigned(self, pod: Object) -> None:
        self._cache.add_pod(pod)
        self._queue.move_all(ASSIGNED_POD_ADD, None, pod)

    def _is_ours(self, pod: Object) -> bool:
        return pod["spec"].get("schedulerName") in self._names and self._share.has(pod["metadata"]["uid"])

    def _moves(self, resource: Resource) -> Handler:
        added = ClusterEvent(resource, Action.ADD)
        updated = ClusterEvent(resource, Action.UPDATE)
        deleted = ClusterEvent(resource, Action.DELETE)

        def handle(old: Object | None, new: Object | None) -> None:
            event = deleted if new is None else added if old is None else updated
            self._queue.move_all(event, old, new)

        return handle


def _has_node(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName"))


def _nominated(pod: Object) -> str:
    return str((pod.get("status") or {}).get("nominatedNodeName") or "")


def _at_most(limit: int) -> Callable[[Object], bool]:
    return lambda pod: priority(pod) <= limit
