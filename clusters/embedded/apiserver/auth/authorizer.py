"""The chain of authorizers and the 403 of a refused request (api-machinery sections 12 and 14)."""

from __future__ import annotations

from collections.abc import Sequence

from clusters.api_status import ApiError, forbidden
from clusters.embedded.apiserver.auth.attributes import Attributes, Authorizer, Decision
from clusters.embedded.apiserver.auth.node_authorizer import NodeAuthorizer
from clusters.embedded.apiserver.auth.rbac import Rbac
from clusters.embedded.apiserver.auth.reader import Reader
from clusters.embedded.apiserver.auth.text import quoted
from clusters.embedded.apiserver.auth.users import MASTERS


class Union:
    """Asks system:masters membership first, then each authorizer in turn until one allows."""

    def __init__(self, authorizers: Sequence[tuple[str, Authorizer]]) -> None:
        self._authorizers = tuple(authorizers)

    def authorize(self, attributes: Attributes) -> Decision:
        """The first approval with its reason, else the reasons of all, each after its authorizer's name."""
        if MASTERS in attributes.user.groups:
            return Decision(True)
        reasons = []
        for name, authorizer in self._authorizers:
            decision = authorizer.authorize(attributes)
            if decision.allowed:
                return decision
            if decision.reason:
                reasons.append(f"{name}: {decision.reason}")
        return Decision(False, "\n".join(reasons))


def standard(reader: Reader) -> Union:
    """Node authorization, then RBAC, as an API server with `--authorization-mode=Node,RBAC`."""
    return Union((("node", NodeAuthorizer(reader)), ("rbac", Rbac(reader))))


def refusal(attributes: Attributes, reason: str) -> ApiError:
    """The 403 of an access that nobody allowed."""
    text = _refusal_text(attributes)
    for character, replacement in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(character, replacement)
    if reason:
        text = f"{text}: {reason}"
    if not attributes.is_resource:
        return ApiError(403, "Forbidden", f"forbidden: {text}", {})
    return forbidden(attributes.resource, attributes.group, attributes.name, text)


def _refusal_text(attributes: Attributes) -> str:
    user = f"User {quoted(attributes.user.name)}"
    if not attributes.is_resource:
        return f"{user} cannot {attributes.verb} path {quoted(attributes.path)}"
    where = (
        f"in the namespace {quoted(attributes.namespace)}" if attributes.namespace else "at the cluster scope"
    )
    return (
        f"{user} cannot {attributes.verb} resource {quoted(attributes.full_resource)} "
        f"in API group {quoted(attributes.group)} {where}"
    )
