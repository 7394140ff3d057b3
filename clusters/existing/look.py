"""What can be told of a user's cluster before anything is made on it: version, API, gates, nodes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from clusters import feature_metrics, gates
from clusters.client import UNTRUSTED, Client, ClientError
from clusters.existing.kubeconfig import Connection
from clusters.existing.settings import HOSTNAME, Settings
from clusters.interface import ClusterError

DRA: Final = "resource.k8s.io/v1"
_FIRST_SECONDS: Final = 10.0
"""How long a server may take to answer at all."""
_SHORT: Final = 200
"""As much as is shown of an answer, which may be a whole page."""
_MINOR: Final = re.compile(r"v?(\d+)\.(\d+)")


@dataclass(frozen=True)
class Version:
    """What the API server says of itself in full, and the known minor whose requirements it is held against."""

    full: str
    minor: str


def explain(error: ClientError, connection: Connection) -> ClusterError:
    """An error of the first requests in words for who wrote the kubeconfig."""
    where = f"{connection.server} (context {connection.context})"
    if error.code == 401:
        why = "does not know these credentials: they have expired, or belong to another cluster"
        return ClusterError(f"{where} {why}; get new ones")
    if error.code == 403:
        return ClusterError(
            f'{where}: the account lacks a right: {error.message}; "drakit rbac" prints the rights that are needed'
        )
    if error.reason == UNTRUSTED:
        return ClusterError(
            f"{where} has a certificate that the kubeconfig does not trust: {_last(error.message)}; correct "
            "certificate-authority-data or tls-server-name"
        )
    if error.code == 0:
        return ClusterError(
            f"{where} cannot be reached: {_last(error.message)}; is the address right, and the server up?"
        )
    text = " ".join(str(error).split())
    short = text if len(text) <= _SHORT else text[:_SHORT] + "..."
    return ClusterError(f"{where} answers {short}; is it the API server of a Kubernetes cluster?")


def _last(message: str) -> str:
    """The end of a chain of errors of libraries, which says what happened."""
    text = " ".join(message.split())
    found = re.search(r"(\[Errno -?\d+\] .*?|certificate verify failed: .*?|timed out.*?)(?:\)|'|$)", text)
    return found[1] if found else text.split(": ", 1)[-1]


def version(client: Client) -> Version:
    """The version of the API server. Raises ClusterError for one without the API of today, and ClientError."""
    found = nearest_version(client)
    full, minor = found.full, found.minor
    if _number(full) < _number(gates.VERSIONS[0]):
        raise ClusterError(f"the cluster is Kubernetes {full}; drakit judges {gates.VERSIONS[0]} and newer")
    if not _serves(client):
        raise ClusterError(
            f"the cluster (Kubernetes {full}) does not serve {DRA}: let its API server do so (--runtime-config)"
        )
    return Version(full, minor)


def nearest_version(client: Client) -> Version:
    """The version of the API server, with the nearest minor that is known. Raises ClusterError and ClientError."""
    answer = client.request("GET", "/version", timeout=_FIRST_SECONDS)
    full = str(answer.get("gitVersion", "")) if isinstance(answer, dict) else ""
    if not _MINOR.match(full):
        raise ClusterError(
            "the server does not say which Kubernetes it is; is the address that of an API server?"
        )
    known = [minor for minor in gates.VERSIONS if _number(minor) <= _number(full)]
    return Version(full, known[-1] if known else gates.VERSIONS[0])


def _number(version: str) -> tuple[int, int]:
    found = _MINOR.match(version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _serves(client: Client) -> bool:
    try:
        client.request("GET", f"/apis/{DRA}")
    except ClientError as error:
        if error.code == 404:
            return False
        raise
    return True


def feature_gates(client: Client, minor: str) -> tuple[dict[str, bool], str]:
    """The gates that are known to be on or off, and why nothing is known of others ("" when all are known).

    The API server tells in its metrics, which not everybody may read; gates that are locked need no telling.
    """
    known = {name: gate.default for name, gate in gates.known(minor).items() if gate.locked}
    try:
        told = feature_metrics.parse(client.text("/metrics"))
    except ClientError as error:
        return known, f"the metrics of the API server cannot be read: {error.message}"
    if not told:
        return known, "the metrics of the API server do not tell"
    return known | {name: value for name, value in told.items() if name in gates.known(minor)}, ""


def fitting_nodes(client: Client, settings: Settings) -> list[Mapping[str, Any]]:
    """The nodes on which Pods of these settings can run, by name. Raises ClusterError when there are none."""
    fit: list[Mapping[str, Any]] = []
    reasons = Counter[str]()
    nodes = sorted(client.list("v1", "nodes"), key=lambda node: str(node["metadata"]["name"]))
    for node in nodes:
        if reason := _unfit(node, settings):
            reasons[reason] += 1
        else:
            fit.append(node)
    if not fit:
        counts = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
        raise ClusterError(
            f"no node for the Pods of the kit; of {len(nodes)}: {counts or 'none'}; --node-selector and --tolerations "
            "choose others"
        )
    return fit


def _unfit(node: Mapping[str, Any], settings: Settings) -> str:
    spec, labels = node["spec"], node["metadata"].get("labels") or {}
    conditions: Sequence[Mapping[str, Any]] = (node.get("status") or {}).get("conditions") or []
    if any(labels.get(key) != value for key, value in settings.node_selector.items()):
        return "without the labels of --node-selector"
    if not any(one["type"] == "Ready" and one["status"] == "True" for one in conditions):
        return "not Ready"
    if spec.get("unschedulable"):
        return "cordoned"
    if taints := [taint["key"] for taint in spec.get("taints") or [] if not settings.tolerates(taint)]:
        return f"with the taint {taints[0]}"
    if labels.get("kubernetes.io/os", "linux") != "linux":
        return "not Linux"
    return ""


def hostnames(nodes: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The hostname label by name of node, where the two differ."""
    found = {
        node["metadata"]["name"]: (node["metadata"].get("labels") or {}).get(HOSTNAME, "") for node in nodes
    }
    return {name: label for name, label in found.items() if label and label != name}
