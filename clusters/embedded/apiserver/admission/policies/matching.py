"""Whether a policy or a binding is about a request.

Source: apiserver v0.37.2 `pkg/admission/plugin/policy/matching`, `pkg/admission/plugin/webhook/predicates`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from clusters.embedded.apiserver.admission.policies.subject import NAMESPACES, Match, Subject
from clusters.embedded.apiserver.auth.reader import Reader
from dra_api import label_selector

Rules = Mapping[str, Any]

_GROUP: Final = "admissionregistration.k8s.io"
_CONFIGURATION: Final = (
    "validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
)  # fmt: skip
EXEMPT: Final = frozenset(
    {
        *((_GROUP, resource) for resource in _CONFIGURATION),
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "localsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    }
)
"""Group and resource of what no policy is asked about: else nobody could get rid of a policy that refuses all."""


def find_match(subject: Subject, rules: Rules, reader: Reader) -> Match | None:
    """How `matchConstraints` or `matchResources` see a request; None when they do not match."""
    if not _namespace_fits(subject, rules.get("namespaceSelector"), reader):
        return None
    if not _object_fits(subject, rules.get("objectSelector")):
        return None
    equivalent = rules.get("matchPolicy") == "Equivalent"
    if _rules_fit(subject, rules.get("excludeResourceRules") or [], equivalent):
        return None
    wanted = rules.get("resourceRules") or []
    return _rules_fit(subject, wanted, equivalent) if wanted else subject.match


def _namespace_fits(subject: Subject, selector: Any, reader: Reader) -> bool:
    request = subject.request
    is_namespace = (request.group, request.resource) == NAMESPACES
    if not subject.namespace and not is_namespace:
        return True
    if not selector:
        return True
    if is_namespace and not request.subresource and request.operation in ("CREATE", "UPDATE"):
        holder: Mapping[str, Any] | None = request.object
    else:
        holder = reader.get("", "namespaces", "", subject.namespace)
    return _selects(selector, holder)


def _object_fits(subject: Subject, selector: Any) -> bool:
    if not selector:
        return True
    request = subject.request
    return any(obj is not None and _selects(selector, obj) for obj in (request.object, request.old_object))


def _selects(selector: Any, obj: Mapping[str, Any] | None) -> bool:
    labels = ((obj or {}).get("metadata") or {}).get("labels")
    return label_selector.matches(selector, labels)


def _rules_fit(subject: Subject, rules: Sequence[Rules], equivalent: bool) -> Match | None:
    own = subject.match
    for rule in rules:
        if _fits(rule, subject, own):
            return own
    if not equivalent or not rules:
        return None
    others = subject.equivalents()
    for rule in rules:
        for other in others:
            if _fits(rule, subject, other):
                return other
    return None


def _fits(rule: Rules, subject: Subject, match: Match) -> bool:
    request, place = subject.request, match.place
    names = rule.get("resourceNames") or []
    return (
        _scope_fits(rule.get("scope"), subject)
        and _is_among(request.operation, rule.get("operations"))
        and _is_among(place.group, rule.get("apiGroups"))
        and _is_among(place.version, rule.get("apiVersions"))
        and any(_resource_fits(entry, place.resource, request.subresource) for entry in rule["resources"])
        and (not names or request.name in names)
    )


def _is_among(value: str, allowed: Sequence[str] | None) -> bool:
    return any(each in ("*", value) for each in allowed or ())


def _scope_fits(scope: str | None, subject: Subject) -> bool:
    if scope in (None, "*"):
        return True
    request = subject.request
    namespaced = (request.group, request.resource) != NAMESPACES and bool(subject.namespace)
    return namespaced == (scope == "Namespaced")


def _resource_fits(entry: str, resource: str, subresource: str) -> bool:
    wanted, _, part = entry.partition("/")
    return wanted in ("*", resource) and part in ("*", subresource)
