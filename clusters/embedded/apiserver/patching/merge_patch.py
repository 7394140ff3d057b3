"""JSON merge patch, RFC 7386, as a Kubernetes API server applies it (api-machinery section 8)."""

from __future__ import annotations

from typing import Any

from clusters.embedded.apiserver.copying import copied
from clusters.embedded.apiserver.patching.errors import bad_patch
from clusters.embedded.apiserver.patching.json_patch import json_type


def merge_patch(obj: dict[str, Any], patch: Any) -> dict[str, Any]:
    """The object with the patch merged in; null removes, lists are replaced whole; inputs stay as they are.

    Raises PatchError (400) unless the patch is an object.
    """
    if patch is None:
        raise bad_patch("Invalid JSON Patch")
    if not isinstance(patch, dict):
        target = "map[string]interface {}"
        raise bad_patch(
            f"error decoding patch: json: cannot unmarshal {json_type(patch)} into Go value of type {target}"
        )
    return _merge(copied(obj), patch)


def _merge(target: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(target.get(key), dict):
            # Over a map, anything but a map is taken as it is, nulls included.
            target[key] = _merge(target[key], value) if isinstance(value, dict) else copied(value)
        else:
            target[key] = _without_nulls(value)
    return target


def _without_nulls(value: Any) -> Any:
    """A copy without null map entries at any depth; nulls that are list items stay."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
