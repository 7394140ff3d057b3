"""The rules that all kinds share, and the hooks by which kinds differ (api-machinery sections 5 and 7)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from clusters.embedded.apiserver.auth.attributes import Authorizer
from clusters.embedded.apiserver.auth.users import User
from clusters.embedded.apiserver.copying import copied
from clusters.embedded.apiserver.storage import Object, Reader
from dra_api.decode import as_stored
from dra_api.equality import semantic_equal
from dra_api.errors import FieldError
from dra_api.schema import GVK, load

STATUS_METADATA: Final = ("labels", "annotations", "finalizers", "ownerReferences")


@dataclass(frozen=True)
class Write:
    """The circumstances of one write: who, by which verb (create, update, patch), when, under which gates.

    `sent_as` is the apiVersion of the request, `warnings` the texts for Warning headers of the answer.
    """

    user: User
    verb: str
    now: float
    gates: frozenset[str]
    reader: Reader
    authorizer: Authorizer
    sent_as: str
    warnings: list[str] = field(default_factory=list)


class Strategy:
    """Defaulting, preparation and validation of one kind.

    Objects are in the storage version. `prepare_*` change `new` in place, `old` belongs to the store.
    `manages_generation`: metadata.generation starts at 1 and counts changes of the spec.
    `status_metadata`: which metadata a write of /status may change.
    `validates_metadata`: the `validate_*` methods judge the metadata as well.
    """

    manages_generation = False
    validates_metadata = False
    status_metadata: tuple[str, ...] = STATUS_METADATA

    def default(self, obj: Object, now: float) -> None:
        """Set defaults in place, right after decoding: the object is in the version of the request."""

    def prepare_create(self, new: Object, write: Write) -> None:
        """Reset what a client may not set."""
        if self.manages_generation:
            new["metadata"]["generation"] = 1

    def prepare_update(self, new: Object, old: Object, write: Write) -> None:
        """Keep what a client may not change, and count the generation."""
        if self.manages_generation and has_changed(new, old, "spec"):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def prepare_status(self, new: Object, old: Object, write: Write) -> None:
        """Keep everything but the status, and the metadata that a status write may not change."""
        status = new.get("status")
        kept = {key: value for key, value in old.items() if key not in ("metadata", "status")}
        for key in list(new):
            if key != "metadata":
                del new[key]
        new.update(copied(kept))
        if status is not None:
            new["status"] = status
        for name in STATUS_METADATA:
            if name not in self.status_metadata:
                restore(new["metadata"], old["metadata"], name)

    def validate_create(self, new: Object, write: Write) -> list[FieldError]:
        """Problems of a new object beside its metadata."""
        return []

    def validate_update(self, new: Object, old: Object, write: Write) -> list[FieldError]:
        """Problems of a changed object beside its metadata."""
        return []

    def validate_status(self, new: Object, old: Object, write: Write) -> list[FieldError]:
        """Problems of a changed status."""
        return []


def has_changed(new: Object, old: Object, *path: str) -> bool:
    """Whether a part means something else than in the stored object: quantities in another spelling do not."""
    before, after = old, as_stored(new)
    message = load().kind(GVK.of(new["apiVersion"], new["kind"]))
    for name in path:
        before, after = before.get(name) or {}, after.get(name) or {}
        message = None if message is None else message.fields[name].message
    return before != after and (message is None or not semantic_equal(after, before, message))


def restore(new: Object, old: Object, name: str) -> None:
    """Give a field its old value, or its old absence."""
    if name in old:
        new[name] = copied(old[name])
    else:
        new.pop(name, None)


def keep_status(new: Object, old: Object) -> None:
    """Writes of the main endpoint leave the status alone."""
    restore(new, old, "status")
