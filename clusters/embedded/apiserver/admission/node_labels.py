"""Labels that a kubelet may not touch on its own node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_KUBERNETES: Final = ("kubernetes.io", "k8s.io")
_ALLOWED_NAMESPACES: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
_ALLOWED: Final = {
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
}


def forbidden(new: Mapping[str, str], old: Mapping[str, str]) -> list[str]:
    """The changed labels, sorted, that only others than the kubelet may change."""
    changed = {key for key in new.keys() | old.keys() if new.get(key) != old.get(key)}
    return sorted(key for key in changed if _is_forbidden(key))


def _is_forbidden(key: str) -> bool:
    namespace, slash, _ = key.partition("/")
    if not slash:
        return False
    return (
        _within(namespace, _KUBERNETES)
        and key not in _ALLOWED
        and not _within(namespace, _ALLOWED_NAMESPACES)
    )


def _within(namespace: str, parents: tuple[str, ...]) -> bool:
    return any(namespace == parent or namespace.endswith(f".{parent}") for parent in parents)
