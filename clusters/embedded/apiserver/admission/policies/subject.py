"""A request as policies see it: in each version, with the kinds that belong to its path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from clusters.api_status import not_found
from clusters.embedded.apiserver.admission.request import Request
from clusters.embedded.apiserver.auth.reader import Reader
from clusters.embedded.apiserver.resources import Served
from clusters.embedded.apiserver.served import Resources
from clusters.embedded.apiserver.storage import Object
from clusters.embedded.apiserver.views import from_storage
from dra_api.cel.admission import from_json
from dra_api.decode import as_stored

NAMESPACES: Final = ("", "namespaces")


class Kind(NamedTuple):
    """Group, version and kind."""

    group: str
    version: str
    kind: str

    def as_json(self) -> dict[str, str]:
        """As in an admission request."""
        return {"group": self.group, "version": self.version, "kind": self.kind}


class Place(NamedTuple):
    """Group, version and plural name of a resource."""

    group: str
    version: str
    resource: str

    def as_json(self) -> dict[str, str]:
        """As in an admission request."""
        return {"group": self.group, "version": self.version, "resource": self.resource}


@dataclass(frozen=True)
class Match:
    """The resource and kind by which a policy sees a request."""

    place: Place
    kind: Kind


class Subject:
    """One request; conversions to other versions and to values of CEL are kept."""

    def __init__(self, request: Request, resources: Resources) -> None:
        self.request = request
        self._resources = resources
        self.place = Place(request.group, request.version, request.resource)
        self._versions: dict[Place, tuple[Object | None, Object | None]] = {}
        self._values: dict[Place, tuple[Any, Any]] = {}

    @property
    def namespace(self) -> str:
        """The namespace of the request; the requests about a namespace are within itself."""
        request = self.request
        return request.name if (request.group, request.resource) == NAMESPACES else request.namespace

    @property
    def match(self) -> Match:
        """The request in its own version."""
        return Match(self.place, self._kind(self.place))

    def equivalents(self) -> list[Match]:
        """The same request in the other versions and groups that serve its objects."""
        own = self._served(self.place)
        if own is None:
            return []
        found = []
        for served in self._resources.all():
            place = Place(served.resource.group, served.version, served.resource.plural)
            if place != self.place and served.resource.key == own.resource.key:
                found.append(Match(place, self._kind(place)))
        return found

    def objects(self, match: Match) -> tuple[Object | None, Object | None]:
        """Object and old object in the version of a match."""
        if match.place not in self._versions:
            request = self.request
            self._versions[match.place] = (
                self._converted(request.object, match),
                self._converted(request.old_object, match),
            )
        return self._versions[match.place]

    def values(self, match: Match) -> tuple[Any, Any]:
        """The same for expressions."""
        if match.place not in self._values:
            new, old = self.objects(match)
            self._values[match.place] = from_json(new), from_json(old)
        return self._values[match.place]

    def _converted(self, obj: Object | None, match: Match) -> Object | None:
        if obj is None:
            return None
        served = self._served(match.place)
        if served is None or obj.get("kind", served.resource.kind) != served.resource.kind:
            return obj
        return from_storage(as_stored(obj), served)

    def _served(self, place: Place) -> Served | None:
        return self._resources.find(*place)

    def _kind(self, place: Place) -> Kind:
        served = self._served(place)
        own = Kind(place.group, place.version, self.request.kind)
        if served is None or not self.request.subresource:
            return own
        subresource = served.resource.subresource(self.request.subresource)
        if subresource is None or not subresource.kind:
            return own
        return Kind(subresource.group or "", subresource.version, subresource.kind)


def namespace_of(subject: Subject, reader: Reader) -> Object | None:
    """The namespace of a request; None for requests at the cluster scope or about a namespace. Raises ApiError 404."""
    request = subject.request
    if not subject.namespace or (request.group, request.resource) == NAMESPACES:
        return None
    namespace = reader.get(*NAMESPACES, "", subject.namespace)
    if namespace is None:
        raise not_found("namespaces", "", subject.namespace)
    return namespace
