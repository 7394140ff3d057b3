"""Stored objects in a dict, for tests of authorization and admission."""

from __future__ import annotations

from typing import Any


class MemoryReader:
    """The reader that the API server's storage offers, filled by hand."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str, str], dict[str, Any]] = {}

    def add(
        self, resource: str, name: str, *, group: str = "", namespace: str = "", uid: str = "", **content: Any
    ) -> dict[str, Any]:
        metadata = {"name": name, "uid": uid or f"uid-{name}", **content.pop("metadata", {})}
        if namespace:
            metadata["namespace"] = namespace
        obj = {"metadata": metadata, **content}
        self.objects[group, resource, namespace, name] = obj
        return obj

    def get(self, group: str, resource: str, namespace: str, name: str) -> dict[str, Any] | None:
        return self.objects.get((group, resource, namespace, name))

    def list(self, group: str, resource: str, namespace: str | None = None) -> list[dict[str, Any]]:
        return [
            obj
            for key, obj in self.objects.items()
            if key[:2] == (group, resource) and namespace in (None, key[2])
        ]

    def select(self, group: str, resource: str, field: str, value: str) -> list[dict[str, Any]]:
        found = []
        for obj in self.list(group, resource):
            at: Any = obj
            for step in field.split("."):
                at = (at or {}).get(step)
            if (at or "") == value:
                found.append(obj)
        return found

    def changed(self, group: str, resource: str) -> object:
        """Objects may be changed by hand: never the same."""
        return object()
