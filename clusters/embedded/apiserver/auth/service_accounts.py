"""Whether the claims of a service account token still hold (api-machinery section 14)."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from clusters.embedded.apiserver.auth.reader import Reader, metadata
from clusters.embedded.apiserver.auth.text import quoted
from clusters.embedded.apiserver.auth.tokens import TokenError
from clusters.embedded.apiserver.auth.users import (
    CREDENTIAL_ID,
    NODE_NAME,
    NODE_UID,
    POD_NAME,
    POD_UID,
    User,
    service_account_groups,
    service_account_name,
)

LEEWAY_SECONDS: Final = 60
"""Clock difference granted to the times of a token, and how long a deleting object still vouches for it."""

_INVALIDATED: Final = "service account token has been invalidated"


def user_of(claims: dict[str, Any], reader: Reader, now: float) -> User:
    """The user that the claims describe; TokenError if time or the stored objects speak against it."""
    _check_times(claims, now)
    private = claims.get("kubernetes.io") or {}
    namespace = private.get("namespace", "")
    claimed = private.get("serviceaccount") or {}
    name = claimed.get("name", "")
    account = reader.get("", "serviceaccounts", namespace, name)
    if account is None:
        raise TokenError(f"serviceaccounts {quoted(name)} not found")
    uid = metadata(account).get("uid", "")
    if uid != claimed.get("uid"):
        raise TokenError(f"service account UID ({uid}) does not match claim ({claimed.get('uid', '')})")
    if _gone(account, now):
        raise TokenError(f"service account {namespace}/{name} has been deleted")

    pod, node, secret = private.get("pod"), private.get("node"), private.get("secret")
    if secret:
        _check_bound(reader, "secrets", namespace, secret, now, "secret")
    if pod:
        _check_bound(reader, "pods", namespace, pod, now, "pod")
    elif node:
        _check_bound(reader, "nodes", "", node, now, "node")

    extra: dict[str, tuple[str, ...]] = {}
    if claims.get("jti"):
        extra[CREDENTIAL_ID] = (f"JTI={claims['jti']}",)
    for reference, name_key, uid_key in ((pod, POD_NAME, POD_UID), (node, NODE_NAME, NODE_UID)):
        if reference:
            extra[name_key] = (reference.get("name", ""),)
            if reference.get("uid"):
                extra[uid_key] = (reference["uid"],)
    return User(service_account_name(namespace, name), uid, service_account_groups(namespace), extra)


def _check_times(claims: dict[str, Any], now: float) -> None:
    if now - LEEWAY_SECONDS > claims.get("exp", 0):
        raise TokenError("service account token has expired")
    if now + LEEWAY_SECONDS < claims.get("nbf", 0):
        raise TokenError("service account token is not valid yet")
    if now + LEEWAY_SECONDS < claims.get("iat", 0):
        raise TokenError("service account token is issued in the future")


def _check_bound(
    reader: Reader, resource: str, namespace: str, reference: dict[str, Any], now: float, kind: str
) -> None:
    obj = reader.get("", resource, namespace, reference.get("name", ""))
    if obj is None or _gone(obj, now):
        raise TokenError(_INVALIDATED)
    uid, claimed = metadata(obj).get("uid", ""), reference.get("uid", "")
    if uid != claimed:
        raise TokenError(f"{kind} UID ({uid}) does not match service account {kind} ref claim ({claimed})")


def _gone(obj: dict[str, Any], now: float) -> bool:
    deleted = metadata(obj).get("deletionTimestamp")
    if not deleted:
        return False
    return datetime.fromisoformat(deleted).timestamp() < now - LEEWAY_SECONDS
