"""The objects that one test makes, reads and changes: in a namespace of its own, and with names of its own."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Mapping
from typing import Any

from clusters.client import Client
from clusters.existing.settings import Settings
from conformance.cluster import manifests
from conformance.cluster.manifests import RESOURCE_API, Object

KINDS = {
    "Pod": ("v1", "pods"),
    "ResourceClaim": (RESOURCE_API, "resourceclaims"),
    "ResourceClaimTemplate": (RESOURCE_API, "resourceclaimtemplates"),
    "DeviceClass": (RESOURCE_API, "deviceclasses"),
    "ResourceSlice": (RESOURCE_API, "resourceslices"),
    "DaemonSet": ("apps/v1", "daemonsets"),
    "Deployment": ("apps/v1", "deployments"),
    "Job": ("batch/v1", "jobs"),
    "Namespace": ("v1", "namespaces"),
}
"""API version and resource of the kinds that tests make."""
_CLUSTER_SCOPED = ("DeviceClass", "ResourceSlice", "Namespace")
_SERIAL = itertools.count(1)
_RUN = secrets.token_hex(2)
"""Sets names apart from those of other runs, which may have been on the same cluster or be there now."""


class Objects:
    """Access to the API for one test."""

    def __init__(self, client: Client, settings: Settings) -> None:
        """`settings` say how objects look on this cluster."""
        self.client = client
        self.settings = settings
        self.namespace = f"{settings.prefix}t{next(_SERIAL)}-{settings.run or _RUN}"
        self.driver_name = f"{self.namespace}.kit.drakit.dev"
        """A driver name of this test alone, so that no other test can take its devices."""
        self._made: list[tuple[str, str, str]] = []

    def create(self, obj: Mapping[str, Any]) -> Object:
        """Create an object; namespaced kinds in the namespace of the test."""
        kind = str(obj["kind"])
        namespace = None if kind in _CLUSTER_SCOPED else self.namespace
        stored = self.client.create(*KINDS[kind], self.settings.shaped(obj), namespace)
        self._made.append((kind, namespace or "", stored["metadata"]["name"]))
        return stored

    def get(self, kind: str, name: str) -> Object:
        """One object as it is now. Raises ClientError."""
        return self.client.get(*KINDS[kind], name, self._namespace(kind))

    def find(self, kind: str, name: str) -> Object | None:
        """One object, or None."""
        return self.client.find(*KINDS[kind], name, self._namespace(kind))

    def all_of(self, kind: str) -> list[Object]:
        """All objects of a kind, in the namespace of the test if it has namespaces."""
        return self.client.list(*KINDS[kind], self._namespace(kind))

    def update(self, obj: Mapping[str, Any], subresource: str | None = None) -> Object:
        """PUT an object or its subresource."""
        return self.client.update(*KINDS[str(obj["kind"])], obj, subresource)

    def patch(self, kind: str, name: str, body: Any, subresource: str | None = None) -> Object:
        """Merge-patch an object."""
        return self.client.patch(*KINDS[kind], name, body, self._namespace(kind), subresource)

    def delete(self, kind: str, name: str, *, force: bool = False) -> None:
        """Delete an object; `force` is a grace period of zero."""
        body = {"gracePeriodSeconds": 0} if force else None
        self.client.delete(*KINDS[kind], name, self._namespace(kind), body)

    def _namespace(self, kind: str) -> str | None:
        return None if kind in _CLUSTER_SCOPED else self.namespace

    def name(self, word: str) -> str:
        """A name for a cluster-scoped object of this test."""
        return f"{self.namespace}-{word}"

    def make_claim(self, name: str, *requests: Mapping[str, Any], **parts: Any) -> Object:
        """A claim; `parts` are configs and constraints."""
        return self.create(manifests.claim(name, manifests.claim_spec(requests, **parts)))

    def make_template(self, name: str, *requests: Mapping[str, Any], **parts: Any) -> Object:
        """A claim template."""
        return self.create(manifests.template(name, manifests.claim_spec(requests, **parts)))

    def make_pod(self, name: str, **parts: Any) -> Object:
        """A Pod; `parts` are those of `manifests.pod`."""
        return self.create(manifests.pod(name, **parts))

    def events(self, name: str = "") -> list[Object]:
        """The core/v1 events of the namespace of the test, about `name` or anything."""
        return [
            event
            for event in self.client.list("v1", "events", self.namespace)
            if not name or event["involvedObject"].get("name") == name
        ]

    def allocation(self, claim: str) -> Object | None:
        """The allocation of a claim."""
        found = self.find("ResourceClaim", claim) or {}
        result: Object | None = (found.get("status") or {}).get("allocation")
        return result

    def devices_of(self, claim: str) -> list[str]:
        """The allocated devices of a claim as pool/device, in the order of the results."""
        results = ((self.allocation(claim) or {}).get("devices") or {}).get("results") or []
        return [f"{result['pool']}/{result['device']}" for result in results]
