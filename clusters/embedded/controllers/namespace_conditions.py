"""Conditions of a namespace that is being deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from clusters.embedded.components.client import Object

# Type, reason and message of each condition while there is nothing to tell, in upstream's order.
_FINE: Final = (
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    ("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
)


def problems(
    errors: Sequence[str], remaining: Mapping[str, int], finalizers: Mapping[str, int]
) -> dict[str, tuple[str, str]]:
    """Reason and message by condition type of what is wrong.

    `errors` are texts of failed deletions, `remaining` counts objects by RESOURCE.GROUP, `finalizers` by finalizer.
    """
    found: dict[str, tuple[str, str]] = {}
    if errors:
        text = f"Failed to delete all resource types, {len(errors)} remaining: {', '.join(sorted(errors))}"
        found["NamespaceDeletionContentFailure"] = ("ContentDeletionFailed", text)
    if remaining:
        parts = sorted(f"{name} has {count} resource instances" for name, count in remaining.items())
        text = f"Some resources are remaining: {', '.join(parts)}"
        found["NamespaceContentRemaining"] = ("SomeResourcesRemain", text)
    if finalizers:
        parts = sorted(f"{name} in {count} resource instances" for name, count in finalizers.items())
        text = f"Some content in the namespace has finalizers remaining: {', '.join(parts)}"
        found["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", text)
    return found


def merged(
    conditions: Sequence[Object], wrong: Mapping[str, tuple[str, str]], now: str
) -> list[Object] | None:
    """The conditions with those of the deletion brought up to date at `now`; None when nothing changes."""
    result = [dict(condition) for condition in conditions]
    known = {condition["type"]: condition for condition in result}
    changed = False
    for kind, reason, message in _FINE:
        status = "True" if kind in wrong else "False"
        reason, message = wrong.get(kind, (reason, message))
        new: dict[str, Any] = {"status": status, "reason": reason, "message": message}
        condition = known.get(kind)
        if condition is None:
            result.append({"type": kind, "lastTransitionTime": now, **new})
            changed = True
        elif any(condition.get(key) != value for key, value in new.items()):
            if condition.get("status") != status:
                condition["lastTransitionTime"] = now
            condition.update(new)
            changed = True
    return result if changed else None
