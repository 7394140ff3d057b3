"""The manifests of the seeds, their environment, and requests as kubectl sends them."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from clusters.client import Client, ClientError, resource_path
from clusters.interface import NodeSpec
from conformance.waiting import poll

DRA = "resource.k8s.io/v1"
SOON = 30.0
"""How long anything may take on a busy machine."""
GPU_NODE, CATS_NODE, PLAIN_NODE = "192.168.2.8", "name-of-the-intended-node", "node"
"""The nodes that the seeds 004, 000 and 002, and 001 name."""
NVIDIA, CATS, GPUS = "gpu.nvidia.com", "resource-driver.example.com", "gpu.example.com"
"""The drivers of the seeds 004, 002 and 001."""
NODES = (
    NodeSpec(
        name=GPU_NODE,
        labels=(("vke.node.gpu.schedule", "nvidia-dra"), ("nvidia.com/gpu.present", "true")),
        machine="a30-1",
    ),
    NodeSpec(name=CATS_NODE),
    NodeSpec(name=PLAIN_NODE, capacity=(("nvidia.com/gpu", "1"),)),
)
"""Label values of the first come from seed 004; the last has a device plugin's counter."""

_FOLDER = Path(__file__).parent / "manifests"
_PLURALS = {
    "DeviceClass": "deviceclasses",
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
}
_VERSIONS = {
    "DaemonSet": "apps/v1",
    "Deployment": "apps/v1",
    "Role": "rbac.authorization.k8s.io/v1",
    "RoleBinding": "rbac.authorization.k8s.io/v1",
}
CLUSTER_SCOPED: Final = (
    "DeviceClass",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "Namespace",
    "Node",
    "ResourceSlice",
)
Object = dict[str, Any]


def text_of(name: str) -> str:
    """A manifest as it stands in its file, `NAME` or `NAME.as-written`."""
    for suffix in ("", ".as-written", ".support"):
        path = _FOLDER / f"{name}{suffix}.yaml"
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise FileNotFoundError(name)


def load(name: str) -> list[Object]:
    """The documents of a manifest; one without a corrected form is taken as written."""
    return list(yaml.safe_load_all(text_of(name)))


def only(name: str) -> Object:
    """The only document of a manifest."""
    (document,) = load(name)
    return document


def send(client: Client, obj: Mapping[str, Any], *, namespace: str = "", validate: str = "Strict") -> Sent:
    """POST an object as `kubectl create` does, with strict field validation unless told otherwise."""
    metadata = obj.get("metadata") or {}
    path = resource_path(obj["apiVersion"], plural(obj["kind"]), metadata.get("namespace") or namespace)
    return request(client, "POST", path, obj, {"fieldManager": "kubectl-create", "fieldValidation": validate})


class Sent(dict[str, Any]):
    """An answer of the API server, and the warnings that came with it."""

    warnings: tuple[str, ...] = ()


def request(
    client: Client,
    method: str,
    path: str,
    body: Any = None,
    query: Mapping[str, str] | None = None,
    content_type: str = "application/json",
) -> Sent:
    """One request with the warnings of its answer. Raises ClientError."""
    answer = client._send(method, path, body, query, content_type, 30.0, stream=False)
    sent = Sent(json.loads(answer.data))
    sent.warnings = tuple(_text(line) for line in answer.headers.getlist("Warning"))
    return sent


def _text(warning: str) -> str:
    """The text of a Warning header, `299 - "TEXT"` with escaped quotes."""
    return warning.removeprefix('299 - "').removesuffix('"').replace('\\"', '"')


def impersonate(client: Client, user: str, group: str = "system:authenticated") -> Client:
    """The client acting as another user; its connections are those of the given one."""
    twin = copy.copy(client)
    twin._headers = {**client._headers, "Impersonate-User": user, "Impersonate-Group": group}
    return twin


def history(client: Client, resource: str, namespace: str, since: str) -> list[Object]:
    """The watch events of DRA objects after a resource version, as far as they have happened."""
    return list(client.watch(DRA, resource, namespace, timeout=1, resourceVersion=since))


def plural(kind: str) -> str:
    """The resource of a kind."""
    return _PLURALS.get(kind, kind.lower() + "s")


def refusal(action: Callable[[], object]) -> tuple[int, str]:
    """Code and message of a request that the API server must refuse."""
    try:
        done = action()
    except ClientError as error:
        return error.code, error.message
    raise AssertionError(f"the API server accepted it: {done}")


def eventually(probe: Callable[[], Any], what: str, seen: Callable[[], object] = lambda: "no") -> Any:
    """The first truthy answer of `probe`."""
    return poll(probe, SOON, what, seen)


def holds(probe: Callable[[], bool], what: str, seconds: float = 1.5) -> None:
    """Look for some time at what must not change."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert probe(), f"{what}: it changed"
        time.sleep(0.05)


def version_of(kind: str) -> str:
    """The API version in which the tests speak of a kind."""
    if kind in _VERSIONS:
        return _VERSIONS[kind]
    return DRA if kind.startswith(("Resource", "Device")) else "v1"


def table(client: Client, path: str) -> tuple[list[str], list[list[Any]]]:
    """Columns and rows of the table that the API server makes of a path."""
    url = client._url + path
    headers = {
        **client._headers,
        "Accept": "application/json;as=Table;v=v1;g=meta.k8s.io",
        "Authorization": f"Bearer {client._token()}",
    }
    answer = json.loads(client._pool.request("GET", url, headers=headers, timeout=30.0).data)
    columns = [column["name"] for column in answer["columnDefinitions"] if column["priority"] == 0]
    return columns, [row["cells"][: len(columns)] for row in answer.get("rows") or []]
