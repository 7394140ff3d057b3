"""ControllerRevisions: the history of the templates of DaemonSets and StatefulSets."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any, Final

from clusters.embedded.components.client import Object
from clusters.embedded.controllers.pods import controller_ref, created_at, labels_of
from clusters.embedded.controllers.template_hash import canonical, fnv32, safe_encode

APPS: Final = "apps/v1"
HASH_LABEL: Final = "controller-revision-hash"
"""Of Pods, and of the revisions of DaemonSets."""

STATEFUL_LABEL: Final = "controller.kubernetes.io/hash"
"""Of the revisions of StatefulSets."""

_PREFIX_LIMIT: Final = 223


def template_patch(owner: Mapping[str, Any]) -> Object:
    """A strategic merge patch that brings the owner's template back; the data of a revision."""
    return {"spec": {"template": {**copy.deepcopy(owner["spec"]["template"]), "$patch": "replace"}}}


def same_data(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two revisions, or patches under `data`, hold the same template."""
    return canonical(one.get("data")) == canonical(other.get("data"))


def new_revision(
    owner: Mapping[str, Any],
    number: int,
    collisions: int | None,
    *,
    annotations: Mapping[str, str] | None = None,
    label: str = HASH_LABEL,
) -> Object:
    """A revision of the owner's template as it is now; `collisions` changes the name and the value of the label."""
    data = template_patch(owner)
    text = canonical(data) + ("" if collisions is None else str(collisions))
    digest = safe_encode(str(fnv32(text.encode())))
    metadata = owner["metadata"]
    return {
        "apiVersion": APPS,
        "kind": "ControllerRevision",
        "metadata": {
            "name": f"{metadata['name'][:_PREFIX_LIMIT]}-{digest}",
            "namespace": metadata["namespace"],
            "labels": {**labels_of(owner["spec"]["template"]), label: digest},
            **({"annotations": dict(annotations)} if annotations else {}),
            "ownerReferences": [controller_ref(owner)],
        },
        "data": data,
        "revision": number,
    }


def by_number(revisions: Iterable[Object]) -> list[Object]:
    """Lowest number first, then oldest, then by name."""
    return sorted(revisions, key=lambda one: (one["revision"], created_at(one), one["metadata"]["name"]))


def highest(revisions: Iterable[Object]) -> int:
    """The highest number; 0 without revisions."""
    return max((int(one["revision"]) for one in revisions), default=0)
