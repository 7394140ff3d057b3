"""The extension points of a scheduling plugin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .events import Object, Registration
from .node_info import NodeInfo
from .status import Status, unschedulable

MAX_SCORE = 100


@dataclass
class CycleState:
    """What plugins keep between the extension points of one attempt to schedule one pod."""

    data: dict[str, Any] = field(default_factory=dict)
    """By plugin."""
    skip_filter: set[str] = field(default_factory=set)
    filters: tuple[Plugin, ...] | None = None
    """The plugins that filter for this pod; None while that is not known."""
    off_loop: bool = False
    """Whether Filter may take long, so that it must not run in the event loop."""

    def copy(self) -> CycleState:
        """A state for trying something out; what plugins keep is shared."""
        return CycleState(dict(self.data), set(self.skip_filter), self.filters, self.off_loop)


@dataclass(frozen=True, slots=True)
class Nomination:
    """What becomes of the node name that a pod is nominated for; empty clears it."""

    node: str


@dataclass(frozen=True, slots=True)
class NodeStatuses:
    """Why nodes were refused: explicitly, or by `absent` for all the others."""

    explicit: Mapping[str, Status]
    absent: Status

    def of(self, node: str) -> Status:
        """The status of one node."""
        return self.explicit.get(node, self.absent)


class OutdatedPlanError(Exception):
    """Something that the choice of the node rests on has changed and is known now: choose again. The text says what."""


class Plugin:
    """A plugin does nothing at the extension points that it does not override.

    Filter may run in another thread than the rest: it may read the snapshot and what PreFilter put together.
    """

    name = ""

    def events(self) -> Sequence[Registration]:
        """The events after which a pod that this plugin refused is tried again."""
        return ()

    def pre_enqueue(self, pod: Object) -> Status | None:
        """Whether the pod may be tried at all."""
        return None

    def pre_filter(
        self, state: CycleState, pod: Object, nodes: Sequence[NodeInfo]
    ) -> tuple[frozenset[str] | None, Status | None]:
        """Prepare Filter. The names are the only nodes worth a look, None: all are."""
        return None, None

    def filter(self, state: CycleState, pod: Object, node: NodeInfo) -> Status | None:
        """Whether the pod could run on the node."""
        return None

    async def post_filter(
        self, state: CycleState, pod: Object, statuses: NodeStatuses
    ) -> tuple[Nomination | None, Status]:
        """Do something about a pod that fits nowhere."""
        return None, unschedulable()

    def pre_score(self, state: CycleState, pod: Object, nodes: Sequence[NodeInfo]) -> Status | None:
        """Prepare Score."""
        return None

    def score(self, state: CycleState, pod: Object, node: NodeInfo) -> int:
        """How good the node is; normalized afterwards."""
        return 0

    def normalize(self, scores: list[int]) -> list[int]:
        """Bring the scores of all nodes between 0 and 100."""
        return scores

    def reserve(self, state: CycleState, pod: Object, node: str) -> Status | None:
        """Take what the pod needs, in memory."""
        return None

    async def permit(self, state: CycleState, pod: Object, node: str) -> Status | None:
        """Agree with others on what was reserved. Raises OutdatedPlanError."""
        return None

    async def unreserve(self, state: CycleState, pod: Object, node: str) -> None:
        """Give back what was reserved or written."""

    def has_pre_bind_work(self, state: CycleState) -> bool:
        """Whether PreBind will do something for this pod."""
        return False

    async def pre_bind(self, state: CycleState, pod: Object, node: str) -> Status | None:
        """Write what must be there before the pod is bound."""
        return None


def normalized(scores: list[int], *, reverse: bool = False) -> list[int]:
    """Scores in relation to the highest one; reversed, low ones are good."""
    top = max(scores, default=0)
    if top == 0:
        return [MAX_SCORE] * len(scores) if reverse else scores
    scaled = [MAX_SCORE * score // top for score in scores]
    return [MAX_SCORE - score for score in scaled] if reverse else scaled
