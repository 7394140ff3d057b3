"""The same stored object in each version and group that shows it."""

from __future__ import annotations

from functools import cache
from typing import Any

from clusters.embedded.apiserver.resources import Served
from clusters.embedded.apiserver.storage import Object
from dra_api import conversion
from dra_api.decode import decode_object
from dra_api.schema import GVK

_EVENTS = "events.k8s.io"
# Names of core/v1 fields and what events.k8s.io/v1 calls them.
_EVENT_FIELDS = (
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
)
_TO_EVENTS = dict(_EVENT_FIELDS)
_TO_CORE = {new: old for old, new in _EVENT_FIELDS}
# What JSON always shows in each of the two views (Go fields without omitempty).
_CORE_ALWAYS: dict[str, Any] = {
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}
_EVENTS_ALWAYS: dict[str, Any] = {
    "deprecatedSource": {},
    "deprecatedFirstTimestamp": None,
    "deprecatedLastTimestamp": None,
    "eventTime": None,
}
_EVENTS_EMPTY_OMITTED = ("note", "reportingController", "reportingInstance", "deprecatedCount", "regarding")


def event_to_core(obj: Object) -> Object:
    """An events.k8s.io/v1 Event as core/v1, the form that is stored."""
    renamed = {_TO_CORE.get(key, key): value for key, value in obj.items()}
    result = {**renamed, "apiVersion": "v1"}
    for key, value in _CORE_ALWAYS.items():
        result.setdefault(key, value)
    result.setdefault("involvedObject", {})
    return result


def event_from_core(obj: Object) -> Object:
    """A stored Event as events.k8s.io/v1."""
    result = {_TO_EVENTS.get(key, key): value for key, value in obj.items()}
    result["apiVersion"] = f"{_EVENTS}/v1"
    for key in _EVENTS_EMPTY_OMITTED:
        if key in result and not result[key]:
            del result[key]
    for key, value in _EVENTS_ALWAYS.items():
        result.setdefault(key, value)
    return result


@cache
def _empty(gvk: GVK) -> Object:
    return decode_object({"apiVersion": gvk.api_version, "kind": gvk.kind}, gvk).object


def empty(served: Served) -> Object:
    """An object with nothing but what all of its kind show, as in bookmarks; not to be changed."""
    return _empty(GVK(served.resource.group, served.version, served.resource.kind))


def to_storage(obj: Object, served: Served) -> Object:
    """An object of a request in the version in which it is stored."""
    resource = served.resource
    if resource.group == _EVENTS:
        return event_to_core(obj)
    if served.version != resource.storage_version:
        return conversion.convert(obj, f"{resource.group}/{resource.storage_version}")
    return obj


def from_storage(obj: Object, served: Served) -> Object:
    """A stored object in the version of a request; the stored one is not changed."""
    resource = served.resource
    if resource.group == _EVENTS:
        return event_from_core(obj)
    if served.version != resource.storage_version:
        return conversion.convert(obj, served.api_version)
    return obj
