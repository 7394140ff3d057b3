"""One request on its way through the server, and what all requests share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from aiohttp import web
from multidict import CIMultiDictProxy

from clusters.embedded.apiserver.admission.chain import Chain
from clusters.embedded.apiserver.auth.attributes import Attributes, Authorizer
from clusters.embedded.apiserver.auth.authentication import Authenticator
from clusters.embedded.apiserver.auth.authorizer import refusal
from clusters.embedded.apiserver.auth.rbac import Rbac
from clusters.embedded.apiserver.auth.tokens import TokenIssuer
from clusters.embedded.apiserver.auth.users import User
from clusters.embedded.apiserver.config import ServerConfig
from clusters.embedded.apiserver.resources import Served
from clusters.embedded.apiserver.served import Resources
from clusters.embedded.apiserver.storage import Object, Store
from clusters.embedded.apiserver.strategies.base import Write
from clusters.open_sockets import OpenSockets
from clusters.request_info import RequestInfo
from dra_api.schema import GVK


@dataclass(frozen=True)
class Api:
    """What the handlers of one server share."""

    config: ServerConfig
    store: Store
    resources: Resources
    gates: frozenset[str]
    authenticator: Authenticator
    authorizer: Authorizer
    rbac: Rbac
    issuer: TokenIssuer
    admission: Chain
    outgoing: OpenSockets
    """Of connections to kubelets."""

    def now(self) -> float:
        """Seconds since the epoch by the server's clock."""
        return self.config.clock()


@dataclass
class Call:
    """One request. `query` holds the first value of each parameter, `dry_run` all values of that option."""

    api: Api
    info: RequestInfo
    user: User
    query: Mapping[str, str]
    dry_run: list[str]
    headers: CIMultiDictProxy[str]
    body: bytes
    http: web.BaseRequest
    warnings: list[str] = field(default_factory=list)
    """Texts of the Warning headers of the answer."""

    @property
    def user_agent(self) -> str | None:
        """The User-Agent header."""
        return self.headers.get("User-Agent")

    @property
    def accept(self) -> str | None:
        """The Accept header; several lines count as one."""
        values = self.headers.getall("Accept", [])
        return ",".join(values) if values else None

    def write(self, verb: str, served: Served) -> Write:
        """The circumstances of a write for the strategies."""
        return Write(
            user=self.user,
            verb=verb,
            now=self.api.now(),
            gates=self.api.gates,
            reader=self.api.store,
            authorizer=self.api.authorizer,
            sent_as=served.api_version,
            warnings=self.warnings,
        )

    def require(self, verb: str, served: Served, namespace: str, name: str, subresource: str = "") -> None:
        """Check a further right of the caller; raises ApiError 403."""
        resource = served.resource
        attributes = Attributes(
            self.user,
            verb,
            resource.group,
            served.version,
            resource.plural,
            subresource,
            namespace,
            name,
            self.info.path,
        )
        decision = self.api.authorizer.authorize(attributes)
        if not decision.allowed:
            raise refusal(attributes, decision.reason)


@dataclass(frozen=True)
class Reply:
    """An answer before it is encoded: `body` in the version of the request."""

    body: Object
    code: int = 200
    kind: str = "object"
    """`object`, `list` or `status`: what transformations may be asked for."""
    served: Served | None = None


def gvk_of(served: Served) -> GVK:
    """The kind of a resource in one version."""
    return GVK(served.resource.group, served.version, served.resource.kind)


def moment(seconds: float) -> datetime:
    """A time as a datetime in UTC."""
    return datetime.fromtimestamp(seconds, UTC)
