"""The token subresource of service accounts (api-machinery section 14)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from clusters.api_status import bad_request, conflict, invalid, not_found
from clusters.embedded.apiserver.auth.reader import Reader, metadata
from clusters.embedded.apiserver.auth.text import quoted
from clusters.embedded.apiserver.auth.tokens import Reference, TokenIssuer
from dra_api.errors import FieldError

_KIND: Final = "TokenRequest"
_GROUP: Final = "authentication.k8s.io"
_DEFAULT_SECONDS: Final = 3600
_MIN_SECONDS: Final = 600
_MAX_SECONDS: Final = 1 << 32
# Mounted tokens ask for this odd lifetime; a server extends them to a year and only warns after it.
_MOUNTED_SECONDS: Final = 3607
_EXTENDED_SECONDS: Final = 365 * 24 * 3600


def create_token(
    request: dict[str, Any],
    *,
    namespace: str,
    name: str,
    reader: Reader,
    issuer: TokenIssuer,
    now: float,
) -> dict[str, Any]:
    """The TokenRequest with its status: the token and when it expires; `now` in seconds since 1970.

    ApiError 404 for a missing account or bound object, 400, 409 or 422 for a request that does not fit.
    """
    account = reader.get("", "serviceaccounts", namespace, name)
    if account is None:
        raise not_found("serviceaccounts", "", name)
    _check_metadata(metadata(request), namespace, name, metadata(account).get("uid", ""))
    spec = dict(request.get("spec") or {})
    spec["audiences"] = list(spec.get("audiences") or [issuer.issuer])
    if spec.get("expirationSeconds") is None:
        spec["expirationSeconds"] = _DEFAULT_SECONDS
    seconds = spec["expirationSeconds"]
    _check_expiration(seconds)

    reference = spec.get("boundObjectRef")
    bound = _bound(reference, namespace, name, reader) if reference else {}
    warn_after = 0
    lifetime = seconds
    if "pod" in bound and seconds == _MOUNTED_SECONDS and spec["audiences"] == [issuer.issuer]:
        warn_after, lifetime = seconds, _EXTENDED_SECONDS
    token = issuer.issue(
        namespace,
        _reference(account),
        audiences=spec["audiences"],
        expiration_seconds=lifetime,
        warn_after_seconds=warn_after,
        **bound,
    )
    return {
        **request,
        "metadata": {
            **metadata(request),
            "name": name,
            "namespace": namespace,
            "uid": metadata(account).get("uid", ""),
            "creationTimestamp": _timestamp(now),
        },
        "spec": spec,
        "status": {"token": token, "expirationTimestamp": _timestamp(now + seconds)},
    }


def _check_metadata(given: dict[str, Any], namespace: str, name: str, uid: str) -> None:
    for field, expected in (("name", name), ("namespace", namespace)):
        if given.get(field) and given[field] != expected:
            detail = f"must match the service account {field} if specified"
            error = FieldError("Invalid", f"metadata.{field}", detail, given[field])
            raise invalid(_KIND, _GROUP, name, [error])
    if given.get("uid") and given["uid"] != uid:
        why = (
            f"the UID in the token request ({given['uid']}) "
            f"does not match the UID of the service account ({uid})"
        )
        raise conflict(_KIND, _GROUP, name, why)


def _check_expiration(seconds: int) -> None:
    if seconds < _MIN_SECONDS:
        detail = "may not specify a duration less than 10 minutes"
    elif seconds > _MAX_SECONDS:
        detail = "may not specify a duration larger than 2^32 seconds"
    else:
        return
    raise invalid(_KIND, _GROUP, "", [FieldError("Invalid", "spec.expirationSeconds", detail, seconds)])


def _bound(reference: dict[str, Any], namespace: str, account: str, reader: Reader) -> dict[str, Reference]:
    """The claims of the object that the token is bound to, and of the node of a scheduled pod."""
    version, kind = reference.get("apiVersion", ""), reference.get("kind", "")
    name = reference.get("name", "")
    core = "/" not in version
    if core and kind == "Pod":
        pod = _existing(reader, "pods", namespace, name)
        spec = pod.get("spec") or {}
        if spec.get("serviceAccountName", "") != account:
            raise bad_request(
                f"cannot bind token for serviceaccount {quoted(account)} "
                "to pod running with different serviceaccount name."
            )
        result, target = {"pod": _reference(pod)}, pod
        if spec.get("nodeName"):
            node = reader.get("", "nodes", "", spec["nodeName"])
            result["node"] = _reference(node) if node else Reference(spec["nodeName"])
    elif core and kind == "Node":
        target = _existing(reader, "nodes", "", name)
        result = {"node": _reference(target)}
    elif core and kind == "Secret":
        target = _existing(reader, "secrets", namespace, name)
        result = {"secret": _reference(target)}
    else:
        group, _, short = version.rpartition("/")
        raise bad_request(f"cannot bind token to object of type {group}/{short}, Kind={kind}")
    wanted = reference.get("uid")
    if wanted and wanted != metadata(target).get("uid"):
        why = (
            f"the UID in the bound object reference ({wanted}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        raise conflict(kind, "", name, why)
    return result


def _existing(reader: Reader, resource: str, namespace: str, name: str) -> dict[str, Any]:
    obj = reader.get("", resource, namespace, name)
    if obj is None:
        raise not_found(resource, "", name)
    return obj


def _reference(obj: dict[str, Any]) -> Reference:
    return Reference(metadata(obj).get("name", ""), metadata(obj).get("uid", ""))


def _timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
