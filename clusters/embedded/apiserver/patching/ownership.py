"""Who owns which fields after a write (api-machinery section 8, managedFields).

Ownership is computed on versioned objects without their managedFields. An entry written in another version of
the kind is judged in that version, for which the object is converted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from clusters.embedded.apiserver.patching.apply import merge, remove, with_named_fields
from clusters.embedded.apiserver.patching.entries import Entry, Identity, Managed
from clusters.embedded.apiserver.patching.fields import FieldSet, Path, path_text
from clusters.embedded.apiserver.patching.shapes import Shape, shape_of
from clusters.embedded.apiserver.patching.typed import Comparison, TypedError, check, compare, equal, to_set
from dra_api.conversion import ConversionError
from dra_api.decode import DecodeError, as_json, as_read, decode_object, is_respelled
from dra_api.schema import GVK, load

Convert: TypeAlias = Callable[[dict[str, Any], str], dict[str, Any]]
"""Converts an object to an apiVersion; raises ConversionError or LookupError for a version that is not served."""

_GONE: Final = (LookupError, ConversionError)


class Conflict(NamedTuple):
    """A field that another manager owns and this apply would change."""

    owner: Identity
    path: Path

    @property
    def field(self) -> str:
        """The path as a Status cause prints it."""
        return path_text(self.path)


class Conflicts(Exception):  # noqa: N818 - the outcome of an apply, named as the API names it
    """An apply without force that would change fields of others."""

    def __init__(self, found: Iterable[Conflict]) -> None:
        self.found = tuple(sorted(found, key=lambda conflict: conflict.owner.text))
        super().__init__(", ".join(conflict.field for conflict in self.found))


class ConvertedError(TypedError):
    """An object that does not fit its shape in another version than that of the request."""


def shape_for(gvk: GVK) -> Shape:
    """The shape of a kind. Raises LookupError for a kind without a schema."""
    message = load().kind(gvk)
    if message is None:
        raise LookupError(f"no corresponding type for {gvk}")
    return shape_of(message)


@dataclass(frozen=True)
class Ownership:
    """The rules for one kind, version and endpoint. `reset` are the fields that this endpoint cannot own.

    `dry_run`: the stored object was read only; else a server writes it once more, to see whether it changes.
    """

    gvk: GVK
    convert: Convert
    reset: FieldSet
    dry_run: bool = False

    @property
    def shape(self) -> Shape:
        """The shape of the kind in the version of the request."""
        return shape_for(self.gvk)

    def _shape_in(self, api_version: str) -> Shape:
        return shape_for(GVK.of(api_version, self.gvk.kind))

    def _converted(self, obj: dict[str, Any], api_version: str) -> dict[str, Any]:
        """The object in another version: on the way it loses nulls and empty lists, and gets what is always written.

        Raises ConvertedError for items that occur twice, which only the version of the request may hold.
        """
        if obj.get("apiVersion") == api_version:
            return obj
        gvk = GVK.of(obj.get("apiVersion", ""), obj.get("kind", ""))
        # What does not fit its kind is refused later, in the words of the decoder.
        with contextlib.suppress(DecodeError):
            obj = as_json(decode_object(obj, gvk).object)
        result = self.convert(obj, api_version)
        try:
            check(result, self._shape_in(api_version))
        except TypedError as error:
            raise ConvertedError(str(error)) from error
        return result

    def _settle(
        self, old: dict[str, Any], new: dict[str, Any], managed: Managed, writer: Identity, *, force: bool
    ) -> tuple[Managed, Comparison]:
        """Takes changed and removed fields from everybody but the writer. Raises Conflicts unless forced."""
        version = self.gvk.api_version
        seen = as_read(new) if self.dry_run and is_respelled(new) else new
        own = compare(old, seen, self.shape).without(self.reset)
        comparisons = {version: own}
        result: Managed = {}
        conflicts: list[Conflict] = []
        for owner, entry in managed.items():
            if owner == writer:
                result[owner] = entry
                continue
            if entry.api_version not in comparisons:
                try:
                    shape = self._shape_in(entry.api_version)
                    before, after = (self._converted(obj, entry.api_version) for obj in (old, new))
                    comparisons[entry.api_version] = compare(before, after, shape).without(self.reset)
                except _GONE:
                    # The version is gone, and what was owned in it with it.
                    continue
            change = comparisons[entry.api_version]
            lost = entry.owned.intersection(change.modified.union(change.added))
            conflicts += [Conflict(owner, path) for path in lost]
            result[owner] = entry.owning(entry.owned.difference(lost).difference(change.removed))
        if conflicts and not force:
            raise Conflicts(conflicts)
        return {owner: entry for owner, entry in result.items() if entry.owned}, own

    def update(self, old: dict[str, Any], new: dict[str, Any], managed: Managed, writer: Identity) -> Managed:
        """The entries after a write that is no apply."""
        result, change = self._settle(old, new, managed, writer, force=True)
        before = result[writer].owned if writer in result else FieldSet()
        owned = before.difference(change.removed).union(change.modified).union(change.added)
        owned = owned.without(self.reset)
        result.pop(writer, None)
        if owned:
            result[writer] = Entry(owned, self.gvk.api_version)
        return result

    def apply(
        self,
        live: dict[str, Any],
        config: dict[str, Any],
        managed: Managed,
        writer: Identity,
        *,
        force: bool,
    ) -> tuple[dict[str, Any] | None, Managed]:
        """The object and the entries after an apply; the object is None when it does not change.

        Raises Conflicts, and TypedError when the configuration cannot be merged.
        """
        last = managed.get(writer)
        merged = merge(live, config, self.shape)
        owned = to_set(config, self.shape).without(self.reset)
        managed = {**managed, writer: Entry(owned, self.gvk.api_version, last.time if last else None)}
        if last is not None and last.owned:
            merged = self._prune(merged, managed, last)
        managed, _ = self._settle(live, merged, managed, writer, force=force)
        return (None if equal(live, merged) else merged), managed

    def _prune(self, merged: dict[str, Any], managed: Managed, last: Entry) -> dict[str, Any]:
        """Removes what the writer owned last time and nobody owns now."""
        version = last.api_version
        try:
            whole = self._converted(merged, version)
            shape = self._shape_in(version)
        except _GONE:
            return merged
        pruned = _object(remove(whole, with_named_fields(last.owned, shape), shape))
        pruned = self._with_owned(whole, pruned, managed, version)
        kept = with_named_fields(to_set(pruned, shape), shape)
        everything = with_named_fields(to_set(whole, shape), shape)
        gone = everything.difference(kept).intersection(with_named_fields(last.owned, shape))
        return self._converted(_object(remove(whole, gone, shape)), self.gvk.api_version)

    def _with_owned(
        self, whole: dict[str, Any], pruned: dict[str, Any], managed: Managed, version: str
    ) -> dict[str, Any]:
        """Puts back what somebody owns, the writer's new configuration included."""
        by_version: dict[str, FieldSet] = {}
        for entry in managed.values():
            by_version[entry.api_version] = by_version.get(entry.api_version, FieldSet()).union(entry.owned)
        # The version of the pruned object first: other versions may need its fields to convert.
        for other in sorted(by_version, key=lambda name: name != version):
            try:
                whole, pruned = (self._converted(obj, other) for obj in (whole, pruned))
                shape = self._shape_in(other)
            except _GONE:
                continue
            kept = with_named_fields(to_set(pruned, shape), shape)
            owned = with_named_fields(by_version[other], shape)
            everything = with_named_fields(to_set(whole, shape), shape)
            pruned = _object(remove(whole, everything.difference(kept.union(owned)), shape))
        return self._converted(pruned, version)


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
