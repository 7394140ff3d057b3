"""Rules for what admission policies match: resources, operations, selectors.

Source: kubernetes v1.37.2 `pkg/apis/admissionregistration/validation`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from .findings import Findings
from .formats import check_label_key
from .label_selectors import check_label_selector
from .names import (
    dns1035_label_problems,
    dns_subdomain_problems,
    is_subdomain,
    not_supported,
    path_segment_problems,
    too_many,
)

Object = Mapping[str, Any]

MAX_CONDITIONS: Final = 64
_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES: Final = ("*", "Cluster", "Namespaced")
_POLICIES: Final = ("Equivalent", "Exact")
_EXCLUSIVE: Final = "name and selector are mutually exclusive"


def check_match_resources(found: Findings, constraints: Object | None, path: str) -> None:
    """`matchConstraints` of a policy or `matchResources` of a binding."""
    if constraints is None:
        return
    policy = constraints.get("matchPolicy")
    if policy is None:
        found.required(f"{path}.matchPolicy")
    elif policy not in _POLICIES:
        found.add(not_supported(f"{path}.matchPolicy", policy, _POLICIES))
    for field in ("namespaceSelector", "objectSelector"):
        if constraints.get(field) is None:
            found.required(f"{path}.{field}")
        else:
            check_label_selector(found, constraints[field], f"{path}.{field}")
    for field in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(constraints.get(field) or []):
            _check_rule(found, rule, f"{path}.{field}[{index}]")


def check_param_ref(found: Findings, reference: Object | None, path: str) -> None:
    """`paramRef` of a binding."""
    if reference is None:
        return
    name, selector = reference.get("name") or "", reference.get("selector")
    if name:
        found.invalid_each(f"{path}.name", name, path_segment_problems(name))
        if selector is not None:
            found.forbidden(f"{path}.name", _EXCLUSIVE)
    if selector is not None:
        check_label_selector(found, selector, f"{path}.selector")
        if name:
            found.forbidden(f"{path}.selector", _EXCLUSIVE)
    if not name and selector is None:
        found.required(path, "one of name or selector must be specified")
    action = reference.get("parameterNotFoundAction") or ""
    if not action:
        found.required(f"{path}.parameterNotFoundAction")
    elif action not in ("Deny", "Allow"):
        found.add(not_supported(f"{path}.parameterNotFoundAction", action, ("Deny", "Allow")))


def check_param_kind(found: Findings, kind: Object, path: str) -> None:
    """`paramKind` of a policy."""
    api_version, name = kind.get("apiVersion") or "", kind.get("kind") or ""
    where = f"{path}.apiVersion"
    if not api_version:
        found.required(where)
    elif api_version.count("/") > 1:
        found.invalid(where, api_version, f"unexpected GroupVersion string: {api_version}")
    else:
        group, _, version = api_version.rpartition("/")
        if group and (problems := dns_subdomain_problems(group)):
            found.invalid(where, group, ",".join(problems))
        if not version:
            found.invalid(where, api_version, "version must be specified")
        elif problems := dns1035_label_problems(version):
            found.invalid(where, version, ",".join(problems))
    if not name:
        found.required(f"{path}.kind")
    elif problems := dns1035_label_problems(name.lower()):
        text = "may have mixed case, but should otherwise match: " + ",".join(problems)
        found.invalid(f"{path}.kind", name, text)


def check_policy_name(found: Findings, name: str, path: str, *, declared: bool = True) -> None:
    """The policy of a binding."""
    if name:
        found.invalid_each(path, name, is_subdomain(name, prefix=False))
    else:
        found.required(path, declared=declared)


def check_conditions_named(found: Findings, conditions: Sequence[Object], path: str) -> None:
    """The number of match conditions; each is checked by its policy."""
    if len(conditions) > MAX_CONDITIONS:
        found.add(too_many(path, len(conditions), MAX_CONDITIONS))


def check_condition_name(found: Findings, name: str, path: str) -> None:
    """The name of a match condition."""
    if name:
        check_label_key(found, path, name)
    else:
        found.required(path)


def _check_rule(found: Findings, rule: Object, path: str) -> None:
    names: set[str] = set()
    for index, name in enumerate(rule.get("resourceNames") or []):
        where = f"{path}.resourceNames[{index}]"
        found.invalid_each(where, name, path_segment_problems(name))
        if name in names:
            found.duplicate(where, name)
        names.add(name)
    _check_list(found, rule.get("operations") or [], f"{path}.operations", "operations")
    for index, operation in enumerate(rule.get("operations") or []):
        if operation not in _OPERATIONS:
            found.add(not_supported(f"{path}.operations[{index}]", operation, _OPERATIONS))
    _check_list(found, rule.get("apiGroups") or [], f"{path}.apiGroups", "API groups")
    _check_list(found, rule.get("apiVersions") or [], f"{path}.apiVersions", "API versions")
    for index, version in enumerate(rule.get("apiVersions") or []):
        if not version:
            found.required(f"{path}.apiVersions[{index}]")
    _check_resources(found, rule.get("resources") or [], f"{path}.resources")
    scope = rule.get("scope")
    if scope is not None and scope not in _SCOPES:
        found.add(not_supported(f"{path}.scope", scope, _SCOPES))


def _check_list(found: Findings, values: Sequence[str], path: str, what: str) -> None:
    if not values:
        found.required(path)
    if len(values) > 1 and "*" in values:
        found.invalid(path, list(values), f"if '*' is present, must not specify other {what}")


def _check_resources(found: Findings, resources: Sequence[str], path: str) -> None:
    if not resources:
        found.required(path)
    all_subresources: set[str] = set()
    all_resources: set[str] = set()
    plain = False
    for index, entry in enumerate(resources):
        where = f"{path}[{index}]"
        if not entry:
            found.required(where)
            continue
        resource, slash, subresource = entry.partition("/")
        if not slash:
            # As upstream, the last one decides.
            plain = entry != "*"
            continue
        if resource in all_subresources:
            found.invalid(where, entry, f"if '{resource}/*' is present, must not specify {entry}")
        if subresource in all_resources:
            found.invalid(where, entry, f"if '*/{subresource}' is present, must not specify {entry}")
        if subresource == "*":
            all_subresources.add(resource)
        if resource == "*":
            all_resources.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        found.invalid(path, list(resources), "if '*/*' is present, must not specify other resources")
    if "*" in resources and plain:
        text = "if '*' is present, must not specify other resources without subresources"
        found.invalid(path, list(resources), text)
