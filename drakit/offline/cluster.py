"""What is read of a cluster: the objects that DRA is about, and the feature gates of its API server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from clusters import gates
from clusters.client import Client, ClientError, resource_path
from clusters.existing import kubeconfig, look
from clusters.existing.kubeconfig import Connection
from clusters.gates import GateError
from clusters.interface import ClusterError
from dra_api.conversion import GROUP
from drakit.offline.world import KINDS, Object, resource_of
from drakit.output import UserError, say

_PAGE: Final = 500
_SECONDS: Final = 30.0
_VERSIONS: Final = ("v1", "v1beta2", "v1beta1", "v1alpha3")
_FORBIDDEN: Final = 403


@dataclass(frozen=True)
class Reading:
    """One look at a cluster: its objects, and every gate of 1.37 as it is there."""

    objects: list[Object]
    gates: Mapping[str, bool]


def read(path: Path, context: str, feature_gates: str) -> Reading:
    """Read the cluster of a kubeconfig. Gates of the setting win over those that the API server tells in its metrics.

    Where it does not tell, gates have the defaults of its version, and a line on stderr says so. Raises UserError.
    """
    try:
        connection = kubeconfig.load(path, context)
        client = connection.client()
    except ClusterError as error:
        raise UserError(str(error)) from None
    try:
        found = _gates(client, connection.server, feature_gates)
        return Reading(list(_objects(client)), found)
    except ClientError as error:
        raise UserError(_why(error, connection)) from None
    except ClusterError as error:
        raise UserError(f"{connection.server}: {error}") from None
    finally:
        client.close()


def _why(error: ClientError, connection: Connection) -> str:
    if error.code == _FORBIDDEN:
        return (
            f"{connection.server} (context {connection.context}): the account lacks a right: {error.message}; it has to"
            f" list nodes, namespaces and Pods, and in {GROUP} {', '.join(_plurals())}"
        )
    return str(look.explain(error, connection))


def _plurals() -> list[str]:
    return [resource.plural for kind in KINDS if (resource := resource_of(kind)).group == GROUP]


def _gates(client: Client, server: str, setting: str) -> Mapping[str, bool]:
    version = look.nearest_version(client)
    told, problem = look.feature_gates(client, version.minor)
    try:
        values = gates.effective(gates.choose(setting, version.minor), version.minor, told)
    except GateError as error:
        raise UserError(f"--feature-gates: {error} (the cluster is Kubernetes {version.full})") from None
    if problem:
        say(
            f"{server}: {' '.join(problem.split())}; feature gates are taken to have the defaults of Kubernetes"
            f" {version.minor} unless --feature-gates says otherwise"
        )
    # A gate that the version does not have must not get its default of 1.37.
    return dict.fromkeys(gates.known(gates.LATEST), False) | values


def _objects(client: Client) -> Iterator[Object]:
    """All objects of the kinds that matter; what the cluster does not serve is not there."""
    groups = client.request("GET", "/apis", timeout=_SECONDS).get("groups") or []
    served = {
        version["version"] for group in groups if group["name"] == GROUP for version in group["versions"]
    }
    for kind in KINDS:
        resource = resource_of(kind)
        versions = resource.versions if resource.group else ("v1",)
        usable = [name for name in _VERSIONS if name in versions and (not resource.group or name in served)]
        for name in usable:
            api_version = f"{resource.group}/{name}" if resource.group else name
            found = _listed(client, api_version, resource.plural)
            if found is None:
                continue
            for item in found:
                yield {**item, "apiVersion": api_version, "kind": kind}
            break


def _listed(client: Client, api_version: str, plural: str) -> list[Object] | None:
    """In pages, as there may be thousands; None when the resource is not served in this version."""
    items: list[Object] = []
    query: dict[str, Any] = {"limit": _PAGE}
    while True:
        try:
            answer = client.request("GET", resource_path(api_version, plural), query=query, timeout=_SECONDS)
        except ClientError as error:
            if error.code == 404:
                return None
            raise
        items += answer.get("items") or []
        following = (answer.get("metadata") or {}).get("continue")
        if not following:
            return items
        query["continue"] = following
