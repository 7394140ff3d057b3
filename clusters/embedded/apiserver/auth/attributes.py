"""What an authorizer decides about, and its answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from clusters.embedded.apiserver.auth.users import User
from clusters.request_info import FieldRequirement, RequestInfo


@dataclass(frozen=True)
class Attributes:
    """One access: who, which verb, on which resource or non-resource path."""

    user: User
    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    is_resource: bool = True
    field_requirements: tuple[FieldRequirement, ...] = ()

    @classmethod
    def of_request(cls, user: User, info: RequestInfo) -> Attributes:
        """The attributes of an HTTP request."""
        return cls(
            user=user,
            verb=info.verb,
            group=info.group,
            version=info.version,
            resource=info.resource,
            subresource=info.subresource,
            namespace=info.namespace,
            name=info.name,
            path=info.path,
            is_resource=info.is_resource,
            field_requirements=info.field_requirements,
        )

    @property
    def full_resource(self) -> str:
        """`pods` or `pods/status`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


@dataclass(frozen=True)
class Decision:
    """Allowed or not. No authorizer here denies outright: not allowed means nobody allowed it."""

    allowed: bool
    reason: str = ""


class Authorizer(Protocol):
    """Anything that decides about accesses."""

    def authorize(self, attributes: Attributes) -> Decision:
        """Decide about one access."""
        ...
