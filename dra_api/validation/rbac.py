"""Rules for roles and bindings (kubernetes v1.37.2 `pkg/apis/rbac/validation`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .findings import Findings
from .metadata import IMMUTABLE
from .names import dns_subdomain_problems, not_supported, path_segment_problems

Object = Mapping[str, Any]

GROUP: Final = "rbac.authorization.k8s.io"


def check_role(found: Findings, role: Object, *, namespaced: bool) -> None:
    """Rules of a Role or ClusterRole, beside its metadata."""
    for index, rule in enumerate(role.get("rules") or []):
        _check_rule(found, rule, namespaced, f"rules[{index}]")
    aggregation = role.get("aggregationRule")
    if aggregation is not None and not aggregation.get("clusterRoleSelectors"):
        text = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        found.required("aggregationRule.clusterRoleSelectors", text)


def check_binding(found: Findings, binding: Object, old: Object | None, *, namespaced: bool) -> None:
    """Reference and subjects of a RoleBinding or ClusterRoleBinding; the reference never changes."""
    reference = binding.get("roleRef") or {}
    if reference.get("apiGroup") != GROUP:
        found.add(not_supported("roleRef.apiGroup", reference.get("apiGroup") or "", (GROUP,)))
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    if reference.get("kind") not in kinds:
        found.add(not_supported("roleRef.kind", reference.get("kind") or "", kinds))
    name = reference.get("name") or ""
    if name:
        found.invalid_each("roleRef.name", name, path_segment_problems(name))
    else:
        found.required("roleRef.name")
    for index, subject in enumerate(binding.get("subjects") or []):
        _check_subject(found, subject, namespaced, f"subjects[{index}]")
    if old is not None and reference != (old.get("roleRef") or {}):
        found.invalid("roleRef", dict(reference), IMMUTABLE)


def _check_rule(found: Findings, rule: Object, namespaced: bool, path: str) -> None:
    if not rule.get("verbs"):
        found.required(f"{path}.verbs", "verbs must contain at least one value")
    urls = rule.get("nonResourceURLs") or []
    if urls:
        if namespaced:
            text = "namespaced rules cannot apply to non-resource URLs"
            found.invalid(f"{path}.nonResourceURLs", urls, text)
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            found.invalid(f"{path}.nonResourceURLs", urls, text)
        return
    if not rule.get("apiGroups"):
        found.required(f"{path}.apiGroups", "resource rules must supply at least one api group")
    if not rule.get("resources"):
        found.required(f"{path}.resources", "resource rules must supply at least one resource")


def _check_subject(found: Findings, subject: Object, namespaced: bool, path: str) -> None:
    name, kind, group = (subject.get(field) or "" for field in ("name", "kind", "apiGroup"))
    if not name:
        found.required(f"{path}.name")
    if kind == "ServiceAccount":
        if name:
            found.invalid_each(f"{path}.name", name, dns_subdomain_problems(name))
        if group:
            found.add(not_supported(f"{path}.apiGroup", group, ("",)))
        if not namespaced and not subject.get("namespace"):
            found.required(f"{path}.namespace")
    elif kind in ("User", "Group"):
        if group != GROUP:
            found.add(not_supported(f"{path}.apiGroup", group, (GROUP,)))
    else:
        found.add(not_supported(f"{path}.kind", kind, ("ServiceAccount", "User", "Group")))
