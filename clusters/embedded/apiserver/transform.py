"""Answers as Table or PartialObjectMetadata (api-machinery sections 3 and 18)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from clusters.api_status import bad_request
from clusters.embedded.apiserver import tables
from clusters.embedded.apiserver.negotiation import Negotiated
from clusters.embedded.apiserver.resources import Served
from clusters.embedded.apiserver.storage import Object

_INCLUDE: Final = ("", "Metadata", "Object", "None")


def partial(obj: Object, version: str) -> Object:
    """The metadata of an object as an object of its own."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": obj.get("metadata", {}),
    }


class Transformer:
    """Turns objects and lists of one resource into the form that a client asked for.

    Of a watch only the first table shows its columns, so one transformer belongs to one request.
    """

    def __init__(self, served: Served, form: Negotiated, include: str, now: Callable[[], float]) -> None:
        if form.transform == "Table" and include not in _INCLUDE:
            raise bad_request(f"unrecognized includeObject value: {include!r}")
        self._served = served
        self._form = form
        self._include = include or "Metadata"
        self._now = now
        self._columns_sent = False

    @property
    def shared_key(self) -> str | None:
        """What distinguishes equal streams; None when each stream is different."""
        return None if self._form.transform == "Table" else self._form.transform

    def event(self, obj: Object) -> Object:
        """The object of a watch event."""
        if self._form.transform == "Table":
            table = self._table([obj], {"resourceVersion": obj["metadata"].get("resourceVersion", "")})
            if self._columns_sent:
                table["columnDefinitions"] = None
            self._columns_sent = True
            return table
        if self._form.transform:
            return partial(obj, self._form.version)
        return obj

    def object(self, obj: Object) -> Object:
        """A single object."""
        if self._form.transform == "Table":
            revision = obj["metadata"].get("resourceVersion")
            return self._table([obj], {"resourceVersion": revision} if revision else {})
        if self._form.transform:
            return partial(obj, self._form.version)
        return obj

    def list_object(self, body: Object) -> Object:
        """A list."""
        served = self._served
        if self._form.transform == "Table":
            kind = {"kind": served.resource.kind, "apiVersion": served.api_version}
            return self._table([{**kind, **item} for item in body["items"]], body["metadata"])
        if self._form.transform:
            return {
                "kind": "PartialObjectMetadataList",
                "apiVersion": f"meta.k8s.io/{self._form.version}",
                "metadata": body["metadata"],
                "items": [partial(item, self._form.version) for item in body["items"]] or None,
            }
        return body

    def _table(self, objects: list[Object], metadata: Object) -> Object:
        table = tables.of(self._served.resource)
        now = self._now()
        rows: list[dict[str, Any]] = []
        for obj in objects:
            row: dict[str, Any] = {"cells": table.cells(obj, now)}
            conditions = table.conditions(obj)
            if conditions:
                row["conditions"] = conditions
            row["object"] = self._row_object(obj)
            rows.append(row)
        return {
            "kind": "Table",
            "apiVersion": f"meta.k8s.io/{self._form.version}",
            "metadata": metadata,
            "columnDefinitions": [column.definition() for column in table.columns],
            "rows": rows,
        }

    def _row_object(self, obj: Object) -> Object | None:
        if self._include == "None":
            return None
        return obj if self._include == "Object" else partial(obj, self._form.version)
