"""What runs have made on a user's cluster, by label; how it is removed, and what earlier runs have left."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from clusters.client import Client, ClientError
from clusters.existing.owner import OWNER_ANNOTATION, Owner
from clusters.existing.settings import RUN_LABEL
from clusters.interface import ClusterError

DRIVER_LABEL: Final = "drakit.dev/driver-of-run"
"""Label of the objects of a driver that a run has installed: they go after everything else."""
_DRA: Final = "resource.k8s.io/v1"
OWN_KINDS: Final = (("v1", "namespaces"), (_DRA, "deviceclasses"), (_DRA, "resourceslices"))
"""API version and resource of what runs make outside of their namespaces; the latter come first."""
_GONE_SECONDS: Final = 120.0
_SAY_AFTER: Final = 2.0
_POLL: Final = 0.2
_NOT_THERE: Final = (403, 404, 405)

Kinds = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Run:
    """A run that has objects on the cluster, and the process that it belongs to, if its objects tell."""

    name: str
    owner: Owner | None
    objects: int


def runs(client: Client) -> list[Run]:
    """The runs that have objects, by name. Raises ClientError."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for label, kinds in ((RUN_LABEL, OWN_KINDS), (DRIVER_LABEL, all_kinds(client))):
        for _, item in _labelled(client, kinds, label):
            found.setdefault(item["metadata"]["labels"][label], []).append(item)
    return [Run(name, _owner(items), len(items)) for name, items in sorted(found.items())]


def _owner(items: Sequence[Mapping[str, Any]]) -> Owner | None:
    texts = {(item["metadata"].get("annotations") or {}).get(OWNER_ANNOTATION, "") for item in items}
    owners = [owner for owner in map(Owner.parse, sorted(texts)) if owner is not None]
    return owners[0] if owners else None


def sweep(client: Client, run: str, progress: Callable[[str], None]) -> None:
    """Remove what a run has made, and wait until it is gone. Raises ClusterError, ClientError."""
    selector = f"{RUN_LABEL}={run}"
    for namespace in client.list("v1", "namespaces", labelSelector=selector):
        release_claims(client, namespace["metadata"]["name"])
    _remove(client, OWN_KINDS, selector, progress)


def release_claims(client: Client, namespace: str) -> None:
    """Take consumers that are no Pods from the claims of a namespace: nobody else would, and it would never go."""
    for claim in client.list(_DRA, "resourceclaims", namespace):
        consumers = (claim.get("status") or {}).get("reservedFor") or []
        pods = [entry for entry in consumers if entry["resource"] == "pods" and not entry.get("apiGroup")]
        if len(pods) != len(consumers):
            claim["status"]["reservedFor"] = pods
            with contextlib.suppress(ClientError):
                client.update(_DRA, "resourceclaims", claim, "status")


def sweep_driver(client: Client, run: str, progress: Callable[[str], None]) -> None:
    """Remove the driver that a run has installed, and wait until it is gone. Raises ClusterError, ClientError."""
    _remove(client, all_kinds(client), f"{DRIVER_LABEL}={run}", progress)


def all_kinds(client: Client) -> Kinds:
    """Every kind that can be listed and deleted, in its preferred version, namespaces last. Raises ClientError."""
    versions = ["v1"]
    for group in client.request("GET", "/apis").get("groups") or []:
        versions.append(str(group["preferredVersion"]["groupVersion"]))
    kinds: list[tuple[str, str]] = []
    for version in versions:
        path = f"/api/{version}" if "/" not in version else f"/apis/{version}"
        # A group whose server is down is no affair of ours.
        with contextlib.suppress(ClientError):
            for entry in client.request("GET", path).get("resources") or []:
                if "/" not in entry["name"] and {"list", "delete"} <= set(entry.get("verbs") or []):
                    kinds.append((version, entry["name"]))
    return sorted(kinds, key=lambda kind: kind == ("v1", "namespaces"))


def _labelled(
    client: Client, kinds: Kinds, selector: str
) -> Iterator[tuple[tuple[str, str], Mapping[str, Any]]]:
    for kind in kinds:
        try:
            for item in client.list(*kind, labelSelector=selector):
                yield kind, item
        except ClientError as error:
            # What may not be listed was not made with these rights either.
            if error.code not in _NOT_THERE:
                raise


def _remove(client: Client, kinds: Kinds, selector: str, progress: Callable[[str], None]) -> None:
    begin = time.monotonic()
    said = False
    kinds = list(kinds)
    while found := list(_labelled(client, kinds, selector)):
        for (version, resource), item in found:
            metadata = item["metadata"]
            if "deletionTimestamp" not in metadata:
                body = {"propagationPolicy": "Background"}
                client.delete(version, resource, metadata["name"], metadata.get("namespace"), body)
        passed = time.monotonic() - begin
        names = sorted({f"{resource} {item['metadata']['name']}" for (_, resource), item in found})
        if passed > _GONE_SECONDS:
            raise ClusterError(
                f"not gone from the cluster within {_GONE_SECONDS:g} s: {', '.join(names)}; "
                "drakit down --kubeconfig FILE removes it later"
            )
        if passed > _SAY_AFTER and not said:
            said = True
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            progress(f"waiting until the cluster has removed {names[0]}{more}")
        time.sleep(_POLL)
