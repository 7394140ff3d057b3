"""What authentication, authorization and admission read from storage."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

_Objects: TypeAlias = list[dict[str, Any]]


class Reader(Protocol):
    """Synchronous view of the stored objects, in the storage version; the objects must not be changed."""

    def get(self, group: str, resource: str, namespace: str, name: str) -> dict[str, Any] | None:
        """One object or None; `namespace` is empty for cluster-scoped resources."""
        ...

    def list(self, group: str, resource: str, namespace: str | None = None) -> _Objects:
        """All objects of a resource, of one namespace if given."""
        ...

    def select(self, group: str, resource: str, field: str, value: str) -> _Objects:
        """The objects of a resource whose indexed field has a value, in no order."""
        ...

    def changed(self, group: str, resource: str) -> object:
        """Equals an earlier answer as long as no object of the resource was written in between."""
        ...


def metadata(obj: dict[str, Any]) -> dict[str, Any]:
    """The metadata of an object, empty if absent."""
    value: dict[str, Any] = obj.get("metadata") or {}
    return value
