"""Runs the plugins of one profile at their extension points, with the words of upstream's framework.

Source: kubernetes v1.37.2 `pkg/scheduler/framework/runtime/framework.go`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Final

from .events import ClusterEvent, Hint, Object, Registration
from .node_info import NodeInfo, PodInfo
from .plugin import CycleState, NodeStatuses, Nomination, Plugin
from .status import SKIP, Code, Status, error, unresolvable, unschedulable

Nominated = Callable[[str], Sequence[Object]]
"""The pods that are nominated for a node."""


class Framework:
    """The plugins of a profile, in their order."""

    def __init__(
        self,
        profile: str,
        plugins: Sequence[Plugin],
        weights: Mapping[str, int],
        nominated: Nominated,
        disabled: Set[tuple[str, str]] = frozenset(),
    ) -> None:
        """`disabled` pairs extension points (preEnqueue, filter, postFilter, score, multiPoint for all) and plugins."""
        self.profile: Final = profile
        plugins = [plugin for plugin in plugins if ("multiPoint", plugin.name) not in disabled]
        self.plugins: Final = tuple(plugins)
        self._weights = weights
        self._nominated = nominated
        self._random = random.Random()

        def at(point: str, method: str) -> tuple[Plugin, ...]:
            found = _overriding(plugins, method)
            return tuple(plugin for plugin in found if (point, plugin.name) not in disabled)

        self._filters = at("filter", "filter")
        self._post_filters = at("postFilter", "post_filter")
        self._scorers = at("score", "score")
        self.pre_enqueue: Final = {plugin.name: plugin for plugin in at("preEnqueue", "pre_enqueue")}
        self.registrations: Final[Mapping[str, Sequence[Registration]]] = {
            plugin.name: tuple(plugin.events()) for plugin in plugins
        }
        self._hints: dict[ClusterEvent, Mapping[str, Sequence[Hint]]] = {}

    def hints(self, event: ClusterEvent) -> Mapping[str, Sequence[Hint]]:
        """The hints of the plugins that wait for an event, by plugin; found out once, asked for every waiting pod."""
        known = self._hints.get(event)
        if known is None:
            covering = {
                plugin: tuple(one.hint for one in registrations if one.event.covers(event))
                for plugin, registrations in self.registrations.items()
            }
            known = self._hints[event] = {plugin: hints for plugin, hints in covering.items() if hints}
        return known

    def run_pre_filter(
        self, state: CycleState, pod: Object, nodes: Sequence[NodeInfo]
    ) -> tuple[frozenset[str] | None, Status | None, list[str]]:
        """The nodes worth a look, a refusal or error, and the plugins that narrowed the nodes."""
        names: frozenset[str] | None = None
        narrowing: list[str] = []
        refusal: Status | None = None
        for plugin in self.plugins:
            wanted, status = plugin.pre_filter(state, pod, nodes)
            if status is not None:
                if status is SKIP:
                    state.skip_filter.add(plugin.name)
                    continue
                if status.code is Code.UNRESOLVABLE:
                    return None, status.by(plugin.name), []
                if status.code is Code.UNSCHEDULABLE:
                    refusal = status.by(plugin.name)
                    continue
                text = f'running PreFilter plugin "{plugin.name}": {status.message}'
                return None, error(text).by(plugin.name), []
            if wanted is None:
                continue
            narrowing.append(plugin.name)
            names = wanted if names is None else names & wanted
            if not names:
                listed = sorted(narrowing)
                text = f"node(s) didn't satisfy plugin(s) {_go_list(listed)} simultaneously"
                if len(listed) == 1:
                    text = f"node(s) didn't satisfy plugin {listed[0]}"
                return names, unresolvable(text), listed
        return names, refusal, sorted(narrowing)

    def run_filter(self, state: CycleState, pod: Object, node: NodeInfo) -> Status | None:
        """Filter one node, with and without the pods of at least equal priority that are nominated for it."""
        nominated = self._nominated(node.name)
        if not nominated:
            return self._filter(state, pod, node)
        rivals = [
            rival
            for rival in nominated
            if priority(rival) >= priority(pod) and rival["metadata"]["uid"] != pod["metadata"]["uid"]
        ]
        if rivals:
            crowded = node.copy()
            for rival in rivals:
                crowded.add(PodInfo(rival))
            status = self._filter(state, pod, crowded)
            if status is not None:
                return status
        return self._filter(state, pod, node)

    def _filter(self, state: CycleState, pod: Object, node: NodeInfo) -> Status | None:
        filters = state.filters
        if filters is None:
            active = (plugin for plugin in self._filters if plugin.name not in state.skip_filter)
            filters = state.filters = tuple(active)
        for plugin in filters:
            status = plugin.filter(state, pod, node)
            if status is not None:
                if not status.rejected:
                    status = error(f'running "{plugin.name}" filter plugin: {status.message}')
                return status.by(plugin.name)
        return None

    async def run_post_filter(
        self, state: CycleState, pod: Object, statuses: NodeStatuses
    ) -> tuple[Nomination | None, Status]:
        """Ask the plugins one after the other for help, until one has helped or knows that there is none."""
        result = None if self._post_filters else Nomination("")
        reasons: list[str] = []
        for plugin in self._post_filters:
            nomination, status = await plugin.post_filter(state, pod, statuses)
            if status.code in (Code.SUCCESS, Code.UNRESOLVABLE):
                return nomination, status
            if not status.rejected:
                return None, status
            result = nomination or result
            reasons.extend(status.reasons)
        return result, unschedulable(*reasons)

    def choose(self, state: CycleState, pod: Object, nodes: Sequence[NodeInfo]) -> NodeInfo:
        """The node with the best score; equal ones are chosen at random."""
        totals = [0] * len(nodes)
        for plugin in self._scorers:
            status = plugin.pre_score(state, pod, nodes)
            if status is SKIP:
                continue
            scores = plugin.normalize([plugin.score(state, pod, node) for node in nodes])
            weight = self._weights.get(plugin.name, 1)
            totals = [total + weight * score for total, score in zip(totals, scores, strict=True)]
        best = max(totals)
        return self._random.choice([node for node, total in zip(nodes, totals, strict=True) if total == best])

    def run_reserve(self, state: CycleState, pod: Object, node: str) -> Status | None:
        """Reserve with every plugin until one fails."""
        for plugin in self.plugins:
            status = plugin.reserve(state, pod, node)
            if status is not None:
                if not status.rejected:
                    status = error(f'running Reserve plugin "{plugin.name}": {status.message}')
                return status.by(plugin.name)
        return None

    async def run_permit(self, state: CycleState, pod: Object, node: str) -> Status | None:
        """Ask every plugin until one refuses. Raises OutdatedPlanError."""
        for plugin in self.plugins:
            status = await plugin.permit(state, pod, node)
            if status is not None:
                if not status.rejected:
                    status = error(f'running Permit plugin "{plugin.name}": {status.message}')
                return status.by(plugin.name)
        return None

    async def run_unreserve(self, state: CycleState, pod: Object, node: str) -> None:
        """Undo Reserve, last plugin first."""
        for plugin in reversed(self.plugins):
            await plugin.unreserve(state, pod, node)

    def has_pre_bind_work(self, state: CycleState) -> bool:
        """Whether any PreBind will do something, which takes time."""
        return any(plugin.has_pre_bind_work(state) for plugin in self.plugins)

    async def run_pre_bind(self, state: CycleState, pod: Object, node: str) -> Status | None:
        """Run PreBind of every plugin until one fails."""
        for plugin in self.plugins:
            status = await plugin.pre_bind(state, pod, node)
            if status is not None:
                if status.rejected:
                    return status.by(plugin.name)
                return error(f'running PreBind plugin "{plugin.name}": {status.message}')
        return None


def priority(pod: Object) -> int:
    """The priority of a pod."""
    return int(pod["spec"].get("priority") or 0)


def _overriding(plugins: Iterable[Plugin], method: str) -> tuple[Plugin, ...]:
    return tuple(plugin for plugin in plugins if getattr(type(plugin), method) is not getattr(Plugin, method))


def _go_list(names: Iterable[str]) -> str:
    return f"[{' '.join(names)}]"
