"""Which rights a client used, held against the rules that it declares."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from clusters.proxies.api_calls import ApiCall

_DRA: Final = "resource.k8s.io"
# Every authenticated client may do this (roles system:basic-user, system:discovery, system:public-info-viewer).
_GRANTED_TO_ALL: Final = {
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
}
_STATUS_WRITES: Final = ("update", "patch")


class DeclaredRule(Protocol):
    """A rule of a Role or ClusterRole for resources."""

    @property
    def api_groups(self) -> Sequence[str]:
        """API groups, `""` for core."""
        ...

    @property
    def resources(self) -> Sequence[str]:
        """Resources, `pods/status` for subresources."""
        ...

    @property
    def verbs(self) -> Sequence[str]:
        """Verbs."""
        ...

    @property
    def resource_names(self) -> Sequence[str]:
        """Object names; none means all."""
        ...


@dataclass(frozen=True, order=True)
class Permission:
    """One right: a verb on a resource of a group, for one object name if that was known."""

    group: str
    resource: str
    verb: str
    name: str = ""

    def __str__(self) -> str:
        group = f".{self.group}" if self.group else ""
        name = f" {self.name}" if self.name else ""
        return f"{self.verb} {self.resource}{group}{name}"


@dataclass(frozen=True)
class Report:
    """Rights used without a declared rule, and declared ones never used; both sorted."""

    undeclared: tuple[Permission, ...]
    unused: tuple[Permission, ...]


def report(calls: Iterable[ApiCall], declared: Sequence[DeclaredRule]) -> Report:
    """Compare. A right counts as used when it was asked for, even if the server refused it.

    Wildcards in declared rules count as used when any use falls under them.
    """
    used = {permission for call in calls for permission in needed(call)}
    undeclared = {
        permission
        for permission in used
        if not any(
            covers(rule, alternative) for rule in declared for alternative in _alternatives(permission)
        )
    }
    unused = {
        single
        for rule in declared
        for single in _singles(rule)
        if not any(_is_use(single, alternative) for item in used for alternative in _alternatives(item))
    }
    return Report(tuple(sorted(undeclared)), tuple(sorted(unused)))


def needed(call: ApiCall) -> list[Permission]:
    """The rights that a call needs beyond what every client has."""
    info = call.info
    if not info.is_resource or (info.group, info.resource) in _GRANTED_TO_ALL:
        return []
    if call.status == 401:
        return []
    result = [Permission(info.group, info.full_resource, info.verb, info.name)]
    if (info.group, info.full_resource) == (_DRA, "resourceclaims/status") and info.verb in _STATUS_WRITES:
        # Device entries need a right of their own, named after each driver.
        for driver in _drivers(call.body):
            result.append(Permission(_DRA, "resourceclaims/driver", f"associated-node:{info.verb}", driver))
    return result


def covers(rule: DeclaredRule, permission: Permission) -> bool:
    """Whether a rule grants a right."""
    subresource = permission.resource.partition("/")[2]
    accepted = {"*", permission.resource} | ({f"*/{subresource}"} if subresource else set())
    names = rule.resource_names
    return (
        bool({"*", permission.verb} & set(rule.verbs))
        and bool({"*", permission.group} & set(rule.api_groups))
        and bool(accepted & set(rule.resources))
        and (not names or permission.name in names)
    )


def _alternatives(permission: Permission) -> Iterator[Permission]:
    """The rights of which one is enough: a driver may also have its right for arbitrary nodes."""
    yield permission
    if permission.verb.startswith("associated-node:"):
        verb = permission.verb.replace("associated", "arbitrary", 1)
        yield Permission(permission.group, permission.resource, verb, permission.name)


def _singles(rule: DeclaredRule) -> Iterator[Permission]:
    for group in rule.api_groups:
        for resource in rule.resources:
            for verb in rule.verbs:
                for name in rule.resource_names or ("",):
                    yield Permission(group, resource, verb, name)


def _is_use(single: Permission, used: Permission) -> bool:
    subresource = used.resource.partition("/")[2]
    return (
        single.verb in ("*", used.verb)
        and single.group in ("*", used.group)
        and single.resource in ("*", used.resource, f"*/{subresource}" if subresource else "*")
        and single.name in ("", used.name)
    )


def _drivers(body: Any) -> list[str]:
    """The drivers named in the status.devices of a claim (or a patch of one)."""
    status = body.get("status") if isinstance(body, dict) else None
    devices = status.get("devices") if isinstance(status, dict) else None
    found = {item.get("driver", "") for item in devices or () if isinstance(item, dict)}
    return sorted(found - {""})
