"""Role-based access control (api-machinery section 14)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from clusters.embedded.apiserver.auth.attributes import Attributes, Decision
from clusters.embedded.apiserver.auth.reader import Reader, metadata
from clusters.embedded.apiserver.auth.text import aggregated, quoted
from clusters.embedded.apiserver.auth.users import User, service_account_name

GROUP: Final = "rbac.authorization.k8s.io"
_KINDS: Final = ("clusterrolebindings", "clusterroles", "rolebindings", "roles")
# Users and namespaces whose grants are remembered.
_KEPT: Final = 1000

Rule = dict[str, Any]
"""A PolicyRule: verbs, apiGroups, resources, resourceNames, nonResourceURLs."""


@dataclass(frozen=True)
class Grant:
    """A rule that applies to a user and the binding (in words) that it comes from."""

    source: str
    rule: Rule


@dataclass
class Grants:
    """All rules of a user in a namespace, and the problems met while resolving roles."""

    grants: list[Grant] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def rules(self) -> list[Rule]:
        """The rules alone."""
        return [grant.rule for grant in self.grants]


class RoleNotFoundError(Exception):
    """A role reference that leads nowhere."""

    def __init__(self, kind: str, name: str) -> None:
        self.kind = kind
        self.name = name
        known = kind in ("Role", "ClusterRole")
        super().__init__(
            f"{kind.lower()}.{GROUP} {quoted(name)} not found"
            if known
            else f"unsupported role reference kind: {quoted(kind)}"
        )


class Rbac:
    """Allows what the roles bound to a user allow."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._state: list[object] = []
        self._kept: OrderedDict[tuple[str, tuple[str, ...], str], list[Grant | str]] = OrderedDict()

    def authorize(self, attributes: Attributes) -> Decision:
        """Allowed if any rule matches; the reason names the binding, or roles that are missing."""
        errors = []
        for grant in self._granted(attributes.user, attributes.namespace):
            if isinstance(grant, str):
                errors.append(grant)
            elif rule_allows(grant.rule, attributes):
                return Decision(True, f"RBAC: allowed by {grant.source}")
        return Decision(False, f"RBAC: {aggregated(errors)}" if errors else "")

    def _granted(self, user: User, namespace: str) -> list[Grant | str]:
        """What _visit gives, kept until a role or binding changes."""
        state = [self._reader.changed(GROUP, kind) for kind in _KINDS]
        if state != self._state:
            self._kept.clear()
            self._state = state
        key = (user.name, user.groups, namespace)
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = list(self._visit(user, namespace))
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return found

    def grants(self, user: User, namespace: str) -> Grants:
        """Everything granted to a user in a namespace (cluster-wide only if it is empty)."""
        result = Grants()
        for grant in self._visit(user, namespace):
            if isinstance(grant, str):
                result.errors.append(grant)
            else:
                result.grants.append(grant)
        return result

    def role_rules(self, role_ref: dict[str, Any], namespace: str) -> list[Rule]:
        """The rules of a referenced role; RoleNotFoundError if there is none."""
        kind, name = role_ref.get("kind", ""), role_ref.get("name", "")
        role = None
        if kind == "Role":
            role = self._reader.get(GROUP, "roles", namespace, name)
        elif kind == "ClusterRole":
            role = self._reader.get(GROUP, "clusterroles", "", name)
        if role is None:
            raise RoleNotFoundError(kind, name)
        return list(role.get("rules") or [])

    def _visit(self, user: User, namespace: str) -> Iterator[Grant | str]:
        for binding in self._reader.list(GROUP, "clusterrolebindings"):
            yield from self._of_binding(binding, user, "")
        if namespace:
            for binding in self._reader.list(GROUP, "rolebindings", namespace):
                yield from self._of_binding(binding, user, namespace)

    def _of_binding(self, binding: dict[str, Any], user: User, namespace: str) -> Iterator[Grant | str]:
        subject = next(
            (item for item in binding.get("subjects") or [] if subject_applies(item, user, namespace)), None
        )
        if subject is None:
            return
        role_ref = binding.get("roleRef") or {}
        try:
            rules = self.role_rules(role_ref, namespace)
        except RoleNotFoundError as error:
            yield str(error)
            return
        source = _source(binding, role_ref, subject, namespace)
        for rule in rules:
            yield Grant(source, rule)


def subject_applies(subject: dict[str, Any], user: User, namespace: str) -> bool:
    """Whether a subject of a binding means the user; `namespace` is the binding's, empty if it has none."""
    kind, name = subject.get("kind"), subject.get("name", "")
    if kind == "User":
        return bool(user.name == name)
    if kind == "Group":
        return name in user.groups
    if kind == "ServiceAccount":
        where = subject.get("namespace") or namespace
        return bool(where) and user.name == service_account_name(where, name)
    return False


def rule_allows(rule: Rule, attributes: Attributes) -> bool:
    """Whether one rule covers one access."""
    if not _has(rule, "verbs", attributes.verb):
        return False
    if not attributes.is_resource:
        return any(_url_matches(pattern, attributes.path) for pattern in rule.get("nonResourceURLs") or [])
    names = rule.get("resourceNames") or []
    return (
        _has(rule, "apiGroups", attributes.group)
        and resource_matches(rule.get("resources") or [], attributes.resource, attributes.subresource)
        and (not names or attributes.name in names)
    )


def resource_matches(patterns: list[str], resource: str, subresource: str) -> bool:
    """Whether one of the rule's resources covers a (sub)resource: `*`, the exact form or `*/sub`.

    `pods/*` covers nothing and `pods` does not cover `pods/log`.
    """
    combined = f"{resource}/{subresource}" if subresource else resource
    accepted = {"*", combined}
    if subresource:
        accepted.add(f"*/{subresource}")
    return any(pattern in accepted for pattern in patterns)


def _has(rule: Rule, key: str, value: str) -> bool:
    values = rule.get(key) or []
    return "*" in values or value in values


def _url_matches(pattern: str, path: str) -> bool:
    if pattern in ("*", path):
        return True
    return pattern.endswith("*") and path.startswith(pattern.rstrip("*"))


def _source(
    binding: dict[str, Any], role_ref: dict[str, Any], subject: dict[str, Any], namespace: str
) -> str:
    name = metadata(binding).get("name", "")
    who = subject.get("name", "")
    if subject.get("kind") == "ServiceAccount":
        who = f"{who}/{subject.get('namespace') or namespace}"
    kind = "ClusterRoleBinding"
    if namespace:
        kind, name = "RoleBinding", f"{name}/{namespace}"
    role = f"{role_ref.get('kind', '')} {quoted(role_ref.get('name', ''))}"
    return f"{kind} {quoted(name)} of {role} to {subject.get('kind', '')} {quoted(who)}"
