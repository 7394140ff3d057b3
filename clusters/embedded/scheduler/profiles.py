"""Builds the profiles of a scheduler from its configuration."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from typing import Final

from clusters.clock import Clock
from clusters.embedded.components.client import ApiClient
from clusters.embedded.components.events import EventRecorder

from .config import ProfileConfig
from .cycle import Profile
from .dynamic_resources.plugin import DraAccess, DynamicResources
from .framework.plugin import Plugin
from .framework.runtime import Framework, Nominated
from .plugins.default_preemption import DefaultPreemption, PreemptionAccess
from .plugins.inter_pod_affinity import InterPodAffinity, NamespaceLabels
from .plugins.node_affinity import NodeAffinity
from .plugins.node_ports import NodePorts
from .plugins.node_resources import NodeResourcesBalancedAllocation, NodeResourcesFit
from .plugins.placement import NodeName, NodeUnschedulable, SchedulingGates
from .plugins.pod_topology_spread import PodTopologySpread
from .plugins.taint_toleration import TaintToleration

WEIGHTS: Final[Mapping[str, int]] = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "DynamicResources": 2,
    "NodeResourcesBalancedAllocation": 1,
}


def in_order(
    namespace_labels: NamespaceLabels, devices: DynamicResources, *after: Plugin
) -> Sequence[Plugin]:
    """All plugins in upstream's order; `after` are those that come when no node fits."""
    return (
        SchedulingGates(),
        NodeName(),
        NodeUnschedulable(),
        TaintToleration(),
        NodeAffinity(),
        NodePorts(),
        NodeResourcesFit(),
        PodTopologySpread(),
        InterPodAffinity(namespace_labels),
        devices,
        *after,
        NodeResourcesBalancedAllocation(),
    )


def build_profile(
    config: ProfileConfig,
    client: ApiClient,
    clock: Clock,
    dra: DraAccess,
    preemption: PreemptionAccess,
    nominated: Nominated,
    namespace_labels: NamespaceLabels,
) -> Profile:
    """A profile with its plugins in upstream's order."""
    recorder = EventRecorder(
        client, config.scheduler_name, clock, f"{config.scheduler_name}-{platform.node()}"
    )
    preempting = DefaultPreemption(preemption, recorder, config.scheduler_name)
    devices = DynamicResources(dra, recorder, config.filter_timeout, config.binding_timeout)
    plugins = in_order(namespace_labels, devices, preempting)
    weights = {**WEIGHTS, **dict(config.weights)}
    framework = Framework(config.scheduler_name, plugins, weights, nominated, config.disabled)
    preempting.use(framework.run_filter)
    return Profile(framework, recorder, config.percentage_of_nodes_to_score)
