"""What the API server serves, for controllers that handle every kind."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from clusters.client import ClientError
from clusters.embedded.components.client import ApiClient

_AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_FIRST_PAUSE, _LAST_PAUSE = 0.1, 5.0


@dataclass(frozen=True)
class ServedResource:
    """One resource in one version; `preferred` when no version of its group that comes earlier has it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    verbs: frozenset[str]
    preferred: bool

    @property
    def api_version(self) -> str:
        """As in apiVersion of an object."""
        return f"{self.group}/{self.version}" if self.group else self.version


class Discovery:
    """All resources of a server."""

    def __init__(self, resources: Iterable[ServedResource]) -> None:
        self.resources = tuple(resources)
        self._kinds = {(one.api_version, one.kind): one for one in self.resources}

    def find_kind(self, api_version: str, kind: str) -> ServedResource | None:
        """The resource of a kind in exactly this version."""
        return self._kinds.get((api_version, kind))

    def preferred(self, *verbs: str) -> list[ServedResource]:
        """Each resource once, as far as it has all of the verbs."""
        return [one for one in self.resources if one.preferred and one.verbs.issuperset(verbs)]


def parse(documents: Iterable[dict[str, Any]]) -> Discovery:
    """Read APIGroupDiscoveryList documents."""
    found: list[ServedResource] = []
    for group in (group for document in documents for group in document.get("items") or []):
        name = group["metadata"].get("name", "")
        seen: set[str] = set()
        for version in group["versions"]:
            for entry in version.get("resources") or []:
                plural = entry["resource"]
                found.append(
                    ServedResource(
                        name,
                        version["version"],
                        plural,
                        (entry.get("responseKind") or {}).get("kind", ""),
                        entry["scope"] == "Namespaced",
                        frozenset(entry.get("verbs") or ()),
                        plural not in seen,
                    )
                )
                seen.add(plural)
    return Discovery(found)


async def discover(client: ApiClient) -> Discovery:
    """Ask the server until it answers."""
    pause = _FIRST_PAUSE
    while True:
        try:
            return parse(
                [await client.request("GET", root, accept=_AGGREGATED) for root in ("/api", "/apis")]
            )
        except ClientError:
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LAST_PAUSE)
