"""Cluster events: what happened, and whether that is what a plugin waits for.

Source: kube-scheduler v0.37.2 `framework/types.go`, kubernetes v1.37.2 `pkg/scheduler/framework/events.go`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntFlag, StrEnum, auto
from typing import Any, Final

Object = dict[str, Any]


class Resource(StrEnum):
    """What an event is about."""

    ANY = "*"
    ASSIGNED_POD = "AssignedPod"
    UNSCHEDULED_POD = "UnscheduledPod"
    TARGET_POD = "TargetPod"
    """The waiting pod itself."""
    NODE = "Node"
    CLAIM = "ResourceClaim"
    SLICE = "ResourceSlice"
    CLASS = "DeviceClass"


class Action(IntFlag):
    """What happened to it; updates as precisely as they can be told."""

    NONE = 0
    ADD = auto()
    DELETE = auto()
    NODE_ALLOCATABLE = auto()
    NODE_LABEL = auto()
    NODE_TAINT = auto()
    NODE_CONDITION = auto()
    NODE_ANNOTATION = auto()
    NODE_DECLARED_FEATURE = auto()
    POD_LABEL = auto()
    POD_SCALE_DOWN = auto()
    POD_SCALE_UP = auto()
    POD_TOLERATION = auto()
    POD_GATES_ELIMINATED = auto()
    POD_GENERATED_CLAIM = auto()
    UPDATE = (
        NODE_ALLOCATABLE
        | NODE_LABEL
        | NODE_TAINT
        | NODE_CONDITION
        | NODE_ANNOTATION
        | NODE_DECLARED_FEATURE
        | POD_LABEL
        | POD_SCALE_DOWN
        | POD_SCALE_UP
        | POD_TOLERATION
        | POD_GATES_ELIMINATED
        | POD_GENERATED_CLAIM
    )
    ALL = ADD | DELETE | UPDATE


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """A change in the cluster, or, as something waited for, a set of changes."""

    resource: Resource
    action: Action
    label: str = ""

    @property
    def is_wildcard(self) -> bool:
        """Whether every waiting pod is meant, whatever it waits for."""
        return self.resource is Resource.ANY and self.action == Action.ALL

    def covers(self, happened: ClusterEvent) -> bool:
        """Whether what happened is what this event describes, or a part of it."""
        if self.is_wildcard:
            return True
        return (
            self.resource is happened.resource
            and bool(self.action & happened.action)
            and happened.action <= self.action
        )


ASSIGNED_POD_ADD: Final = ClusterEvent(Resource.ASSIGNED_POD, Action.ADD)
ASSIGNED_POD_DELETE: Final = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
UNSCHEDULABLE_TIMEOUT: Final = ClusterEvent(Resource.ANY, Action.ALL, "UnschedulableTimeout")
FORCE_ACTIVATE: Final = ClusterEvent(Resource.ANY, Action.ALL, "ForceActivate")

Hint = Callable[[Object, Object | None, Object | None], bool]
"""Whether an event (old and new object) may make the pod schedulable."""


def always(pod: Object, old: Object | None, new: Object | None) -> bool:
    """The hint of plugins that look no closer."""
    return True


@dataclass(frozen=True, slots=True)
class Registration:
    """An event that a plugin waits for."""

    event: ClusterEvent
    hint: Hint = always
