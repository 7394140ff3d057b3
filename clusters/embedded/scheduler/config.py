"""The configuration of a scheduler: KubeSchedulerConfiguration, reduced to what it means here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dra_api.errors import aggregate

from .configuration.decoding import ConfigError, Values, decode_config, text_of
from .configuration.plugins import disabled, unknown_plugin, weights
from .configuration.validation import problems
from .gates import SchedulerGates

__all__ = ["ConfigError", "ProfileConfig", "SchedulerConfig", "check_standalone", "load_config"]

_DEFAULT_NAME: Final = "default-scheduler"
_SECOND: Final = 1e9
_NO_CONNECTION: Final = (
    "invalid configuration: no configuration has been provided, "
    "try setting KUBERNETES_MASTER environment variable"
)


@dataclass(frozen=True, slots=True)
class ProfileConfig:
    """One scheduler name. Timeouts are seconds, 0 for no limit."""

    scheduler_name: str = _DEFAULT_NAME
    filter_timeout: float = 10.0
    binding_timeout: float = 600.0
    percentage_of_nodes_to_score: int = 0
    disabled: frozenset[tuple[str, str]] = frozenset()
    """Extension points (or multiPoint for all of them) and plugins that do not run there."""
    weights: tuple[tuple[str, int], ...] = ()
    """Weights of scores that differ from the default, by plugin."""


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """A whole scheduler. Backoffs are seconds."""

    profiles: tuple[ProfileConfig, ...] = (ProfileConfig(),)
    initial_backoff: float = 1.0
    max_backoff: float = 10.0


def load_config(
    config: str | Mapping[str, Any] = "", gates: Mapping[str, bool] | None = None
) -> SchedulerConfig:
    """Read a KubeSchedulerConfiguration: YAML or JSON text, or the same as a mapping; empty: the defaults.

    `gates` are the cluster's feature gates. Raises ConfigError with the text that kube-scheduler ends with.
    """
    if not config:
        return SchedulerConfig()
    values = _defaulted(decode_config(text_of(config)))
    found = problems(values, SchedulerGates.of(gates or {}))
    if found:
        raise ConfigError(aggregate(found))
    for profile in values["profiles"]:
        if unknown := unknown_plugin(profile):
            raise ConfigError(unknown)
    return SchedulerConfig(
        profiles=tuple(_profile(profile, values) for profile in values["profiles"]),
        initial_backoff=float(values["podInitialBackoffSeconds"]),
        max_backoff=float(values["podMaxBackoffSeconds"]),
    )


def check_standalone(config: str | Mapping[str, Any], *, in_cluster: bool = False) -> None:
    """Check what a kube-scheduler process needs in addition: a kubeconfig, unless it runs in a Pod.

    Raises ConfigError. An embedded scheduler is given its connection.
    """
    values = decode_config(text_of(config))
    if not in_cluster and not (values.get("clientConnection") or {}).get("kubeconfig"):
        raise ConfigError(_NO_CONNECTION)


def _defaulted(values: Values) -> Values:
    profiles = values.get("profiles") or [{}]
    if len(profiles) == 1 and profiles[0].get("schedulerName") is None:
        profiles = [{**profiles[0], "schedulerName": _DEFAULT_NAME}]
    return {
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 10,
        "percentageOfNodesToScore": 0,
        **values,
        "profiles": profiles,
    }


def _profile(profile: Mapping[str, Any], values: Values) -> ProfileConfig:
    arguments = {entry["name"]: entry.get("args") or {} for entry in profile.get("pluginConfig") or ()}
    dra = arguments.get("DynamicResources", {})
    share = profile.get("percentageOfNodesToScore")
    return ProfileConfig(
        scheduler_name=profile["schedulerName"],
        filter_timeout=dra.get("filterTimeout", 10 * _SECOND) / _SECOND,
        binding_timeout=dra.get("bindingTimeout", 600 * _SECOND) / _SECOND,
        percentage_of_nodes_to_score=values["percentageOfNodesToScore"] if share is None else share,
        disabled=disabled(profile),
        weights=weights(profile),
    )
