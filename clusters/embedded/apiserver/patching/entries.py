"""metadata.managedFields read and written (api-machinery section 8)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeAlias

from clusters.embedded.apiserver.patching.fields import FieldsError, FieldSet
from clusters.embedded.apiserver.patching.identity_cache import IdentityCache


class Identity(NamedTuple):
    """Who an entry belongs to. Appliers keep it across versions: `api_version` is empty for Apply."""

    manager: str
    operation: str
    api_version: str = ""
    subresource: str = ""

    @property
    def text(self) -> str:
        """The identity as one string; a real server sorts by it."""
        parts = {
            "manager": self.manager,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "subresource": self.subresource,
        }
        document = {key: value for key, value in parts.items() if value}
        return json.dumps(document, ensure_ascii=False, separators=(",", ":"))

    def __str__(self) -> str:
        """The manager as conflicts name it."""
        text = _quoted(self.manager)
        if self.subresource:
            text += f" with subresource {_quoted(self.subresource)}"
        return f"{text} using {self.api_version}" if self.operation == "Update" else text


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


@dataclass(frozen=True)
class Entry:
    """What one manager owns, in the version in which it wrote. `time` is RFC 3339, whole seconds, or None."""

    owned: FieldSet
    api_version: str
    time: str | None = None

    def owning(self, owned: FieldSet) -> Entry:
        """The same entry with other fields."""
        return replace(self, owned=owned)


Managed: TypeAlias = dict[Identity, Entry]


class EntryError(ValueError):
    """A managedFields list that cannot be read."""


# Most entries of an object stay as they are from one write to the next.
_SETS: Final = IdentityCache[FieldSet](4096)
_DOCUMENTS: Final = IdentityCache[dict[str, Any]](4096)


def _read_owned(document: Any) -> FieldSet:
    known = _SETS.get(document)
    return _SETS.put(document, FieldSet.from_json(document)) if known is None else known


def _write_owned(owned: FieldSet) -> dict[str, Any]:
    document = _DOCUMENTS.get(owned)
    if document is None:
        document = _DOCUMENTS.put(owned, owned.to_json())
        _SETS.put(document, owned)
    return document


def read(document: Any) -> Managed:
    """The entries of a managedFields list. Raises EntryError."""
    managed: Managed = {}
    for index, entry in enumerate(document or ()):
        operation = entry.get("operation")
        if operation not in ("Apply", "Update"):
            raise EntryError("operation must be `Apply` or `Update`")
        api_version = entry.get("apiVersion") or ""
        if not api_version:
            raise EntryError("apiVersion must not be empty")
        if entry.get("fieldsType") != "FieldsV1":
            kind = entry.get("fieldsType") or ""
            what = f"invalid fieldsType {_quoted(kind)} in" if kind else "missing fieldsType in"
            raise EntryError(f"{what} managed fields entry {index}")
        identity = Identity(
            entry.get("manager") or "",
            operation,
            "" if operation == "Apply" else api_version,
            entry.get("subresource") or "",
        )
        try:
            owned = _read_owned(entry.get("fieldsV1"))
        except FieldsError as error:
            raise EntryError(f"error decoding set: {error}") from error
        managed[identity] = Entry(owned, api_version, entry.get("time"))
    return managed


def write(managed: Mapping[Identity, Entry]) -> list[dict[str, Any]]:
    """The managedFields list: Apply before Update, then by time, manager, version, subresource."""
    ordered = sorted(
        managed.items(),
        key=lambda item: (
            item[0].operation,
            item[1].time or "",
            item[0].manager,
            item[1].api_version,
            item[0].subresource,
        ),
    )
    return [_document(identity, entry) for identity, entry in ordered]


def _document(identity: Identity, entry: Entry) -> dict[str, Any]:
    document: dict[str, Any] = {}
    if identity.manager:
        document["manager"] = identity.manager
    document["operation"] = identity.operation
    document["apiVersion"] = entry.api_version
    if entry.time is not None:
        document["time"] = entry.time
    document["fieldsType"] = "FieldsV1"
    document["fieldsV1"] = _write_owned(entry.owned)
    if identity.subresource:
        document["subresource"] = identity.subresource
    return document
