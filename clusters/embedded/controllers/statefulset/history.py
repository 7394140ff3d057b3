"""The revisions of one StatefulSet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from clusters.client import ClientError
from clusters.embedded.components.client import ApiClient, Object
from clusters.embedded.controllers.pods import annotations_of
from clusters.embedded.controllers.revisions import (
    APPS,
    STATEFUL_LABEL,
    by_number,
    highest,
    new_revision,
    same_data,
)
from clusters.embedded.controllers.statefulset.identity import revision_of

_REVISIONS = "controllerrevisions"


async def current_and_update(
    client: ApiClient, found: Object, known: Sequence[Object], written: Callable[[Object], None]
) -> tuple[Object, Object, int]:
    """The revision that Pods are at, the one that they are to be at, and the number of name collisions.

    `known` are the set's revisions; the one of its template is made when it is missing, or gets the highest number.
    """
    status = found.get("status") or {}
    collisions = int(status.get("collisionCount") or 0)
    number = highest(known) + 1
    ordered = by_number(known)
    wanted = new_revision(found, number, collisions, annotations=annotations_of(found), label=STATEFUL_LABEL)
    equal = [one for one in ordered if same_data(one, wanted)]
    if equal and equal[-1] is ordered[-1]:
        update = equal[-1]
    elif equal:
        update = await client.update(APPS, _REVISIONS, {**equal[-1], "revision": number})
        written(update)
    else:
        update, collisions = await _create(client, found, number, collisions)
        written(update)
    name = status.get("currentRevision")
    current = next((one for one in ordered if one["metadata"]["name"] == name), update)
    return current, update, collisions


async def _create(client: ApiClient, found: Object, number: int, collisions: int) -> tuple[Object, int]:
    while True:
        new = new_revision(found, number, collisions, annotations=annotations_of(found), label=STATEFUL_LABEL)
        name, namespace = new["metadata"]["name"], new["metadata"]["namespace"]
        try:
            return await client.create(APPS, _REVISIONS, new, namespace), collisions
        except ClientError as error:
            if error.code != 409:
                raise
            existing = await client.get(APPS, _REVISIONS, name, namespace)
            if same_data(existing, new):
                return existing, collisions
            collisions += 1


async def clean_up(
    client: ApiClient, found: Object, known: Sequence[Object], live: Iterable[str], pods: Iterable[Object]
) -> None:
    """Delete the oldest revisions beyond the limit; `live` are names of revisions in use besides those of the Pods."""
    used = {*live, *(revision_of(pod) for pod in pods)}
    unused = [one for one in by_number(known) if one["metadata"]["name"] not in used]
    limit = int(found["spec"]["revisionHistoryLimit"])
    if limit < 0:
        return
    for one in unused[: max(len(unused) - limit, 0)]:
        await client.delete(APPS, _REVISIONS, one["metadata"]["name"], one["metadata"]["namespace"])
