"""What a Deployment and its ReplicaSets say, and the arithmetic of a rollout. No input or output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from clusters.embedded.components.client import Object
from clusters.embedded.controllers.numbers import scaled
from clusters.embedded.controllers.pods import annotations_of, created_at, labels_of
from clusters.embedded.controllers.template_hash import canonical

REVISION: Final = "deployment.kubernetes.io/revision"
REVISION_HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS: Final = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS: Final = "deployment.kubernetes.io/max-replicas"
ROLLBACK_TO: Final = "deprecated.deployment.rollback.to"
HASH_LABEL: Final = "pod-template-hash"
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
NOT_COPIED: Final = (_LAST_APPLIED, REVISION, REVISION_HISTORY, DESIRED_REPLICAS, MAX_REPLICAS, ROLLBACK_TO)
"""Annotations that are not copied between a Deployment and its ReplicaSets."""

_HISTORY_CHARACTERS: Final = 2000
_MAX_INT32: Final = 2**31 - 1


def replicas_of(obj: Mapping[str, Any]) -> int:
    """`spec.replicas`."""
    return int(obj["spec"].get("replicas", 1))


def count(sets: Iterable[Object], field: str) -> int:
    """The sum of a number of the sets' statuses."""
    return sum(int((one.get("status") or {}).get(field, 0)) for one in sets)


def wanted(sets: Iterable[Object]) -> int:
    """The sum of `spec.replicas`."""
    return sum(map(replicas_of, sets))


def with_pods(sets: Iterable[Object]) -> list[Object]:
    """The sets that ought to have Pods."""
    return [one for one in sets if replicas_of(one) > 0]


def by_age(sets: Iterable[Object]) -> list[Object]:
    """Oldest first, then by name."""
    return sorted(sets, key=_age)


def _age(obj: Object) -> tuple[float, str]:
    return created_at(obj), str(obj["metadata"]["name"])


def is_rolling(deployment: Mapping[str, Any]) -> bool:
    """Whether the strategy is RollingUpdate."""
    return bool(deployment["spec"]["strategy"]["type"] == "RollingUpdate")


def _fence_posts(deployment: Mapping[str, Any]) -> tuple[int, int]:
    """How many Pods may be too many and too few; never both zero."""
    rolling = deployment["spec"]["strategy"].get("rollingUpdate") or {}
    replicas = replicas_of(deployment)
    surge = scaled(rolling.get("maxSurge"), replicas, up=True)
    unavailable = scaled(rolling.get("maxUnavailable"), replicas, up=False)
    return surge, unavailable if surge or unavailable else 1


def max_surge(deployment: Mapping[str, Any]) -> int:
    """How many Pods more than wanted may exist."""
    return _fence_posts(deployment)[0] if is_rolling(deployment) else 0


def max_unavailable(deployment: Mapping[str, Any]) -> int:
    """How many of the wanted Pods may be unavailable."""
    replicas = replicas_of(deployment)
    if not is_rolling(deployment) or not replicas:
        return 0
    return min(_fence_posts(deployment)[1], replicas)


def new_set_replicas(deployment: Mapping[str, Any], sets: Sequence[Object], current: int) -> int:
    """How many Pods the newest set, which has `current`, may have now; `sets` are all sets."""
    replicas = replicas_of(deployment)
    if not is_rolling(deployment):
        return replicas
    limit = replicas + scaled(
        deployment["spec"]["strategy"]["rollingUpdate"].get("maxSurge"), replicas, up=True
    )
    total = wanted(sets)
    if total >= limit:
        return current
    return current + min(limit - total, replicas - current)


def same_template(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two templates differ in nothing but the hash label."""
    return canonical(_without_hash(one)) == canonical(_without_hash(other))


def _without_hash(template: Mapping[str, Any]) -> Object:
    labels = {key: value for key, value in labels_of(template).items() if key != HASH_LABEL}
    return {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}}


def split_sets(deployment: Mapping[str, Any], sets: Iterable[Object]) -> tuple[Object | None, list[Object]]:
    """The set of the Deployment's template, the oldest if there are several, and all others; oldest first."""
    ordered = by_age(sets)
    template = deployment["spec"]["template"]
    for position, one in enumerate(ordered):
        if same_template(one["spec"]["template"], template):
            return one, ordered[:position] + ordered[position + 1 :]
    return None, ordered


def revision_of(obj: Mapping[str, Any]) -> int | None:
    """The revision in the annotations: 0 when there is none, None when it is no number."""
    try:
        return int(annotations_of(obj).get(REVISION, "0"))
    except ValueError:
        return None


def max_revision(sets: Iterable[Object]) -> int:
    """The highest revision."""
    return max((revision_of(one) or 0 for one in sets), default=0)


def last_revision(sets: Iterable[Object]) -> int:
    """The revision before the highest; 0 when there is none."""
    revisions = sorted((revision_of(one) or 0 for one in sets), reverse=True)
    return revisions[1] if len(revisions) > 1 else 0


def by_revision(sets: Iterable[Object]) -> list[Object]:
    """Lowest revision first."""
    return sorted(sets, key=lambda one: (revision_of(one) or 0, *_age(one)))


def copied_annotations(deployment: Mapping[str, Any]) -> dict[str, str]:
    """What a ReplicaSet gets of the Deployment's annotations."""
    return {key: value for key, value in annotations_of(deployment).items() if key not in NOT_COPIED}


def size_annotations(deployment: Mapping[str, Any]) -> dict[str, str]:
    """The annotations by which a later change of the size is noticed and distributed."""
    replicas = replicas_of(deployment)
    return {DESIRED_REPLICAS: str(replicas), MAX_REPLICAS: str(replicas + max_surge(deployment))}


def set_annotations(
    deployment: Mapping[str, Any], annotations: Mapping[str, str], revision: int, *, exists: bool
) -> dict[str, str]:
    """The annotations of the newest set, which has `annotations` now and becomes at least `revision`."""
    result = {**annotations, **copied_annotations(deployment)}
    try:
        old = int(annotations.get(REVISION) or 0)
    except ValueError:
        return result
    if old < revision:
        result[REVISION] = str(revision)
        if REVISION in annotations:
            result[REVISION_HISTORY] = _history(annotations.get(REVISION_HISTORY, ""), annotations[REVISION])
    if not exists:
        result.update(size_annotations(deployment))
    return result


def _history(known: str, revision: str) -> str:
    """Earlier revisions with one more; the first are forgotten when the text gets too long."""
    revisions = known.split(",") if known else []
    while revisions and len(",".join([*revisions, revision])) > _HISTORY_CHARACTERS:
        revisions.pop(0)
    return ",".join([*revisions, revision])


def has_deadline(deployment: Mapping[str, Any]) -> bool:
    """Whether progress is watched."""
    seconds = deployment["spec"].get("progressDeadlineSeconds")
    return seconds is not None and seconds != _MAX_INT32


def has_history_limit(deployment: Mapping[str, Any]) -> bool:
    """Whether old sets are removed."""
    limit = deployment["spec"].get("revisionHistoryLimit")
    return limit is not None and limit != _MAX_INT32


def desired_replicas(one: Object) -> int | None:
    """The Deployment's size when the set was scaled last; None when that is not known."""
    return _annotated_number(one, DESIRED_REPLICAS)


def _annotated_number(one: Object, annotation: str) -> int | None:
    text = annotations_of(one).get(annotation, "")
    if not text.isdecimal():
        return None
    value = int(text)
    return value if value <= _MAX_INT32 else None


def is_saturated(deployment: Mapping[str, Any], newest: Object | None) -> bool:
    """Whether the newest set has all Pods of the Deployment, available."""
    replicas = replicas_of(deployment)
    return (
        newest is not None
        and replicas_of(newest) == replicas
        and desired_replicas(newest) == replicas
        and count([newest], "availableReplicas") == replicas
    )


def proportional_sizes(deployment: Mapping[str, Any], sets: Sequence[Object]) -> list[tuple[Object, int]]:
    """New sizes of the sets that have Pods, when the Deployment's size changed in the middle of a rollout.

    What is to be added or removed is distributed by the sets' sizes; the largest gets what rounding left over.
    Among equals newer sets grow first and older ones shrink first.
    """
    replicas = replicas_of(deployment)
    allowed = replicas + max_surge(deployment) if replicas > 0 else 0
    to_add = allowed - wanted(sets)
    ordered = by_age(sets)
    if to_add > 0:
        ordered.reverse()
    if to_add:
        ordered.sort(key=replicas_of, reverse=True)
    added = 0
    sizes: list[int] = []
    for one in ordered:
        share = 0
        if to_add and to_add != added:
            fraction = _fraction(deployment, one)
            share = min(fraction, to_add - added) if to_add > 0 else max(fraction, to_add - added)
        added += share
        sizes.append(replicas_of(one) + share)
    if to_add and sizes:
        sizes[0] = max(sizes[0] + to_add - added, 0)
    return list(zip(ordered, sizes, strict=True))


def _fraction(deployment: Mapping[str, Any], one: Object) -> int:
    """By how many Pods a set would change if it kept its share of the Deployment."""
    replicas, size = replicas_of(deployment), replicas_of(one)
    if replicas == 0:
        return -size
    before = _annotated_number(one, MAX_REPLICAS)
    if not before:
        before = int((deployment.get("status") or {}).get("replicas", 0))
    if not before:
        return 0
    new = size * (replicas + max_surge(deployment)) / before
    # Halves are rounded away from zero; sizes are never negative.
    return int(new + 0.5) - size


def active_or_latest(newest: Object | None, old: Sequence[Object]) -> Object | None:
    """The only set with Pods, or, when none has any, the newest; None when several have Pods or there is no set."""
    everyone = [*old, *([newest] if newest is not None else [])]
    active = with_pods(everyone)
    if len(active) == 1:
        return active[0]
    if active:
        return None
    return newest if newest is not None else (by_age(old)[-1] if old else None)
