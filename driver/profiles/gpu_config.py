"""Opaque parameters of the GPU profile: kind GpuConfig of gpu.drakit.dev/v1alpha1, read strictly."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from dra_api.nearest import nearest
from driver.sdk.errors import ConfigError

API_VERSION: Final = "gpu.drakit.dev/v1alpha1"
KIND: Final = "GpuConfig"
STRATEGIES: Final = ("None", "TimeSlicing", "MPS")
INTERVALS: Final = ("Default", "Short", "Medium", "Long")
FEATURES: Final[Mapping[str, str]] = {"TimeSlicing": "timeslice", "MPS": "mps"}
"""Sharing strategy -> the hardware feature that it needs."""

_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def parse(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Check the parameters; the result has `strategy`, `interval` (with TimeSlicing) and `env`.

    Raises:
        ConfigError: naming the field, what is allowed, and what was probably meant.
    """
    version, kind = parameters.get("apiVersion"), parameters.get("kind")
    if (version, kind) != (API_VERSION, KIND):
        raise ConfigError(
            f"apiVersion {version!r} kind {kind!r} is unknown; this driver reads {KIND} of {API_VERSION}"
        )
    _check_keys(parameters, {"apiVersion", "kind", "sharing", "env"}, "")
    sharing = _object(parameters, "sharing")
    _check_keys(sharing, {"strategy", "interval"}, "sharing.")
    settings: dict[str, Any] = {"strategy": _choice(sharing, "strategy", STRATEGIES)}
    if settings["strategy"] == "TimeSlicing":
        settings["interval"] = _choice(sharing, "interval", INTERVALS)
    elif "interval" in sharing:
        raise ConfigError("sharing.interval: only allowed with the strategy TimeSlicing")
    settings["env"] = _env(_object(parameters, "env"))
    return settings


def _check_keys(value: Mapping[str, Any], known: Collection[str], path: str) -> None:
    for key in value:
        if key not in known:
            near = nearest(key, sorted(known))
            hint = f", did you mean {near!r}?" if near else f"; known fields: {', '.join(sorted(known))}"
            raise ConfigError(f'unknown field "{path}{key}"{hint}')


def _object(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value.get(key)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ConfigError(f"{key}: must be an object, not {found!r}")
    return found


def _choice(value: Mapping[str, Any], key: str, allowed: tuple[str, ...]) -> str:
    """One of the allowed words; the first one when absent."""
    found = value.get(key, allowed[0])
    if found not in allowed:
        raise ConfigError(f"sharing.{key}: {found!r} is not one of {', '.join(allowed)}")
    return str(found)


def _env(env: Mapping[str, Any]) -> dict[str, str]:
    for name, value in env.items():
        if not _ENV_NAME.match(name):
            raise ConfigError(f"env: {name!r} is not a name of an environment variable")
        if not isinstance(value, str) or "\0" in value or not _is_text(value):
            raise ConfigError(f"env.{name}: must be a string of Unicode characters without NUL")
    return dict(env)


def _is_text(value: str) -> bool:
    """Whether a string has a form in bytes; JSON allows halves of characters, which have none."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
