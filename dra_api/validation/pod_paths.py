"""Paths in pods: where the files of volumes are, and parts of volumes that are mounted.

None may lead out of its folder. Source: kubernetes v1.37.2 `pkg/apis/core/validation`, `validateVolumeSource` and
`ValidateVolumeMounts`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from .findings import Findings

Object = Mapping[str, Any]

_RELATIVE: Final = "must be a relative path"
NO_BACKSTEPS: Final = "must not contain '..'"
_NOT_RESERVED: Final = "must not start with '..'"
_EXCLUSIVE: Final = "subPathExpr and subPath are mutually exclusive"


def backsteps(path: str) -> list[str]:
    """What is wrong with a path that may not go up."""
    return [NO_BACKSTEPS] if ".." in path.split("/") else []


def _descending(path: str) -> list[str]:
    return [*([_RELATIVE] if path.startswith("/") else []), *backsteps(path)]


def _not_reserved(path: str) -> list[str]:
    """Names that begin with two dots are the kubelet's."""
    reserved = path.startswith("..") and not path.startswith("../")
    return [*_descending(path), *([_NOT_RESERVED] if reserved else [])]


def check_volume_paths(found: Findings, volume: Object, path: str) -> None:
    """The paths of a volume's source."""
    if (host := volume.get("hostPath")) is not None:
        place = host.get("path") or ""
        if place:
            found.invalid_each(f"{path}.hostPath.path", place, backsteps(place))
        else:
            found.required(f"{path}.hostPath.path")
    for where, item in _items(volume, path):
        _check_file(found, item, where)
    if (projected := volume.get("projected")) is not None:
        _check_projected(found, projected, f"{path}.projected")


def _items(source: Object, path: str) -> Iterator[tuple[str, Object]]:
    """The files that a volume or a projection names, and where errors about them are reported."""
    for kind in ("secret", "configMap"):
        for index, item in enumerate((source.get(kind) or {}).get("items") or []):
            yield f"{path}.{kind}.items[{index}]", item
    for item in (source.get("downwardAPI") or {}).get("items") or []:
        # The server does not say which.
        yield f"{path}.downwardAPI", {"key": "of another kind", **item}


def _check_file(found: Findings, item: Object, path: str) -> None:
    if not item.get("key"):
        found.required(f"{path}.key")
    place = item.get("path") or ""
    if not place:
        found.required(f"{path}.path")
    found.invalid_each(f"{path}.path", place, _not_reserved(place))


def _check_projected(found: Findings, projected: Object, path: str) -> None:
    for index, source in enumerate(projected.get("sources") or []):
        for where, item in _items(source, f"{path}.sources[{index}]"):
            _check_file(found, item, where)
        if (token := source.get("serviceAccountToken")) is not None:
            # As the server does: without the source.
            if place := token.get("path") or "":
                found.invalid_each(f"{path}.path", place, _not_reserved(place))
            else:
                found.required(f"{path}.path")
        if (bundle := source.get("clusterTrustBundle")) is not None:
            where, place = f"{path}.sources[{index}].clusterTrustBundle.path", bundle.get("path") or ""
            if not place:
                found.required(where)
            found.invalid_each(where, place, _not_reserved(place))


def check_sub_paths(found: Findings, mount: Object, index: int, path: str) -> None:
    """The parts of a volume that a mount at `path` (a list) is limited to; the server reports some without index."""
    part, expression = mount.get("subPath") or "", mount.get("subPathExpr") or ""
    found.invalid_each(f"{path}.subPath", part, _descending(part))
    if part and expression:
        found.invalid(f"{path}[{index}].subPathExpr", expression, _EXCLUSIVE)
    found.invalid_each(f"{path}.subPathExpr", expression, _descending(expression))
