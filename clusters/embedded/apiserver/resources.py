"""What the server knows about a resource."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from clusters.api_status import bad_request
from clusters.embedded.apiserver.storage import ResourceKey

Getter = Callable[[Mapping[str, Any]], str]

ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
NO_COLLECTION: Final = ("create", "delete", "get", "list", "patch", "update", "watch")
STATUS_VERBS: Final = ("get", "patch", "update")


class Deprecation(NamedTuple):
    """Since when a version is deprecated and from when it is gone, as `1.35`."""

    since: str
    gone: str


@dataclass(frozen=True)
class Subresource:
    """A path below an object. `kind` with its group and version when it is not the parent's own."""

    name: str
    verbs: tuple[str, ...]
    group: str | None = None
    version: str = ""
    kind: str = ""


@dataclass(frozen=True)
class Resource:
    """One resource of one API group.

    `versions` in order of preference; `unconditional` are the versions in which a PUT without resourceVersion is
    allowed; `delete_returns_object` the versions whose DELETE answers with the object instead of a Status; `orphans`
    says that a DELETE without a propagation policy leaves dependents alone; `indexed` are the fields by whose value
    the store keeps objects, because node authorization and many watchers ask for one value of them.
    """

    group: str
    plural: str
    kind: str
    namespaced: bool
    versions: tuple[str, ...] = ("v1",)
    verbs: tuple[str, ...] = ALL_VERBS
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()
    create_on_update: bool = False
    unconditional: frozenset[str] | None = None
    delete_returns_object: frozenset[str] = frozenset()
    fields: Mapping[str, Getter] = field(default_factory=dict)
    field_aliases: Mapping[str, str] = field(default_factory=dict)
    field_error: str = "known"
    storage: ResourceKey | None = None
    storage_version: str = "v1"
    deprecated: Mapping[str, Deprecation] = field(default_factory=dict)
    orphans: bool = False
    indexed: tuple[str, ...] = ()

    @property
    def key(self) -> ResourceKey:
        """Where its objects are stored (events of both groups share one place)."""
        return self.storage or ResourceKey(self.group, self.plural)

    @property
    def singular(self) -> str:
        """The singular name of discovery."""
        return self.kind.lower()

    @property
    def list_kind(self) -> str:
        """`PodList`."""
        return f"{self.kind}List"

    @property
    def qualified(self) -> str:
        """`resourceslices.resource.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def allows_unconditional(self, version: str) -> bool:
        """Whether PUT may leave out the resourceVersion."""
        return self.unconditional is None or version in self.unconditional

    def subresource(self, name: str) -> Subresource | None:
        """The subresource with that name."""
        return next((sub for sub in self.subresources if sub.name == name), None)

    def field_getter(self, label: str, version: str) -> tuple[str, Getter]:
        """Canonical name and getter of a field selector key; raises ApiError 400 with the kind's own wording."""
        name = self.field_aliases.get(label, label)
        if name in self.fields:
            return name, self.fields[name]
        if self.field_error == "plain":
            raise bad_request(f"field label not supported: {label}")
        if self.field_error == "slice":
            kind = f"resource.k8s.io/{version}, Kind={self.kind}"
            raise bad_request(f"field label not supported for {kind}: {label}")
        if self.field_error == "job":
            raise bad_request(f'field label "{label}" not supported for {self.kind}')
        raise bad_request(
            f'"{label}" is not a known field selector: only "metadata.name", "metadata.namespace"'
        )


class Served(NamedTuple):
    """A resource in one version, as a path names it."""

    resource: Resource
    version: str

    @property
    def api_version(self) -> str:
        """`v1` or `resource.k8s.io/v1`."""
        return f"{self.resource.group}/{self.version}" if self.resource.group else self.version
