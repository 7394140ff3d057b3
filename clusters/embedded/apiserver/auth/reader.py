"""What authentication, authorization and admission read from storage."""

from __future__ import annotations

from typing import Any, Protocol


class Reader(Protocol):
    """Synchronous view of the stored objects, in the storage version; the objects must not be changed."""

    def get(self, group: str, resource: str, namespace: str, name: str) -> dict[str, Any] | None:
        """One object or None; `namespace` is empty for cluster-scoped resources."""
        ...

    def list(self, group: str, resource: str, namespace: str | None = None) -> list[dict[str, Any]]:
        """All objects of a resource, of one namespace if given."""
        ...


def metadata(obj: dict[str, Any]) -> dict[str, Any]:
    """The metadata of an object, empty if absent."""
    value: dict[str, Any] = obj.get("metadata") or {}
    return value
