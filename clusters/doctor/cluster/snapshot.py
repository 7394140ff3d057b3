"""What is read of a cluster, all of it at once; what may not be read is noted, and judged as unknown."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from clusters import feature_metrics, gates
from clusters.client import Client, ClientError, resource_path
from clusters.gates import GateError

GROUP: Final = "resource.k8s.io"
VERSIONS: Final = ("v1", "v1beta2", "v1beta1")
"""Versions of the group in which slices and claims can be read, the preferred one first."""

_SECONDS: Final = 10.0
_PAGE: Final = 500
_ASKED_AT_ONCE: Final = 8
_PARTS: Final[Mapping[str, int]] = {"kube-scheduler": 10259, "kube-controller-manager": 10257}

Object = Mapping[str, Any]
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Values:
    """The gates of a component: their values and how they were learnt, or why they are not known."""

    on: Mapping[str, bool] = field(default_factory=dict)
    source: str = ""
    problem: str = ""


@dataclass(frozen=True)
class Snapshot:
    """One look at a cluster. `now` is seconds since the epoch.

    `served` are the versions of resource.k8s.io and scheduling.k8s.io; `objects` are lists by the plural of their
    resource, `problems` say why a list is not there. `kubelets` and `configurations` are by node.
    """

    now: float
    version: str = ""
    served: frozenset[str] = frozenset()
    objects: Mapping[str, Sequence[Object]] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    components: Mapping[str, Values] = field(default_factory=dict)
    kubelets: Mapping[str, Values] = field(default_factory=dict)
    configurations: Mapping[str, Object] = field(default_factory=dict)
    not_asked: int = 0

    @property
    def minor(self) -> str:
        """Major and minor of the API server, such as 1.37."""
        return ".".join(self.version.removeprefix("v").split(".")[:2])

    @property
    def api_version(self) -> str:
        """The version in which objects of the group were read, "" when none is served."""
        return next((f"{GROUP}/{name}" for name in VERSIONS if f"{GROUP}/{name}" in self.served), "")

    def list(self, resource: str) -> Sequence[Object]:
        """Objects that could be read."""
        return self.objects.get(resource, ())

    def unread(self, *resources: str) -> str:
        """Why one of the resources could not be read; "" when all could."""
        return "; ".join(self.problems[name] for name in resources if name in self.problems)


def read(
    client: Client,
    *,
    clock: Callable[[], float] = time.time,
    kubelets: int = 50,
    progress: Progress = lambda text: None,
) -> Snapshot:
    """Look at a cluster with GET requests alone; at most `kubelets` of its kubelets are asked.

    Raises ClientError when the API server does not answer at all.
    """
    version = str(client.request("GET", "/version", timeout=_SECONDS)["gitVersion"])
    problems: dict[str, str] = {}
    served = _served(client, problems)
    api = next((f"{GROUP}/{name}" for name in VERSIONS if f"{GROUP}/{name}" in served), "")
    wanted = {"nodes": "v1", "pods": "v1"}
    if api:
        names = ("resourceslices", "resourceclaims", "resourceclaimtemplates", "deviceclasses")
        wanted |= dict.fromkeys(names, api)
    objects: dict[str, Sequence[Object]] = {}
    for resource, group_version in wanted.items():
        try:
            objects[resource] = _list(client, group_version, resource)
        except ClientError as error:
            problems[resource] = f"{resource} cannot be read: {_short(error)}"
    nodes = [node["metadata"]["name"] for node in objects.get("nodes", ())]
    asked = nodes[:kubelets]
    if len(asked) > _ASKED_AT_ONCE:
        progress(f"asking {len(asked)} of {len(nodes)} kubelets")
    components = {"kube-apiserver": _metrics(client, "/metrics")}
    components |= _control_plane(client, objects.get("pods", ()), version)
    with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
        values = pool.map(lambda node: _metrics(client, f"/api/v1/nodes/{node}/proxy/metrics"), asked)
        kubelet_values = dict(zip(asked, values, strict=True))
        configurations = dict(
            zip(asked, pool.map(lambda node: _configuration(client, node), asked), strict=True)
        )
    return Snapshot(
        now=clock(),
        version=version,
        served=served,
        objects=objects,
        problems=problems,
        components=components,
        kubelets=kubelet_values,
        configurations={node: found for node, found in configurations.items() if found is not None},
        not_asked=len(nodes) - len(asked),
    )


def _short(error: ClientError) -> str:
    return error.message.strip().splitlines()[0] if error.message.strip() else str(error)


def _served(client: Client, problems: dict[str, str]) -> frozenset[str]:
    try:
        groups = client.request("GET", "/apis", timeout=_SECONDS).get("groups") or []
    except ClientError as error:
        problems["apis"] = f"API groups cannot be read: {_short(error)}"
        return frozenset()
    return frozenset(
        entry["groupVersion"]
        for group in groups
        if group["name"] in (GROUP, "scheduling.k8s.io")
        for entry in group["versions"]
    )


def _list(client: Client, api_version: str, resource: str) -> list[Object]:
    """In pages, as there may be thousands of Pods."""
    items: list[Object] = []
    query: dict[str, Any] = {"limit": _PAGE}
    while True:
        answer = client.request(
            "GET", resource_path(api_version, resource), query=query, timeout=3 * _SECONDS
        )
        items += answer.get("items") or []
        following = (answer.get("metadata") or {}).get("continue")
        if not following:
            return items
        query["continue"] = following


def _metrics(client: Client, path: str) -> Values:
    try:
        found = feature_metrics.parse(client.text(path, _SECONDS))
    except ClientError as error:
        return Values(problem=_short(error))
    return Values(found, "metrics") if found else Values(problem=f"{path} tells of no gates")


def _configuration(client: Client, node: str) -> Object | None:
    try:
        document = json.loads(client.text(f"/api/v1/nodes/{node}/proxy/configz", _SECONDS))
    except (ClientError, ValueError):
        return None
    found = document.get("kubeletconfig") if isinstance(document, dict) else None
    return found if isinstance(found, dict) else None


def _control_plane(client: Client, pods: Iterable[Object], version: str) -> dict[str, Values]:
    """Scheduler and controller manager, where they are Pods: by their metrics, or by the flags that they were given."""
    found = {}
    for name, port in _PARTS.items():
        pod = next((pod for pod in pods if _label(pod, "component") == name), None)
        if pod is None:
            found[name] = Values(problem="no Pod of it can be seen")
            continue
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/https:{meta['name']}:{port}/proxy/metrics"
        values = _metrics(client, path)
        found[name] = values if values.on else from_flags(pod, version)
    return found


def _label(pod: Object, name: str) -> str:
    return str((pod["metadata"].get("labels") or {}).get(name, ""))


def from_flags(pod: Object, version: str) -> Values:
    """The gates that a component has by its command line and by the defaults of its version."""
    container = pod["spec"]["containers"][0]
    tag = re.search(r":v?(1\.\d+)\.\d+", str(container.get("image", "")))
    minor = tag[1] if tag else ".".join(version.removeprefix("v").split(".")[:2])
    words = [
        word
        for text in [*(container.get("command") or []), *(container.get("args") or [])]
        for word in _split(text)
    ]
    settings = ""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word.startswith("--feature-gates="):
            settings = word.partition("=")[2]
        elif word == "--feature-gates":
            settings = following
    try:
        table = gates.known(minor)
        chosen = {name: value for name, value in gates.parse(settings).items() if name in table}
        return Values(gates.effective(chosen, minor), "flags")
    except GateError as error:
        return Values(problem=str(error))


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return [text]
