"""Discovery documents: the legacy ones and the aggregated form (api-machinery section 2)."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any, Final

from clusters.embedded.apiserver import negotiation
from clusters.embedded.apiserver.resources import Served, Subresource
from clusters.embedded.apiserver.served import Resources

AGGREGATED_TYPE: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
VERSION: Final = {
    "major": "1",
    "minor": "37",
    "emulationMajor": "1",
    "emulationMinor": "37",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "36",
    "gitVersion": "v1.37.2",
    "gitCommit": "0000000000000000000000000000000000000000",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "go1.26.0",
    "compiler": "gc",
    "platform": "linux/amd64",
}


def wants_aggregated(accept: str | None) -> bool:
    """Whether a client prefers the aggregated document to the legacy ones; raises ApiError 406."""
    for clause in negotiation.clauses(accept or ""):
        if clause.quality <= 0 or clause.media_type not in (*negotiation.MEDIA_TYPES, "*/*"):
            continue
        parameters = clause.parameters
        if "as" not in parameters:
            return False
        if (
            clause.media_type == negotiation.JSON
            and parameters["as"] == "APIGroupDiscoveryList"
            and parameters.get("g") == "apidiscovery.k8s.io"
            and parameters.get("v") == "v2"
        ):
            return True
    if accept and accept.strip():
        raise negotiation.not_acceptable(negotiation.PLAIN)
    return False


def _group_version(group: str, version: str) -> str:
    return f"{group}/{version}" if group else version


def _storage_hash(served: Served) -> str:
    resource = served.resource
    text = f"{resource.group}/{resource.storage_version}/{resource.kind}"
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()


class Discovery:
    """The documents of one server; they never change while it runs."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._aggregated = {
            "api": self._encode(self._aggregate({"": resources.groups().get("", [])})),
            "apis": self._encode(self._aggregate({g: v for g, v in resources.groups().items() if g})),
        }

    @staticmethod
    def _encode(document: dict[str, Any]) -> tuple[bytes, str]:
        body = json.dumps(document, separators=(",", ":")).encode() + b"\n"
        return body, f'"{hashlib.sha256(body).hexdigest()[:32].upper()}"'

    def aggregated(self, root: str) -> tuple[bytes, str]:
        """Body and ETag of the aggregated document of `api` or `apis`."""
        return self._aggregated[root]

    def api_versions(self, address: str) -> dict[str, Any]:
        """The answer to /api; `address` is host:port of the server."""
        return {
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
        }

    def group_list(self) -> dict[str, Any]:
        """The answer to /apis."""
        groups = [self._group(group) for group in self._resources.groups() if group]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    def _group(self, group: str) -> dict[str, Any]:
        versions = [
            {"groupVersion": _group_version(group, version), "version": version}
            for version in self._resources.groups()[group]
        ]
        return {"name": group, "versions": versions, "preferredVersion": versions[0]}

    def group(self, group: str) -> dict[str, Any] | None:
        """The answer to /apis/GROUP."""
        if not group or group not in self._resources.groups():
            return None
        return {"kind": "APIGroup", "apiVersion": "v1", **self._group(group)}

    def resource_list(self, group: str, version: str) -> dict[str, Any] | None:
        """The answer to /api/v1 or /apis/GROUP/VERSION."""
        if version not in self._resources.groups().get(group, ()):
            return None
        entries: list[dict[str, Any]] = []
        for served in self._resources.of(group, version):
            resource = served.resource
            entry: dict[str, Any] = {
                "name": resource.plural,
                "singularName": resource.singular,
                "namespaced": resource.namespaced,
                "kind": resource.kind,
                "verbs": list(resource.verbs),
            }
            if resource.short_names:
                entry["shortNames"] = list(resource.short_names)
            if resource.categories:
                entry["categories"] = list(resource.categories)
            if len(resource.verbs) > 1:
                entry["storageVersionHash"] = _storage_hash(served)
            entries.append(entry)
            entries += [self._subresource_entry(served, sub) for sub in resource.subresources]
        document = {"kind": "APIResourceList", "apiVersion": "v1"}
        if not group:
            del document["apiVersion"]
        return {**document, "groupVersion": _group_version(group, version), "resources": entries}

    @staticmethod
    def _subresource_entry(served: Served, sub: Subresource) -> dict[str, Any]:
        resource = served.resource
        entry: dict[str, Any] = {
            "name": f"{resource.plural}/{sub.name}",
            "singularName": "",
            "namespaced": resource.namespaced,
        }
        if sub.group is not None and (sub.group, sub.version) != (resource.group, served.version):
            entry |= {"group": sub.group, "version": sub.version}
        return {**entry, "kind": sub.kind or resource.kind, "verbs": list(sub.verbs)}

    def _aggregate(self, groups: dict[str, list[str]]) -> dict[str, Any]:
        items = []
        for group, versions in groups.items():
            documents = [
                {
                    "version": version,
                    "resources": [
                        self._aggregated_entry(served) for served in self._resources.of(group, version)
                    ],
                    "freshness": "Current",
                }
                for version in versions
            ]
            items.append({"metadata": {"name": group} if group else {}, "versions": documents})
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": items,
        }

    @staticmethod
    def _aggregated_entry(served: Served) -> dict[str, Any]:
        resource = served.resource
        entry: dict[str, Any] = {
            "resource": resource.plural,
            "responseKind": {"group": "", "version": "", "kind": resource.kind},
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "singularResource": resource.singular,
            "verbs": list(resource.verbs),
        }
        if resource.short_names:
            entry["shortNames"] = list(resource.short_names)
        if resource.categories:
            entry["categories"] = list(resource.categories)
        if resource.subresources:
            entry["subresources"] = [
                {
                    "subresource": sub.name,
                    "responseKind": {
                        "group": sub.group or "" if sub.group != resource.group else "",
                        "version": sub.version if sub.group != resource.group else "",
                        "kind": sub.kind or resource.kind,
                    },
                    "verbs": list(sub.verbs),
                }
                for sub in resource.subresources
            ]
        return entry

    def paths(self) -> list[str]:
        """The answer to `GET /`."""
        found = ["/api", "/apis", "/healthz", "/livez", "/readyz", "/openapi/v2", "/openapi/v3", "/version"]
        for group, versions in self._resources.groups().items():
            if group:
                found.append(f"/apis/{group}")
            found += [f"/apis/{group}/{version}" if group else f"/api/{version}" for version in versions]
        return sorted(found)
