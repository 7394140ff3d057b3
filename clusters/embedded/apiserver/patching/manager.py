"""Field management: managedFields of every write, and server-side apply (api-machinery section 8)."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

from clusters.embedded.apiserver.patching.entries import Entry, EntryError, Identity, Managed, read, write
from clusters.embedded.apiserver.patching.errors import PatchError, apply_conflict, bad_patch, failed
from clusters.embedded.apiserver.patching.fields import FieldSet
from clusters.embedded.apiserver.patching.ownership import Conflicts, Convert, ConvertedError, Ownership
from clusters.embedded.apiserver.patching.typed import TypedError, check, compare, to_set
from dra_api.decode import as_json, decode_object
from dra_api.schema import GVK

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
MAX_UPDATE_ENTRIES: Final = 10
"""Entries of operation Update; the oldest above that are merged into one."""

_ANCIENT: Final = "ancient-changes"
_BEFORE_FIRST_APPLY: Final = "before-first-apply"
_MAX_ANNOTATIONS: Final = 256 * 1024
_STRIPPED: Final = FieldSet.of_fields(
    "apiVersion",
    "kind",
    "metadata",
    "metadata.name",
    "metadata.namespace",
    "metadata.creationTimestamp",
    "metadata.selfLink",
    "metadata.uid",
    "metadata.clusterName",
    "metadata.generation",
    "metadata.managedFields",
    "metadata.resourceVersion",
)
_NOTHING: Final = FieldSet()


def update_fields(
    live: dict[str, Any] | None,
    new: dict[str, Any],
    *,
    gvk: GVK,
    manager: str,
    now: datetime,
    subresource: str = "",
    reset: FieldSet = _NOTHING,
    convert: Convert | None = None,
    dry_run: bool = False,
) -> dict[str, Any]:
    """The new object with the managedFields that a create, update or patch (no apply) leaves.

    Objects are in canonical form (dra_api.decode) and in the version of `gvk`. `live` is the stored one, None or
    without a uid for a create. `new` is the one to store, after defaulting; its managedFields may replace the
    stored ones, an empty list wipes them. Never fails: what cannot be computed leaves the stored entries, as on a
    real server.
    """
    before = live or {}
    managed = _starting_entries(before, new, is_subresource=bool(subresource))
    bare = _without_entries(new)
    if not managed and _metadata(before).get("uid"):
        # An object without entries is not tracked until its first apply.
        return bare
    writer = Identity(manager or "unknown", "Update", gvk.api_version, subresource)
    rules = Ownership(gvk, convert or no_conversion, reset, dry_run)
    try:
        managed = _update(
            rules, _typed(before, gvk, stored=True), _typed(bare, gvk), managed, writer, _text(now)
        )
    except (TypedError, LookupError):
        stored = _metadata(before).get("managedFields")
        return _with_field(bare, "managedFields", stored) if stored else bare
    return _with_entries(bare, managed)


def apply(
    live: dict[str, Any] | None,
    config: dict[str, Any],
    *,
    gvk: GVK,
    manager: str,
    now: datetime,
    force: bool = False,
    subresource: str = "",
    reset: FieldSet = _NOTHING,
    convert: Convert | None = None,
    dry_run: bool = False,
) -> dict[str, Any]:
    """The object after a server-side apply, with its managedFields, not yet decoded or defaulted.

    `live` is the stored object in canonical form and in the version of `gvk`, None or without a uid when the
    apply creates. Raises PatchError: 400 for a wrong kind or managedFields in the configuration, 409 with the
    conflicts, 500 when the configuration or the live object does not fit the schema, such as a list item without
    its key.
    """
    _check_kind(config, gvk)
    before = live or {}
    try:
        managed = read(_metadata(before).get("managedFields"))
    except EntryError as error:
        raise failed(f"failed to decode managed fields: {error}") from error
    rules = Ownership(gvk, convert or no_conversion, reset, dry_run)
    typed_live = _typed(before, gvk, stored=True)
    if not managed:
        text = (
            "failed to create manager for existing fields: failed to convert new object ({}) to smd typed: {}"
        )
        _check_fits(typed_live, gvk, rules, text, allow_duplicates=True)
        first = Identity(_BEFORE_FIRST_APPLY, "Update", gvk.api_version, subresource)
        managed = _update(rules, _typed({}, gvk), typed_live, {}, first, _text(now))
    _check_config(config, gvk, rules)
    text = "failed to create typed live object ({}): {}"
    _check_fits(typed_live, gvk, rules, text, allow_duplicates=True)
    writer = Identity(manager or "unknown", "Apply", "", subresource)
    try:
        result, managed = _apply_as(rules, typed_live, config, managed, writer, force=force)
    except ConvertedError as error:
        raise failed(str(error)) from error
    except TypedError as error:
        raise failed(f"failed to merge config: {error}") from error
    except Conflicts as conflicts:
        raise _conflict_error(conflicts) from conflicts
    managed = _stripped(managed, writer)
    if result is None:
        result = _without_entries(before)
    elif writer in managed:
        managed[writer] = replace(managed[writer], time=_text(now))
    if manager == "kubectl":
        result = _sync_last_applied(result, config)
    return _with_entries(result, managed)


def restore_times(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The new object, with the old managedFields when times in them are all that differs.

    A write whose result equals the stored object after this is no write.
    """
    mine, theirs = _metadata(new).get("managedFields"), _metadata(old).get("managedFields")
    if not mine or not theirs or len(mine) != len(theirs):
        return new
    if [_without_time(entry) for entry in mine] != [_without_time(entry) for entry in theirs]:
        return new
    ignored = ("managedFields", "resourceVersion")
    bare = [
        {**obj, "metadata": {k: v for k, v in _metadata(obj).items() if k not in ignored}}
        for obj in (old, new)
    ]
    return _with_field(new, "managedFields", theirs) if bare[0] == bare[1] else new


def no_conversion(obj: dict[str, Any], api_version: str) -> dict[str, Any]:
    """A converter for kinds with one version."""
    if obj.get("apiVersion") == api_version:
        return obj
    raise LookupError(f"no version {api_version} of {obj.get('kind')}")


def _without_time(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != "time"}


def _text(now: datetime) -> str:
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _metadata(obj: dict[str, Any]) -> dict[str, Any]:
    found = obj.get("metadata")
    return found if isinstance(found, dict) else {}


def _without_entries(obj: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in _metadata(obj).items() if key != "managedFields"}
    return {**obj, "metadata": metadata}


def _with_field(obj: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    return {**obj, "metadata": {**_metadata(obj), name: value}}


def _with_entries(obj: dict[str, Any], managed: Managed) -> dict[str, Any]:
    return _with_field(obj, "managedFields", write(managed)) if managed else _without_entries(obj)


def _typed(obj: dict[str, Any], gvk: GVK, *, stored: bool = False) -> dict[str, Any]:
    """The object as ownership sees it: its JSON without managedFields; for no object what all of the kind have.

    A `stored` one holds no empty lists and maps that JSON would leave out.
    """
    if not obj:
        return _empty(gvk)
    typed = {"apiVersion": gvk.api_version, "kind": gvk.kind, **_without_entries(obj)}
    return typed if stored else as_json(typed)


@cache
def _empty(gvk: GVK) -> dict[str, Any]:
    # A container that is always serialised, however empty, is not added by the first write into it.
    return decode_object({"apiVersion": gvk.api_version, "kind": gvk.kind}, gvk).object


def _starting_entries(live: dict[str, Any], new: dict[str, Any], *, is_subresource: bool) -> Managed:
    """The entries to go on from: those sent, or the stored ones where none or unreadable ones were sent."""
    sent = _metadata(new).get("managedFields")
    stored = _metadata(live).get("managedFields")
    if not is_subresource and sent is not None and sent != stored:
        if not sent or (len(sent) == 1 and not sent[0]):
            return {}
        try:
            managed = read(sent)
        except EntryError:
            managed = {}
        if managed:
            return managed
    try:
        return read(stored)
    except EntryError:
        return {}


def _update(
    rules: Ownership,
    old: dict[str, Any],
    new: dict[str, Any],
    managed: Managed,
    writer: Identity,
    time: str,
) -> Managed:
    # The write is judged as somebody new's, so that what it removes leaves the writer's own entry too.
    current = Identity("", "Update")
    managed = _stripped(rules.update(old, new, managed, current), current)
    mine = managed.pop(current, None)
    if mine is not None:
        previous = managed.get(writer)
        owned = mine.owned.union(previous.owned) if previous else mine.owned
        managed[writer] = Entry(owned, mine.api_version, time)
    return _capped(managed)


def _stripped(managed: Managed, writer: Identity) -> Managed:
    """The writer's entry without the fields that nobody owns."""
    if writer not in managed:
        return managed
    owned = managed[writer].owned.difference(_STRIPPED)
    result = {identity: entry for identity, entry in managed.items() if identity != writer}
    if owned:
        result[writer] = managed[writer].owning(owned)
    return result


def _capped(managed: Managed) -> Managed:
    """At most MAX_UPDATE_ENTRIES entries of operation Update: the oldest of each version become one."""
    updates = [identity for identity in managed if identity.operation == "Update"]
    excess = len(updates) - MAX_UPDATE_ENTRIES
    if excess <= 0:
        return managed
    result = dict(managed)
    first_of: dict[str, Identity] = {}
    for identity in sorted(updates, key=lambda one: (managed[one].time or "", one.text)):
        if excess <= 0:
            break
        entry = result[identity]
        bucket = Identity(_ANCIENT, "Update", entry.api_version)
        first = first_of.setdefault(entry.api_version, identity)
        if first == identity:
            continue
        if bucket not in result:
            result[bucket] = result.pop(first)
        merged = result[bucket].owned.union(entry.owned)
        if identity != bucket:
            del result[identity]
        result[bucket] = Entry(merged, entry.api_version, entry.time)
        excess -= 1
    return result


def _check_kind(config: dict[str, Any], gvk: GVK) -> None:
    api_version, kind = config.get("apiVersion"), config.get("kind")
    given = GVK.of(api_version if isinstance(api_version, str) else "", kind if isinstance(kind, str) else "")
    if given != gvk:
        raise bad_patch(f"invalid object type: {_kind_text(given)}")


def _kind_text(gvk: GVK) -> str:
    return f"{gvk.group}/{gvk.version}, Kind={gvk.kind}"


def _check_config(config: dict[str, Any], gvk: GVK, rules: Ownership) -> None:
    if isinstance(_metadata(config).get("managedFields"), list):
        raise bad_patch("metadata.managedFields must be nil")
    text = "failed to create typed patch object ({}): {}"
    _check_fits(config, gvk, rules, text, allow_duplicates=False)


def _check_fits(
    obj: dict[str, Any], gvk: GVK, rules: Ownership, text: str, *, allow_duplicates: bool
) -> None:
    """Raises PatchError 500 for an object that does not fit the schema; `text` takes the object and the problem."""
    try:
        check(obj, rules.shape, allow_duplicates=allow_duplicates)
    except TypedError as error:
        names = "/".join(str(_metadata(obj).get(key) or "") for key in ("namespace", "name"))
        raise failed(text.format(f"{names}; {_kind_text(gvk)}", error)) from error


def _apply_as(
    rules: Ownership,
    live: dict[str, Any],
    config: dict[str, Any],
    managed: Managed,
    writer: Identity,
    *,
    force: bool,
) -> tuple[dict[str, Any] | None, Managed]:
    """An apply; kubectl may overwrite what its client-side apply annotation shows to be its own."""
    try:
        return rules.apply(live, config, managed, writer, force=force)
    except Conflicts as conflicts:
        allowed = _client_side_fields(rules, live) if writer.manager == "kubectl" else None
        if allowed is None:
            raise
        left = [conflict for conflict in conflicts.found if not allowed.has(conflict.path)]
        if left:
            raise Conflicts(left) from None
    return rules.apply(live, config, managed, writer, force=True)


def _client_side_fields(rules: Ownership, live: dict[str, Any]) -> FieldSet | None:
    """The fields of the client-side apply annotation whose values still are the live ones."""
    text = (_metadata(live).get("annotations") or {}).get(LAST_APPLIED)
    if not text:
        return None
    try:
        applied = json.loads(text)
        if not isinstance(applied, dict) or applied.get("apiVersion") != rules.gvk.api_version:
            return None
        check(applied, rules.shape)
        change = compare(applied, live, rules.shape)
        owned = to_set(applied, rules.shape)
    except ValueError:
        return None
    return owned.difference(change.modified).difference(change.added).difference(change.removed)


def _conflict_error(conflicts: Conflicts) -> PatchError:
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {conflict.owner}",
            "field": conflict.field,
        }
        for conflict in conflicts.found
    ]
    if len(causes) == 1:
        only = conflicts.found[0]
        return apply_conflict(
            causes, f"Apply failed with 1 conflict: conflict with {only.owner}: {only.field}"
        )
    lines: list[str] = []
    owner: Identity | None = None
    for conflict in conflicts.found:
        if conflict.owner != owner:
            owner = conflict.owner
            lines.append(f"conflicts with {owner}:")
        lines.append(f"- {conflict.field}")
    return apply_conflict(causes, f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines))


def _sync_last_applied(result: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
    """Keeps the annotation of client-side apply in step with what kubectl applies on the server side."""
    annotations = _metadata(result).get("annotations") or {}
    if not annotations.get(LAST_APPLIED):
        return result
    applied = config
    own = _metadata(config).get("annotations")
    if isinstance(own, dict):
        applied = _with_field(config, "annotations", {k: v for k, v in own.items() if k != LAST_APPLIED})
    text = json.dumps(applied, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    for character in "&<>":
        text = text.replace(character, f"\\u{ord(character):04x}")
    synced = {**annotations, LAST_APPLIED: text + "\n"}
    if sum(len(k.encode()) + len(v.encode()) for k, v in synced.items()) > _MAX_ANNOTATIONS:
        del synced[LAST_APPLIED]
    return _with_field(result, "annotations", synced)
