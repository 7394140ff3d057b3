"""Acting as somebody else with Impersonate-* headers (api-machinery section 14)."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

from multidict import MultiMapping

from clusters.api_status import bad_request
from clusters.embedded.apiserver.auth.attributes import Attributes, Authorizer
from clusters.embedded.apiserver.auth.authorizer import refusal
from clusters.embedded.apiserver.auth.users import (
    ALL_AUTHENTICATED,
    ALL_UNAUTHENTICATED,
    ANONYMOUS,
    User,
    service_account_groups,
    split_service_account,
)

_EXTRA_PREFIX: Final = "impersonate-extra-"
_REVIEW_GROUP: Final = "authentication.k8s.io"


def impersonate(user: User, headers: MultiMapping[str], authorizer: Authorizer) -> User:
    """The user to act as: `user` itself without such headers.

    Each part needs the verb impersonate: on users, groups or serviceaccounts, on userextras/KEY and uids of
    authentication.k8s.io. ApiError 403 without it, 400 for parts without a user name.
    """
    name = headers.get("Impersonate-User", "")
    groups = headers.getall("Impersonate-Group", [])
    uid = headers.get("Impersonate-Uid", "")
    extra: dict[str, list[str]] = {}
    for header in dict.fromkeys(key.lower() for key in headers):
        if header.startswith(_EXTRA_PREFIX):
            extra[unquote(header.removeprefix(_EXTRA_PREFIX))] = list(headers.getall(header))
    if not name:
        if groups or extra or uid:
            raise bad_request("requested impersonation of groups, uid or extra without impersonating a user")
        return user

    account = split_service_account(name)
    if account:
        _require(authorizer, Attributes(user, "impersonate", resource="serviceaccounts",
                                        namespace=account[0], name=account[1]))  # fmt: skip
    else:
        _require(authorizer, Attributes(user, "impersonate", resource="users", name=name))
    for group in groups:
        _require(authorizer, Attributes(user, "impersonate", resource="groups", name=group))
    for key, values in extra.items():
        for value in values:
            _require(
                authorizer, Attributes(user, "impersonate", _REVIEW_GROUP, "v1", "userextras", key, "", value)
            )
    if uid:
        _require(authorizer, Attributes(user, "impersonate", _REVIEW_GROUP, "v1", "uids", name=uid))

    effective = list(groups)
    if account and not groups:
        effective = list(service_account_groups(account[0]))
    if name == ANONYMOUS:
        if ALL_UNAUTHENTICATED not in effective:
            effective.append(ALL_UNAUTHENTICATED)
    elif not {ALL_AUTHENTICATED, ALL_UNAUTHENTICATED} & set(effective):
        effective.append(ALL_AUTHENTICATED)
    return User(name, uid, tuple(effective), {key: tuple(values) for key, values in extra.items()})


def _require(authorizer: Authorizer, attributes: Attributes) -> None:
    decision = authorizer.authorize(attributes)
    if not decision.allowed:
        raise refusal(attributes, decision.reason)
