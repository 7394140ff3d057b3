"""The objects that DRA is about, in one version and with their defaults, wherever they came from."""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from clusters.embedded.apiserver.resource_table import TABLE
from clusters.embedded.apiserver.resources import Resource
from clusters.embedded.apiserver.strategies.table import strategy_of
from dra_api.conversion import GROUP, VERSIONS, convert
from dra_api.decode import as_stored, decode_object
from dra_api.schema import GVK

Object = dict[str, Any]

_LISTS: Final = {
    "Node": "nodes",
    "Namespace": "namespaces",
    "Pod": "pods",
    "ResourceClaim": "claims",
    "ResourceClaimTemplate": "templates",
    "DeviceClass": "classes",
    "ResourceSlice": "slices",
    "DeviceTaintRule": "rules",
}
"""Kinds that matter here -> where they are in a World."""
KINDS: Final = tuple(_LISTS)
_RESOURCES: Final = {resource.kind: resource for resource in TABLE if resource.group in ("", GROUP)}


@dataclass(frozen=True)
class World:
    """Everything that scheduling with DRA looks at; objects of resource.k8s.io are in v1, claims of templates are made.

    `others` counts objects by kind that have no part in it, such as Deployments.
    """

    nodes: list[Object] = field(default_factory=list)
    namespaces: list[Object] = field(default_factory=list)
    pods: list[Object] = field(default_factory=list)
    claims: list[Object] = field(default_factory=list)
    templates: list[Object] = field(default_factory=list)
    classes: list[Object] = field(default_factory=list)
    slices: list[Object] = field(default_factory=list)
    rules: list[Object] = field(default_factory=list)
    others: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, objects: Iterable[Object], default_namespace: str = "default") -> World:
        """Sort objects out; one that is given twice counts as it was given last."""
        world = cls()
        known: dict[tuple[str, str, str], Object] = {}
        for number, obj in enumerate(objects):
            name = _LISTS.get(obj["kind"])
            group = obj["apiVersion"].rpartition("/")[0]
            if name is None or group not in ("", GROUP):
                world.others[obj["kind"]] = world.others.get(obj["kind"], 0) + 1
                continue
            ready = canonical(obj, default_namespace)
            metadata = ready["metadata"]
            metadata.setdefault("name", f"{metadata.get('generateName', '')}{number}")
            metadata.setdefault("uid", _uid(ready))
            known[obj["kind"], metadata.get("namespace", ""), metadata["name"]] = ready
        for (kind, _, _), obj in known.items():
            getattr(world, _LISTS[kind]).append(obj)
        return world

    def claim(self, namespace: str, name: str) -> Object | None:
        """The claim of that name."""
        return _find(self.claims, namespace, name)

    def pod(self, namespace: str, name: str) -> Object | None:
        """The Pod of that name."""
        return _find(self.pods, namespace, name)


def canonical(obj: Object, default_namespace: str) -> Object:
    """An object as a server would hold it: canonical text, defaults, and for resource.k8s.io v1. A copy."""
    gvk = GVK.of(obj["apiVersion"], obj["kind"])
    decoded = decode_object(obj, gvk).object
    resource = _RESOURCES[obj["kind"]]
    strategy_of(resource).default(decoded, time.time())
    if resource.group == GROUP:
        decoded = convert(decoded, f"{GROUP}/{VERSIONS[obj['kind']][0]}")
    decoded = as_stored(decoded)
    if resource.namespaced:
        decoded["metadata"].setdefault("namespace", default_namespace)
    return decoded


def resource_of(kind: str) -> Resource:
    """The API resource of a kind of KINDS."""
    return _RESOURCES[kind]


def timestamp() -> str:
    """Now, as the API writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _find(objects: Sequence[Object], namespace: str, name: str) -> Object | None:
    return next(
        (
            obj
            for obj in objects
            if obj["metadata"]["name"] == name and obj["metadata"].get("namespace") == namespace
        ),
        None,
    )


def _uid(obj: Object) -> str:
    """A UID for an object of a file; the same for the same object each time."""
    metadata = obj["metadata"]
    text = f"{obj['kind']}/{metadata.get('namespace', '')}/{metadata['name']}"
    return str(uuid.UUID(bytes=hashlib.sha256(text.encode()).digest()[:16], version=4))
