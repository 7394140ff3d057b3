"""The rules of a decoded configuration, defaults included.

Source: kubernetes v1.37.2 `pkg/scheduler/apis/config/validation/`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from clusters.embedded.scheduler.gates import SchedulerGates
from dra_api.errors import FieldError

from . import durations
from .plugins import unsupported_switches

_REMOVED: Final = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")
_SECOND: Final = 10**9


def problems(config: Mapping[str, Any], gates: SchedulerGates) -> list[FieldError]:
    """What is wrong, in upstream's order; empty when all is well."""
    return list(_problems(config, gates))


def _problems(config: Mapping[str, Any], gates: SchedulerGates) -> Iterator[FieldError]:
    burst = (config.get("clientConnection") or {}).get("burst", 100)
    if burst < 0:
        yield FieldError("Invalid", "clientConnection.burst", "must be non-negative", burst)
    yield from _leader_election(config.get("leaderElection") or {})
    parallelism = config.get("parallelism", 16)
    if parallelism <= 0:
        yield FieldError(
            "Invalid", "parallelism", "should be an integer value greater than zero", parallelism
        )
    yield from _profiles(config["profiles"], gates)
    yield from _percentage("percentageOfNodesToScore", config.get("percentageOfNodesToScore"))
    first, longest = config["podInitialBackoffSeconds"], config["podMaxBackoffSeconds"]
    if first <= 0:
        yield FieldError("Invalid", "podInitialBackoffSeconds", "must be greater than 0", first)
    if longest < first:
        text = "must be greater than or equal to PodInitialBackoffSeconds"
        yield FieldError("Invalid", "podMaxBackoffSeconds", text, longest)
    if config.get("extenders"):
        # Upstream calls them; nothing here can.
        yield FieldError("Forbidden", "extenders", "an embedded scheduler cannot call extenders")


def _leader_election(election: Mapping[str, Any]) -> Iterator[FieldError]:
    if election.get("leaderElect") is False:
        return
    lease, renew, retry = (
        election.get(name) or default * _SECOND
        for name, default in (("leaseDuration", 15), ("renewDeadline", 10), ("retryPeriod", 2))
    )
    named = (("leaseDuration", lease), ("renewDeadline", renew), ("retryPeriod", retry))
    for name, span in named:
        if span <= 0:
            path = f"leaderElection.{name}"
            yield FieldError("Invalid", path, "must be greater than zero", durations.text(span))
    if lease <= renew:
        text = "must be greater than `RenewDeadline`"
        yield FieldError("Invalid", "leaderElection.leaseDuration", text, durations.text(renew))
    lock = election.get("resourceLock") or "leases"
    if lock != "leases":
        path = "leaderElection.resourceLock"
        yield FieldError("Invalid", path, 'resourceLock value must be "leases"', lock)


def _profiles(profiles: list[Mapping[str, Any]], gates: SchedulerGates) -> Iterator[FieldError]:
    seen: dict[str, int] = {}
    for index, profile in enumerate(profiles):
        path = f"profiles[{index}]"
        name = profile.get("schedulerName") or ""
        if not name:
            yield FieldError("Required", f"{path}.schedulerName")
        yield from _percentage(f"{path}.percentageOfNodesToScore", profile.get("percentageOfNodesToScore"))
        yield from _plugin_config(path, profile, gates)
        yield from unsupported_switches(path, profile)
        if name in seen:
            yield FieldError(
                "Duplicate", f"{path}.schedulerName", value=f"profiles[{seen[name]}].schedulerName"
            )
        seen[name] = index


def _plugin_config(path: str, profile: Mapping[str, Any], gates: SchedulerGates) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, entry in enumerate(profile.get("pluginConfig") or ()):
        where, name = f"{path}.pluginConfig[{index}]", entry.get("name") or ""
        if name in seen:
            yield FieldError("Duplicate", where, value=name)
        seen.add(name)
        if name in _REMOVED:
            version = "kubescheduler.config.k8s.io/v1"
            text = f'was invalid in version "{version}" (KubeSchedulerConfiguration is version "{version}")'
            yield FieldError("Invalid", where, text, name)
        elif name == "DynamicResources":
            yield from dynamic_resources(f"{where}.args", entry.get("args") or {}, gates)
        elif name == "DefaultPreemption":
            yield from _default_preemption(f"{where}.args", entry.get("args") or {})


def dynamic_resources(path: str, args: Mapping[str, Any], gates: SchedulerGates) -> Iterator[FieldError]:
    """DynamicResourcesArgs. Unlike in the API, a field whose gate is off is an error."""
    limit, binding = args.get("filterTimeout"), args.get("bindingTimeout")
    if limit is not None:
        where = f"{path}.filterTimeout"
        if not gates.filter_timeout:
            yield FieldError("Forbidden", where, "DRASchedulingFilterTimeout feature gate is disabled")
        elif limit < 0:
            yield FieldError("Invalid", where, "must be zero or positive", durations.text(limit))
    if binding is not None:
        where = f"{path}.bindingTimeout"
        if not gates.binding_conditions:
            text = "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled"
            yield FieldError("Forbidden", where, text)
        elif binding < _SECOND:
            yield FieldError("Invalid", where, "must be at least 1 second", durations.text(binding))


def _default_preemption(path: str, args: Mapping[str, Any]) -> Iterator[FieldError]:
    share, least = args.get("minCandidateNodesPercentage", 10), args.get("minCandidateNodesAbsolute", 100)
    share_path, least_path = f"{path}.minCandidateNodesPercentage", f"{path}.minCandidateNodesAbsolute"
    if not 0 <= share <= 100:
        yield FieldError("Invalid", share_path, "not in valid range [0, 100]", share)
    if least < 0:
        yield FieldError("Invalid", least_path, "not in valid range [0, inf)", least)
    if share == least == 0:
        yield FieldError(
            "Invalid", share_path, "cannot be zero at the same time as minCandidateNodesAbsolute", 0
        )
        text = "cannot be zero at the same time as minCandidateNodesPercentage"
        yield FieldError("Invalid", least_path, text, 0)


def _percentage(path: str, value: int | None) -> Iterator[FieldError]:
    if value is not None and not 0 <= value <= 100:
        yield FieldError("Invalid", path, "not in valid range [0-100]", value)
