"""Nobody grants rights not held: the check on writing roles and bindings (api-machinery section 14)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from clusters.api_status import forbidden, not_found
from clusters.embedded.apiserver.auth.attributes import Attributes, Authorizer
from clusters.embedded.apiserver.auth.rbac import GROUP, Rbac, RoleNotFoundError, Rule
from clusters.embedded.apiserver.auth.reader import metadata
from clusters.embedded.apiserver.auth.text import aggregated, quoted, quoted_list
from clusters.embedded.apiserver.auth.users import MASTERS, User

_EVERYTHING: list[Rule] = [
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
]


def check_write(
    user: User,
    resource: str,
    obj: dict[str, Any],
    old: dict[str, Any] | None,
    *,
    rbac: Rbac,
    authorizer: Authorizer,
) -> None:
    """Refuse (ApiError 403) a create (`old` None) or update of a role or binding that escalates rights.

    `resource` is roles, clusterroles, rolebindings or clusterrolebindings. Members of system:masters and
    users with the verb escalate (roles) or bind (bindings) are free; a binding of a missing role is a 404.
    """
    if MASTERS in user.groups:
        return
    namespace, name = metadata(obj).get("namespace", ""), metadata(obj).get("name", "")
    if resource in ("roles", "clusterroles"):
        # A create by POST has no name in its URL, so rights limited to names do not apply.
        target = Attributes(user, "escalate", GROUP, "*", resource, "", namespace, name if old else "")
        allowed = authorizer.authorize(target).allowed
        if allowed or _same_but_garbage_collection(obj, old):
            return
        missing = _missing_text(user, namespace, list(obj.get("rules") or []), rbac)
        if missing:
            raise forbidden(resource, GROUP, name, missing)
        aggregates = any((item or {}).get("aggregationRule") for item in (obj, old))
        if aggregates and _missing_text(user, namespace, _EVERYTHING, rbac):
            why = "must have cluster-admin privileges to use the aggregationRule"
            raise forbidden(resource, GROUP, name, why)
        return
    role_ref = obj.get("roleRef") or {}
    role_resource = {"Role": "roles", "ClusterRole": "clusterroles"}.get(role_ref.get("kind", ""), "")
    target = Attributes(
        user,
        "bind",
        role_ref.get("apiGroup", GROUP),
        "*",
        role_resource,
        "",
        namespace,
        role_ref.get("name", ""),
    )
    if _same_but_garbage_collection(obj, old) or (role_resource and authorizer.authorize(target).allowed):
        return
    try:
        rules = rbac.role_rules(role_ref, namespace)
    except RoleNotFoundError as error:
        raise not_found(role_resource or error.kind, GROUP, error.name) from None
    missing = _missing_text(user, namespace, rules, rbac)
    if missing:
        raise forbidden(resource, GROUP, name, missing)


def uncovered(owned: Sequence[Rule], wanted: Sequence[Rule]) -> list[Rule]:
    """The single rights (one verb, group, resource and name, or URL each) that no owned rule holds."""
    return [part for part in _parts(wanted) if not any(_covers(rule, part) for rule in owned)]


def _parts(rules: Sequence[Rule]) -> list[Rule]:
    parts: list[Rule] = []
    for rule in rules:
        for group, resource, verb in itertools.product(
            rule.get("apiGroups") or [], rule.get("resources") or [], rule.get("verbs") or []
        ):
            base: Rule = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
            names = rule.get("resourceNames") or []
            parts += [base | {"resourceNames": [name]} for name in names] if names else [base]
        for url, verb in itertools.product(rule.get("nonResourceURLs") or [], rule.get("verbs") or []):
            parts.append({"nonResourceURLs": [url], "verbs": [verb]})
    return parts


def _covers(rule: Rule, part: Rule) -> bool:
    verbs = rule.get("verbs") or []
    if "*" not in verbs and part["verbs"][0] not in verbs:
        return False
    if "nonResourceURLs" in part:
        wanted = part["nonResourceURLs"][0]
        return any(
            url in ("*", wanted) or (url.endswith("*") and wanted.startswith(url[:-1]))
            for url in rule.get("nonResourceURLs") or []
        )
    groups, resources = rule.get("apiGroups") or [], rule.get("resources") or []
    if "*" not in groups and part["apiGroups"][0] not in groups:
        return False
    wanted = part["resources"][0]
    accepted = {"*", wanted}
    if "/" in wanted:
        accepted.add("*/" + wanted.split("/", 1)[1])
    if not accepted & set(resources):
        return False
    names = rule.get("resourceNames") or []
    return not names or (bool(part.get("resourceNames")) and part["resourceNames"][0] in names)


def _missing_text(user: User, namespace: str, rules: list[Rule], rbac: Rbac) -> str:
    held = rbac.grants(user, namespace)
    missing = uncovered(held.rules, rules)
    if not missing:
        return ""
    merged: dict[tuple[str, ...], Rule] = {}
    for part in missing:
        if "nonResourceURLs" in part:
            key = ("url", part["nonResourceURLs"][0], part["verbs"][0])
        else:
            key = ("", part["apiGroups"][0], part["resources"][0], *part.get("resourceNames", []))
        kept = merged.setdefault(key, part | {"verbs": []})
        kept["verbs"] = [*dict.fromkeys((*kept["verbs"], *part["verbs"]))]
    lines = sorted({_compact(rule) for rule in merged.values()})
    text = (
        f"user {quoted(user.name)} (groups={quoted_list(user.groups)}) "
        "is attempting to grant RBAC permissions not currently held:\n" + "\n".join(lines)
    )
    return f"{text}; resolution errors: {aggregated(held.errors)}" if held.errors else text


def _compact(rule: Rule) -> str:
    labels = {
        "apiGroups": "APIGroups",
        "resources": "Resources",
        "nonResourceURLs": "NonResourceURLs",
        "resourceNames": "ResourceNames",
        "verbs": "Verbs",
    }
    return "{" + ", ".join(f"{labels[key]}:{quoted_list(rule[key])}" for key in labels if rule.get(key)) + "}"


def _same_but_garbage_collection(obj: dict[str, Any], old: dict[str, Any] | None) -> bool:
    """Whether only what garbage collection writes (owners, finalizers) differs."""
    if old is None:
        return False

    def rest(item: dict[str, Any]) -> dict[str, Any]:
        loose = {"ownerReferences", "finalizers", "managedFields", "resourceVersion"}
        kept = {key: value for key, value in metadata(item).items() if key not in loose}
        return {**item, "metadata": kept}

    return rest(obj) == rest(old)
