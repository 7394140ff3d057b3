"""What admission decides about."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from clusters.api_status import ApiError, forbidden
from clusters.embedded.apiserver.auth.users import User

CREATE: Final = "CREATE"
UPDATE: Final = "UPDATE"
DELETE: Final = "DELETE"
CONNECT: Final = "CONNECT"


@dataclass
class Request:
    """One write. Mutating plugins change `object` in place; `old_object` must not be changed.

    `object` is None for DELETE, `old_object` for CREATE; both are in the storage version. `name` may be empty
    on CREATE and in a DELETE of a collection. `options` are the create, update or delete options, `warnings` the texts
    for Warning headers of the answer. A plugin that changed the object may ask for a second round of all mutating
    plugins by `repeat`; in that round `repeated` is set. `notes` are what plugins keep from one round to the other.
    """

    user: User
    operation: str
    group: str
    version: str
    resource: str
    kind: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None
    dry_run: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    repeat: bool = False
    repeated: bool = False
    notes: dict[str, Any] = field(default_factory=dict)

    def is_for(self, resource: str, group: str = "", subresource: str = "") -> bool:
        """Whether the request is about this resource and subresource."""
        return (self.group, self.resource, self.subresource) == (group, resource, subresource)

    @property
    def new(self) -> dict[str, Any]:
        """The object to be stored; empty if there is none."""
        return self.object if self.object is not None else {}

    @property
    def old(self) -> dict[str, Any]:
        """The stored object; empty if there is none."""
        return self.old_object if self.old_object is not None else {}

    def refuse(self, why: str) -> ApiError:
        """The 403 of admission; an object without a name is called by its generateName or Unknown."""
        name = self.name
        if not name:
            metadata = self.new.get("metadata") or {}
            name = metadata.get("name") or metadata.get("generateName") or "Unknown"
        return forbidden(self.resource, self.group, name, why)
