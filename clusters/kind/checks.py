"""What is looked at when a kind cluster has been made: a wrong gate leaves Pods waiting without a word."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from clusters import feature_metrics
from clusters.client import Client, ClientError
from clusters.interface import ClusterError

IMAGE: Final = "registry.k8s.io/pause:3.10"
"""In every node image, since containers cannot start without it."""

_NAMESPACE: Final = "kube-system"
_PROBE_SECONDS: Final = 180.0
_POLL: Final = 0.1


def check_gates(client: Client, wanted: Mapping[str, bool], nodes: Sequence[str]) -> None:
    """Raise ClusterError when API server or a kubelet says another value of a gate than the one that was asked for.

    A component says nothing about gates of others.
    """
    if not wanted:
        return
    paths = {"the API server": "/metrics"} | {
        f"the kubelet of {node}": f"/api/v1/nodes/{node}/proxy/metrics" for node in nodes
    }
    known: set[str] = set()
    for component, path in paths.items():
        values = feature_metrics.parse(client.text(path))
        known |= values.keys()
        for name, value in wanted.items():
            if values.get(name, value) is not value:
                raise ClusterError(
                    f"feature gate {name} should be {_word(value)}, and {component} says {_word(not value)}; the node "
                    "image may be of another Kubernetes version than its name says"
                )
    if unknown := sorted(set(wanted) - known):
        raise ClusterError(f"no component of the cluster knows the feature gates {', '.join(unknown)}")


def check_versions(client: Client, wanted: Mapping[str, bool]) -> None:
    """Raise ClusterError for an API version that should be served and is not, or the reverse.

    Words for several (`api/all`, `api/beta`) are the API server's to understand.
    """
    served = {
        entry["groupVersion"]
        for group in client.request("GET", "/apis")["groups"]
        for entry in group["versions"]
    }
    for name, value in wanted.items():
        # A single resource may be named behind its version.
        version = "/".join(name.split("/")[:2])
        if not version.startswith("api/") and (version in served) is not value and name == version:
            raise ClusterError(
                f"API version {version} is {'not ' if value else ''}served, against --runtime-config"
            )


def check_pods(client: Client, nodes: Sequence[str], progress: Callable[[str], None]) -> None:
    """Raise ClusterError unless a Pod runs on each node, placed there by the scheduler."""
    pods = {f"drakit-check-{number}": node for number, node in enumerate(nodes, 1)}
    try:
        _make(client, pods)
        _wait_running(client, pods, progress)
    finally:
        for name in pods:
            try:
                client.delete("v1", "pods", name, _NAMESPACE, body={"gracePeriodSeconds": 0})
            except ClientError:
                continue


def _make(client: Client, pods: Mapping[str, str]) -> None:
    for name, node in pods.items():
        spec = {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "main", "image": IMAGE, "imagePullPolicy": "Never"}],
        }
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        client.create("v1", "pods", body, _NAMESPACE)


def _wait_running(client: Client, pods: Mapping[str, str], progress: Callable[[str], None]) -> None:
    begin = time.monotonic()
    said = False
    while True:
        found = {pod["metadata"]["name"]: pod for pod in client.list("v1", "pods", _NAMESPACE)}
        waiting = [name for name in pods if _phase(found.get(name)) != "Running"]
        if not waiting:
            return
        if time.monotonic() - begin > _PROBE_SECONDS:
            why = "; ".join(f"on {pods[name]}: {_why(client, name, found.get(name))}" for name in waiting)
            raise ClusterError(f"a Pod does not run within {_PROBE_SECONDS:g} s {why}")
        if not said and time.monotonic() - begin > 2:
            said = True
            progress(f"waiting for a Pod to run on {', '.join(pods[name] for name in waiting)}")
        time.sleep(_POLL)


def _phase(pod: Mapping[str, Any] | None) -> str:
    return str(((pod or {}).get("status") or {}).get("phase", ""))


def _why(client: Client, name: str, pod: Mapping[str, Any] | None) -> str:
    """The last event of a Pod; one without a node and an event was never looked at."""
    query = {"fieldSelector": f"involvedObject.name={name}"}
    events = [str(event["message"]) for event in client.list("v1", "events", _NAMESPACE, **query)]
    if events:
        return events[-1]
    if pod is not None and not pod["spec"].get("nodeName"):
        return "the scheduler has not said a word about it; an API that a gate needs may not be served"
    return f"phase {_phase(pod) or 'unknown'}"


def _word(value: bool) -> str:
    return "on" if value else "off"
