"""What an API server would make of an object: defaulted, without the fields of disabled features, and its errors.

The strategies, defaults and rules are those of the embedded API server; admission plugins have no part in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, cast

from clusters.embedded.apiserver.auth.users import User
from clusters.embedded.apiserver.copying import copied
from clusters.embedded.apiserver.resources import Served
from clusters.embedded.apiserver.served import Resources
from clusters.embedded.apiserver.storage import Objects
from clusters.embedded.apiserver.strategies.admin_access import NAMESPACE_LABEL
from clusters.embedded.apiserver.strategies.base import Strategy, Write, restore
from clusters.embedded.apiserver.strategies.resource import GRANULAR_STATUS
from clusters.embedded.apiserver.strategies.table import strategy_of
from clusters.embedded.apiserver.views import from_storage, to_storage
from dra_api.decode import as_stored, decode_object, settled
from dra_api.errors import FieldError
from dra_api.schema import GVK
from dra_api.validation.core import name_rule
from dra_api.validation.metadata import validate_object_meta, validate_object_meta_update

Object = dict[str, Any]

_USER: Final = User("drakit", groups=("system:masters",))
_SERVED: Final[Mapping[str, bool]] = {"api/all": True}
_STAND_INS: Final = {"uid": "00000000-0000-4000-8000-000000000000", "resourceVersion": "1"}
_NOT_THE_CLIENTS: Final = (
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "resourceVersion",
    "uid",
)
_SUFFIX: Final = "xxxxx"


class UnknownKindError(ValueError):
    """A kind that no API server serves in that version; the text says in which it is served."""


class UnknownFieldsError(ValueError):
    """An object with fields that its kind does not have, or that are set twice."""


@dataclass(frozen=True)
class Written:
    """The answer: the object as it would be stored, in the version in which it was sent.

    `dropped` are the paths of fields that were sent and are not stored, in that version.
    """

    object: Object
    errors: list[FieldError]
    warnings: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)


class _Namespaces:
    """What the rules may read of a cluster: namespaces. Those that nobody described admit everything."""

    def __init__(self, namespaces: Iterable[Object]) -> None:
        self._known = {entry["metadata"]["name"]: entry for entry in namespaces}

    def get(self, group: str, resource: str, namespace: str, name: str) -> Object | None:
        """See storage.Reader."""
        if (group, resource) != ("", "namespaces"):
            return None
        return self._known.get(name) or {"metadata": {"name": name, "labels": {NAMESPACE_LABEL: "true"}}}

    def list(self, group: str, resource: str, namespace: str | None = None) -> Objects:
        """See storage.Reader."""
        return []

    def select(self, group: str, resource: str, field: str, value: str) -> Objects:
        """See storage.Reader."""
        return []

    def changed(self, group: str, resource: str) -> object:
        """See storage.Reader."""
        return None


def written(
    obj: Object,
    old: Object | None,
    gates: Collection[str],
    *,
    namespaces: Iterable[Object] = (),
    default_namespace: str = "default",
    clock: Callable[[], float] = time.time,
) -> Written:
    """What becomes of a new object, or with `old` of a changed one.

    `gates` are the names of the enabled feature gates. When nothing but the status differs from `old`, it is a write of
    /status. Namespaces that `namespaces` does not have are taken to allow admin access. Raises UnknownKindError,
    UnknownFieldsError, and DecodeError for a value of the wrong type.
    """
    served = served_kind(obj)
    strategy = strategy_of(served.resource)
    now = clock()
    new = _read(obj, served, strategy, now, default_namespace)
    before = copied(new)
    write = Write(
        user=_USER,
        verb="create" if old is None else "update",
        now=now,
        gates=frozenset(gates) - {GRANULAR_STATUS},  # who writes is not known here
        reader=cast(Any, _Namespaces(namespaces)),
        authorizer=cast(Any, None),
        sent_as=served.api_version,
    )
    if old is None:
        errors, is_status = _created(new, served, strategy, write), False
    else:
        stored = as_stored(_read(old, served_kind(old), strategy, now, default_namespace))
        errors, is_status = _updated(new, stored, served, strategy, write)
    ignored = ("metadata", "spec") if is_status else ("metadata", "status")
    dropped = [path for path in missing(before, new) if path.partition(".")[0] not in ignored]
    return Written(from_storage(as_stored(new), served), errors, write.warnings, dropped)


@cache
def _resources() -> Resources:
    return Resources(_SERVED)


def served_kind(obj: Mapping[str, Any]) -> Served:
    """The resource of an object. Raises UnknownKindError."""
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    for name, value in (("apiVersion", api_version), ("kind", kind)):
        if not isinstance(value, str) or not value:
            raise UnknownKindError(f"{name}: required, a string")
    gvk = GVK.of(str(api_version), str(kind))
    found = _resources().find_kind(gvk.group, gvk.version, gvk.kind)
    if found is None:
        versions = sorted({each.api_version for each in _resources().all() if each.resource.kind == kind})
        hint = f"; it is served in {', '.join(versions)}" if versions else ""
        raise UnknownKindError(f'there is no kind "{kind}" in "{api_version}"{hint}')
    return found


def missing(before: Any, after: Any, path: str = "") -> list[str]:
    """The paths of what is in one value and not in another; of what is missing as a whole only the top."""
    if isinstance(before, dict) and isinstance(after, dict):
        result = []
        for name, value in before.items():
            place = f"{path}.{name}" if path else name
            if name not in after:
                if value not in (None, [], {}):
                    result.append(place)
            else:
                result += missing(value, after[name], place)
        return result
    if isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            return [path]
        return [
            found
            for index, pair in enumerate(zip(before, after, strict=True))
            for found in missing(*pair, f"{path}[{index}]")
        ]
    return []


def _read(obj: Object, served: Served, strategy: Strategy, now: float, namespace: str) -> Object:
    """An object in the storage version, decoded strictly and with its defaults."""
    decoded = decode_object(obj, GVK.of(served.api_version, served.resource.kind))
    if decoded.strict:
        raise UnknownFieldsError(f"strict decoding error: {', '.join(decoded.strict)}")
    strategy.default(decoded.object, now)
    found = to_storage(decoded.object, served)
    if served.resource.namespaced:
        found.setdefault("metadata", {}).setdefault("namespace", namespace)
    else:
        found.setdefault("metadata", {}).pop("namespace", None)
    result: Object = settled(found)
    return result


def _created(new: Object, served: Served, strategy: Strategy, write: Write) -> list[FieldError]:
    metadata = new["metadata"]
    for name in _NOT_THE_CLIENTS:
        metadata.pop(name, None)
    generated = not metadata.get("name") and metadata.get("generateName")
    if generated:
        metadata["name"] = metadata["generateName"] + _SUFFIX
    strategy.prepare_create(new, write)
    errors = strategy.validate_create(new, write)
    if not strategy.validates_metadata:
        rule = name_rule(served.resource.kind)
        errors = [*validate_object_meta(new, served.resource.namespaced, rule), *errors]
    if generated:
        del metadata["name"]
    return errors


def _updated(
    new: Object, old: Object, served: Served, strategy: Strategy, write: Write
) -> tuple[list[FieldError], bool]:
    """The errors, and whether it was a write of the status."""
    added = {key for key in _STAND_INS if key not in old["metadata"]}
    for name in added:
        old["metadata"][name] = _STAND_INS[name]
    given = {key for key in _STAND_INS if key in new["metadata"]}
    for name in _STAND_INS:
        if not new["metadata"].get(name) or name == "resourceVersion":
            new["metadata"][name] = old["metadata"][name]
    for name in ("generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
        restore(new["metadata"], old["metadata"], name)
    is_status = _only_status_differs(new, old) and served.resource.subresource("status") is not None
    if is_status:
        strategy.prepare_status(new, old, write)
        errors = strategy.validate_status(new, old, write)
    else:
        strategy.prepare_update(new, old, write)
        errors = strategy.validate_update(new, old, write)
    if not strategy.validates_metadata:
        own = validate_object_meta(new, served.resource.namespaced, name_rule(served.resource.kind))
        errors = [*own, *validate_object_meta_update(new, old), *errors]
    for name in added - given:
        new["metadata"].pop(name, None)
    return errors, is_status


def _only_status_differs(new: Object, old: Object) -> bool:
    stored = as_stored(new)
    parts = (stored.keys() | old.keys()) - {"status"}
    same = all(stored.get(name) == old.get(name) for name in parts)
    return same and stored.get("status") != old.get("status")
