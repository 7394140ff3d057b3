"""The revisions of one DaemonSet."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence

from clusters.client import ClientError
from clusters.embedded.components.client import ApiClient, Object
from clusters.embedded.controllers.claiming import claim
from clusters.embedded.controllers.controller import SyncError
from clusters.embedded.controllers.pods import annotations_of, labels_of
from clusters.embedded.controllers.revisions import (
    APPS,
    HASH_LABEL,
    by_number,
    highest,
    new_revision,
    same_data,
    template_patch,
)

_REVISIONS = "controllerrevisions"


async def current_and_old(
    client: ApiClient, daemon_set: Object, known: Sequence[Object], pods: Iterable[Object]
) -> tuple[Object, list[Object]]:
    """The revision of the current template, made when it is missing, and all others.

    `known` are revisions of the DaemonSet and without controller; `pods` its Pods, which are relabelled when several
    revisions hold one template.
    """
    claimed = await claim(
        client, daemon_set, ("daemonsets", APPS, _REVISIONS), known, daemon_set["spec"]["selector"]
    )
    labelled = [await _with_label(client, one) for one in claimed]
    wanted = {"data": template_patch(daemon_set)}
    current = [one for one in labelled if same_data(one, wanted)]
    old = [one for one in labelled if not same_data(one, wanted)]
    number = highest(old) + 1
    if not current:
        return await _create(client, daemon_set, number), old
    kept = by_number(current)[-1]
    if len(current) > 1:
        await _merge(client, kept, current, pods)
    if kept["revision"] < number:
        kept = await client.update(APPS, _REVISIONS, {**kept, "revision": number})
    return kept, old


async def _with_label(client: ApiClient, one: Object) -> Object:
    if HASH_LABEL in labels_of(one):
        return one
    changed = copy.deepcopy(one)
    changed["metadata"]["labels"] = {**labels_of(one), HASH_LABEL: one["metadata"]["name"]}
    return await client.update(APPS, _REVISIONS, changed)


async def _create(client: ApiClient, daemon_set: Object, number: int) -> Object:
    collisions = (daemon_set.get("status") or {}).get("collisionCount")
    new = new_revision(daemon_set, number, collisions, annotations=annotations_of(daemon_set))
    name, namespace = new["metadata"]["name"], new["metadata"]["namespace"]
    try:
        return await client.create(APPS, _REVISIONS, new, namespace)
    except ClientError as error:
        if error.code != 409:
            raise
        found = await client.get(APPS, _REVISIONS, name, namespace)
        if same_data(found, new):
            return found
        fresh = await client.get(APPS, "daemonsets", daemon_set["metadata"]["name"], namespace)
        status = fresh.get("status") or {}
        if status.get("collisionCount") != collisions:
            raise SyncError(
                f'found a stale collision count of DaemonSet "{daemon_set["metadata"]["name"]}" while '
                "processing; will retry until it is updated"
            ) from None
        fresh["status"] = {**status, "collisionCount": (collisions or 0) + 1}
        await client.update(APPS, "daemonsets", fresh, "status")
        raise


async def _merge(client: ApiClient, kept: Object, same: Iterable[Object], pods: Iterable[Object]) -> None:
    """Keep one of several revisions with the same template."""
    digest = labels_of(kept)[HASH_LABEL]
    for pod in pods:
        if labels_of(pod).get(HASH_LABEL) != digest:
            metadata = pod["metadata"]
            patch = {"metadata": {"labels": {HASH_LABEL: digest}}}
            await client.patch("v1", "pods", metadata["name"], patch, metadata["namespace"])
    for one in same:
        metadata = one["metadata"]
        if metadata["name"] != kept["metadata"]["name"]:
            await client.delete(APPS, _REVISIONS, metadata["name"], metadata["namespace"])


async def clean_up(
    client: ApiClient, daemon_set: Object, old: Sequence[Object], pods: Iterable[Object]
) -> None:
    """Delete the oldest revisions beyond the limit that no Pod has."""
    surplus = len(old) - int(daemon_set["spec"]["revisionHistoryLimit"])
    used = {labels_of(pod).get(HASH_LABEL) for pod in pods}
    unused = [one for one in by_number(old) if labels_of(one).get(HASH_LABEL) not in used]
    for one in unused[: max(surplus, 0)]:
        await client.delete(APPS, _REVISIONS, one["metadata"]["name"], one["metadata"]["namespace"])
