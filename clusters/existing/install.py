"""A driver that the kit installs on a user's cluster: the manifests of its descriptor, made and later removed."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from clusters.client import Client, ClientError
from clusters.existing.leftovers import DRIVER_LABEL
from clusters.existing.owner import OWNER_ANNOTATION
from clusters.interface import ClusterError

Object = Mapping[str, Any]


def read(paths: Sequence[Path]) -> list[Object]:
    """The objects of manifest files, in their order, lists taken apart. Raises ClusterError."""
    found: list[Object] = []
    for path in paths:
        try:
            documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError) as error:
            raise ClusterError(f"manifests: {path}: {getattr(error, 'strerror', None) or error}") from None
        except yaml.YAMLError as error:
            raise ClusterError(f"manifests: {path}: not valid YAML: {' '.join(str(error).split())}") from None
        for document in documents:
            entries = (
                document.get("items") if isinstance(document, dict) and "items" in document else [document]
            )
            for entry in entries or []:
                if entry is None:
                    continue
                if not _is_object(entry):
                    raise ClusterError(
                        f"manifests: {path}: every document must be an object with apiVersion, kind and metadata.name"
                    )
                found.append(entry)
    if not found:
        raise ClusterError(f"manifests: there is no object in {', '.join(map(str, paths))}")
    return found


def _is_object(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("apiVersion"), str)
        and isinstance(entry.get("kind"), str)
        and isinstance(entry.get("metadata"), dict)
        and isinstance(entry["metadata"].get("name"), str)
    )


def make(client: Client, objects: Sequence[Object], run: str, owner: str) -> None:
    """Make the objects with the label of the run. Raises ClusterError for what exists already or is refused."""
    kinds: dict[str, dict[str, tuple[str, bool]]] = {}
    for obj in objects:
        version, kind, name = obj["apiVersion"], obj["kind"], obj["metadata"]["name"]
        if version not in kinds:
            kinds[version] = _kinds(client, version)
        if kind not in kinds[version]:
            raise ClusterError(f"manifests: {kind} {name}: the cluster has no kind {kind} of {version}")
        resource, namespaced = kinds[version][kind]
        body = copy.deepcopy(dict(obj))
        metadata = body["metadata"]
        metadata["labels"] = {**(metadata.get("labels") or {}), DRIVER_LABEL: run}
        metadata["annotations"] = {**(metadata.get("annotations") or {}), OWNER_ANNOTATION: owner}
        namespace = metadata.get("namespace", "default") if namespaced else None
        try:
            client.create(version, resource, body, namespace)
        except ClientError as error:
            if error.reason == "AlreadyExists":
                raise ClusterError(
                    f'manifests: {kind} {name} exists already, and is not of this run; say "installed: true" in the '
                    "descriptor if the driver is installed"
                ) from None
            raise ClusterError(f"manifests: {kind} {name}: {error.message}") from None


def _kinds(client: Client, version: str) -> dict[str, tuple[str, bool]]:
    """Resource, and whether it has namespaces, by kind."""
    path = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    try:
        entries = client.request("GET", path).get("resources") or []
    except ClientError as error:
        if error.code == 404:
            return {}
        raise
    return {
        entry["kind"]: (entry["name"], bool(entry["namespaced"]))
        for entry in entries
        if "/" not in entry["name"]
    }
