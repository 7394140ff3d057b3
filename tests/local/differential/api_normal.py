"""Answers without what two servers may choose for themselves: uids, revisions, names they make, the current time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

from api_play import Operation
from api_wire import Answer

_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
# Go's own form of a time, inside the text of a struct.
_GO_TIME: Final = re.compile(r"time\.Date\([^)]*time\.UTC\)|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \+0000 UTC")
# A revision within a text, but no part of a uid or of another number.
_NUMBER: Final = re.compile(r"(?<![\w.:-])\d{3,}(?![\w-])")
# Several warnings may share a header.
_WARNING: Final = re.compile(r", (?=299 - \")")
_AGE: Final = re.compile(r"(?:\d+[smhdy]){1,2}")
_RECORD: Final = re.compile(r"(?<=ResourceVersion in record \()\d+")
_NEAR: Final = 3600.0
_KNOWN: Final = ("5f1f4c3e-", "0a1b2c3d-")
"""Beginnings of the uids that the sequences name themselves."""
_BOOKMARK_END: Final = "k8s.io/initial-events-end"


class Normalizer:
    """Gives every value of one server's choice the name of the place where it was seen first."""

    def __init__(self) -> None:
        self._uids: dict[str, str] = {}
        self._revisions: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._lists: dict[int, str] = {}
        self._place = ""
        self._count = self._new_uids = 0

    def of(self, operation: Operation, answer: Answer) -> dict[str, Any]:
        """The comparable form of one answer; to be called in the order of the operations."""
        self._place, self._count, self._new_uids = str(operation["id"]), 0, 0
        self._learn_names(answer.body)
        if operation.get("generates") and answer.code >= 400 and isinstance(answer.body, dict):
            self._learn_refused((answer.body.get("details") or {}).get("name"))
        body = _conflicts_ordered(answer.body)
        if "watch" in operation and isinstance(body, list):
            seen: Any = [self._event(event) for event in body if _counts(event)]
        elif (
            isinstance(body, dict) and ("items" in body or "rows" in body) and "columnDefinitions" not in body
        ):
            seen = self._list(operation, body)
        elif isinstance(body, dict) and "columnDefinitions" in body:
            seen = self._list(operation, body) if operation.get("many") else self._value(body, "")
        else:
            seen = self._value(body, "")
        result = {
            "code": answer.code,
            "contentType": answer.content_type,
            "warnings": [one for header in answer.warnings for one in _WARNING.split(header)],
            "body": seen,
        }
        if answer.retry_after is not None:
            result["retryAfter"] = answer.retry_after
        if answer.note:
            result["note"] = self._text(answer.note)
        return result

    def _learn_names(self, value: Any) -> None:
        """Find the names that the server made up."""
        if isinstance(value, list):
            for item in value:
                self._learn_names(item)
        elif isinstance(value, dict):
            prefix, name = value.get("generateName"), value.get("name")
            if prefix and name and len(name) == len(prefix[:58]) + 5 and name not in self._names:
                self._names[name] = f"<name@{self._place}.{len(self._names)}>"
            for item in value.values():
                self._learn_names(item)

    def _learn_refused(self, name: str | None) -> None:
        """A refusal quotes the name that the object would have had."""
        if name:
            self._names.setdefault(name, f"<name@{self._place}>")

    def _list(self, operation: Operation, body: dict[str, Any]) -> Any:
        metadata = dict(body.get("metadata") or {})
        revision = metadata.get("resourceVersion", "")
        self._lists[operation["id"]] = revision
        if revision:
            parent = operation.get("continues")
            asked = operation.get("exactly")
            if parent is not None and parent in self._lists:
                metadata["resourceVersion"] = "<same>" if revision == self._lists[parent] else "<other>"
            elif asked is not None:
                metadata["resourceVersion"] = "<exact>" if revision in self._revisions else "<other>"
            else:
                metadata["resourceVersion"] = "<list>"
        if metadata.get("continue"):
            metadata["continue"] = "<continue>"
        rest = {key: value for key, value in body.items() if key != "metadata"}
        return {"metadata": metadata, **self._value(rest, "")}

    def _event(self, event: dict[str, Any]) -> Any:
        text = json.dumps(event["object"])
        if event["type"] == "BOOKMARK" and _BOOKMARK_END in text:
            text = re.sub(r'"resourceVersion": "\d+"', '"resourceVersion": "<bookmark>"', text)
            return {"type": "BOOKMARK", "object": self._value(json.loads(text), "")}
        return {"type": event["type"], "object": self._value(event["object"], "")}

    def _value(self, value: Any, key: str) -> Any:
        if isinstance(value, dict):
            return {name: self._value(value[name], name) for name in sorted(value)}
        if isinstance(value, list):
            items = [self._value(item, "") for item in value]
            return _by_manager(items) if key == "managedFields" else items
        if not isinstance(value, str):
            return value
        if key == "resourceVersion" and value.isdigit():
            return self._revision(value)
        if key == "" and _AGE.fullmatch(value):
            return "<age>"
        return self._text(value)

    def _revision(self, value: str) -> str:
        if value not in self._revisions:
            self._count += 1
            self._revisions[value] = f"<rv@{self._place}.{self._count}>"
        return self._revisions[value]

    def _text(self, text: str) -> str:
        if len(text) < 5:
            return text
        text = _UUID.sub(self._uid, text)
        if "T" in text or "time" in text or "UTC" in text:
            text = _TIME.sub(_now_or_not, text)
            text = _GO_TIME.sub("<go time>", text)
        if "in record" in text:
            text = _RECORD.sub(lambda match: self._revision(match[0]), text)
        if "ersion" in text:
            text = _NUMBER.sub(lambda match: self._revisions.get(match[0], match[0]), text)
        for name, known in self._names.items():
            text = text.replace(name, known)
        return text

    def _uid(self, match: re.Match[str]) -> str:
        value = match[0]
        if value.startswith(_KNOWN):
            return value
        if value not in self._uids:
            self._new_uids += 1
            self._uids[value] = f"<uid@{self._place}.{self._new_uids}>"
        return self._uids[value]


def _conflicts_ordered(body: Any) -> Any:
    """The conflicts of an apply come in the random order of a map of Go."""
    details = body.get("details") if isinstance(body, dict) else None
    causes = details.get("causes") if isinstance(details, dict) else None
    if not causes or causes[0].get("reason") != "FieldManagerConflict":
        return body
    ordered = sorted(causes, key=lambda cause: (cause["message"], cause["field"]))
    message = "\n".join(sorted(body["message"].split("\n")))
    return {**body, "message": message, "details": {**details, "causes": ordered}}


def _counts(event: dict[str, Any]) -> bool:
    """Bookmarks come when a server likes, but for the one that ends the initial events."""
    return event["type"] != "BOOKMARK" or _BOOKMARK_END in json.dumps(event["object"])


def _by_manager(entries: Iterable[Any]) -> list[Any]:
    """Entries are ordered by time, of which only whole seconds are told; so the order is not compared."""
    return sorted(entries, key=lambda entry: json.dumps({**entry, "fieldsV1": None}) if entry else "")


def _now_or_not(match: re.Match[str]) -> str:
    text = match[0]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return "<now>" if abs((datetime.now(UTC) - moment).total_seconds()) < _NEAR else text
