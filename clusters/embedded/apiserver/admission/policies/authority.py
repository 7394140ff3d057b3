"""The authorizer of expressions: what the sender of a request, or a service account, may do."""

from __future__ import annotations

from clusters.embedded.apiserver.auth.attributes import Attributes, Authorizer
from clusters.embedded.apiserver.auth.users import (
    User,
    service_account_groups,
    service_account_name,
)
from clusters.request_info import FieldRequirement, parse_field_selector
from dra_api.cel.library.authorization import Decision, ResourceCheck


class UserAuthority:
    """Asks the server's authorizer about one user; see dra_api.cel.library.authorization.Authority."""

    def __init__(self, authorizer: Authorizer, user: User) -> None:
        self._authorizer = authorizer
        self._user = user

    def check_path(self, path: str, verb: str) -> Decision:
        """See Authority."""
        return self._decide(Attributes(self._user, verb, path=path, is_resource=False))

    def check_resource(self, check: ResourceCheck, verb: str) -> Decision:
        """See Authority."""
        return self._decide(
            Attributes(
                self._user,
                verb,
                check.group,
                "*",
                check.resource,
                check.subresource,
                check.namespace,
                check.name,
                field_requirements=_requirements(check.field_selector),
            )
        )

    def service_account(self, namespace: str, name: str) -> UserAuthority:
        """See Authority."""
        # As upstream, such a user is no member of system:authenticated.
        user = User(service_account_name(namespace, name), groups=service_account_groups(namespace))
        return UserAuthority(self._authorizer, user)

    def _decide(self, attributes: Attributes) -> Decision:
        decision = self._authorizer.authorize(attributes)
        return Decision(decision.allowed, decision.reason)


def _requirements(selector: str) -> tuple[FieldRequirement, ...]:
    """A selector that cannot be read narrows nothing."""
    try:
        return parse_field_selector(selector) if selector else ()
    except ValueError:
        return ()
