"""The strategic merge patch that turns one Pod status into another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from clusters.embedded.kubelet.pods.objects import Object

_MERGED_LISTS: Final[Mapping[str, str]] = {
    "conditions": "type",
    "podIPs": "ip",
    "hostIPs": "ip",
    "resourceClaimStatuses": "name",
}
_REPLACED: Final = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


def status_patch(uid: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Object | None:
    """The patch of a Pod with this UID, or None when nothing changed."""
    changes = _map_changes(old, new, lists=_MERGED_LISTS)
    if not changes:
        return None
    return {"metadata": {"uid": uid}, "status": changes}


def _map_changes(old: Mapping[str, Any], new: Mapping[str, Any], lists: Mapping[str, str]) -> Object:
    changes: Object = {}
    for key in sorted({*old, *new}):
        before, after = old.get(key), new.get(key)
        if before == after:
            continue
        if key in lists:
            changes |= _list_changes(key, lists[key], before or [], after or [])
        elif isinstance(before, Mapping) and isinstance(after, Mapping):
            if nested := _map_changes(before, after, {}):
                changes[key] = nested
        else:
            changes[key] = after
    return changes


def _list_changes(field: str, key: str, before: list[Object], after: list[Object]) -> Object:
    known = {item[key]: item for item in before}
    wanted = {item[key]: item for item in after}
    changed: list[Object] = []
    for name, item in wanted.items():
        if name not in known:
            changed.append(item)
        elif difference := _map_changes(known[name], item, {}):
            changed.append({**difference, key: name})
    changed += [{"$patch": "delete", key: name} for name in known if name not in wanted]
    result: Object = {}
    if changed:
        result[field] = changed
    if changed or [item[key] for item in before] != [item[key] for item in after]:
        result[f"$setElementOrder/{field}"] = [{key: item[key]} for item in after]
    return result
