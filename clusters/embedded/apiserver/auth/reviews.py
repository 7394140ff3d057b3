"""Answers to questions about tokens, identities and rights; none is stored (api-machinery section 14)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from clusters.api_status import ApiError, bad_request, invalid
from clusters.embedded.apiserver.auth.attributes import Attributes, Authorizer
from clusters.embedded.apiserver.auth.authentication import Authenticator
from clusters.embedded.apiserver.auth.rbac import Rbac
from clusters.embedded.apiserver.auth.text import aggregated
from clusters.embedded.apiserver.auth.tokens import TokenError
from clusters.embedded.apiserver.auth.users import User
from clusters.request_info import FieldRequirement, parse_field_selector
from dra_api.errors import FieldError

_GROUP: Final = "authorization.k8s.io"
_ONE_OF: Final = "exactly one of nonResourceAttributes or resourceAttributes must be specified"


def token_review(review: dict[str, Any], authenticator: Authenticator) -> dict[str, Any]:
    """A TokenReview with its status: the user of the token, or the error."""
    spec = review.get("spec") or {}
    token = spec.get("token", "")
    if not token:
        raise bad_request("token is required for TokenReview in authentication")
    status: dict[str, Any]
    try:
        result = authenticator.authenticate_token(token, spec.get("audiences") or ())
        status = {"authenticated": True, "user": result.user.info(), "audiences": list(result.audiences)}
    except TokenError as error:
        status = {"user": {}, "error": str(error)}
    return {**review, "status": status}


def self_subject_review(review: dict[str, Any], user: User, now: str) -> dict[str, Any]:
    """A SelfSubjectReview: who is asking. `now` is RFC 3339."""
    metadata = {**(review.get("metadata") or {}), "creationTimestamp": now}
    return {**review, "metadata": metadata, "status": {"userInfo": user.info()}}


def subject_access_review(review: dict[str, Any], authorizer: Authorizer) -> dict[str, Any]:
    """A SubjectAccessReview: may the user of the spec do it? ApiError 422 for a wrong spec."""
    spec = review.get("spec") or {}
    errors = _subject_errors(spec) + _metadata_errors(review, ())
    return _answer(review, _user_of(spec), authorizer, errors)


def local_subject_access_review(
    review: dict[str, Any], authorizer: Authorizer, namespace: str
) -> dict[str, Any]:
    """A LocalSubjectAccessReview within the namespace of the URL."""
    spec = review.get("spec") or {}
    metadata = {"namespace": namespace, **(review.get("metadata") or {})}
    review = {**review, "metadata": metadata}
    errors = _subject_errors(spec) + _metadata_errors(review, ("namespace",))
    resource = spec.get("resourceAttributes")
    if resource is not None and resource.get("namespace", "") != metadata.get("namespace"):
        errors.append(
            FieldError(
                "Invalid",
                "spec.resourceAttributes.namespace",
                "must match metadata.namespace",
                resource.get("namespace", ""),
            )
        )
    if spec.get("nonResourceAttributes") is not None:
        errors.append(
            FieldError(
                "Invalid",
                "spec.nonResourceAttributes",
                "disallowed on this kind of request",
                _internal_path(spec["nonResourceAttributes"]),
            )
        )
    return _answer(review, _user_of(spec), authorizer, errors)


def self_subject_access_review(review: dict[str, Any], user: User, authorizer: Authorizer) -> dict[str, Any]:
    """A SelfSubjectAccessReview: may the caller do it?"""
    errors = _one_of_errors(review.get("spec") or {}) + _metadata_errors(review, ())
    return _answer(review, user, authorizer, errors)


def self_subject_rules_review(review: dict[str, Any], user: User, rbac: Rbac) -> dict[str, Any]:
    """A SelfSubjectRulesReview: the rules of the caller in a namespace; incomplete for kubelets."""
    namespace = (review.get("spec") or {}).get("namespace", "")
    if not namespace:
        raise bad_request("no namespace on request")
    grants = rbac.grants(user, namespace)
    resource_rules, path_rules = [], []
    for rule in grants.rules:
        if rule.get("resources"):
            keys = ("verbs", "apiGroups", "resources", "resourceNames")
            resource_rules.append({key: rule[key] for key in keys if rule.get(key)})
        if rule.get("nonResourceURLs"):
            path_rules.append({key: rule[key] for key in ("verbs", "nonResourceURLs") if rule.get(key)})
    status: dict[str, Any] = {
        "resourceRules": resource_rules,
        "nonResourceRules": path_rules,
        "incomplete": user.node is not None,
    }
    errors = list(grants.errors)
    if user.node is not None:
        errors.insert(0, "node authorizer does not support user rule resolution")
    if errors:
        status["evaluationError"] = aggregated(errors)
    return {**review, "status": status}


def _user_of(spec: dict[str, Any]) -> User:
    extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
    return User(spec.get("user", ""), spec.get("uid", ""), tuple(spec.get("groups") or ()), extra)


def _answer(
    review: dict[str, Any], user: User, authorizer: Authorizer, errors: Sequence[FieldError]
) -> dict[str, Any]:
    if errors:
        raise _invalid(errors)
    decision = authorizer.authorize(_attributes(user, review.get("spec") or {}))
    status: dict[str, Any] = {"allowed": decision.allowed}
    if decision.reason:
        status["reason"] = decision.reason
    return {**review, "status": status}


def _attributes(user: User, spec: dict[str, Any]) -> Attributes:
    wanted = spec.get("resourceAttributes")
    if wanted is None:
        path = spec.get("nonResourceAttributes") or {}
        return Attributes(user, path.get("verb", ""), path=path.get("path", ""), is_resource=False)
    return Attributes(
        user=user,
        verb=wanted.get("verb", ""),
        group=wanted.get("group", ""),
        version=wanted.get("version", "") or "*",
        resource=wanted.get("resource", ""),
        subresource=wanted.get("subresource", ""),
        namespace=wanted.get("namespace", ""),
        name=wanted.get("name", ""),
        field_requirements=_field_requirements(wanted.get("fieldSelector") or {}),
    )


def _field_requirements(selector: dict[str, Any]) -> tuple[FieldRequirement, ...]:
    """The terms that can be understood; others only widen the question."""
    requirements: tuple[FieldRequirement, ...] = ()
    if selector.get("rawSelector"):
        try:
            requirements = parse_field_selector(selector["rawSelector"])
        except ValueError:
            requirements = ()
    operators = {"In": "=", "NotIn": "!="}
    return requirements + tuple(
        FieldRequirement(item.get("key", ""), operators[item["operator"]], item["values"][0])
        for item in selector.get("requirements") or []
        if item.get("operator") in operators and len(item.get("values") or []) == 1
    )


def _one_of_errors(spec: dict[str, Any]) -> list[FieldError]:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (resource is None) != (path is None):
        return []
    return [FieldError("Invalid", "spec", _ONE_OF, _internal_path(path) if path is not None else None)]


def _subject_errors(spec: dict[str, Any]) -> list[FieldError]:
    errors = _one_of_errors(spec)
    if not spec.get("user") and not spec.get("groups"):
        detail = "at least one of user or group must be specified"
        errors.append(FieldError("Invalid", "spec.user", detail, spec.get("user", "")))
    return errors


def _metadata_errors(review: dict[str, Any], allowed: Sequence[str]) -> list[FieldError]:
    metadata = review.get("metadata") or {}
    ignored = {*allowed, "managedFields", "creationTimestamp"}
    left = {key: value for key, value in metadata.items() if value and key not in ignored}
    if not left:
        return []
    detail = "must be empty" + (" except for namespace" if allowed else "")
    return [FieldError("Invalid", "metadata", detail, metadata)]


def _internal_path(attributes: dict[str, Any]) -> dict[str, Any]:
    """Non-resource attributes as a server prints them: with Go's field names."""
    return {"Path": attributes.get("path", ""), "Verb": attributes.get("verb", "")}


def _invalid(errors: Sequence[FieldError]) -> ApiError:
    """The 422 of these kinds names a group but no kind."""
    error = invalid("", _GROUP, "", errors)
    error.details = {key: value for key, value in (error.details or {}).items() if value}
    return error
