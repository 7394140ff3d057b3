"""Who sends a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

ANONYMOUS: Final = "system:anonymous"
ALL_AUTHENTICATED: Final = "system:authenticated"
ALL_UNAUTHENTICATED: Final = "system:unauthenticated"
MASTERS: Final = "system:masters"
NODES: Final = "system:nodes"
SERVICE_ACCOUNTS: Final = "system:serviceaccounts"

CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"
NODE_NAME: Final = "authentication.kubernetes.io/node-name"
NODE_UID: Final = "authentication.kubernetes.io/node-uid"
POD_NAME: Final = "authentication.kubernetes.io/pod-name"
POD_UID: Final = "authentication.kubernetes.io/pod-uid"

_NODE_PREFIX: Final = "system:node:"
_SERVICE_ACCOUNT_PREFIX: Final = "system:serviceaccount:"


@dataclass(frozen=True)
class User:
    """An identity: user name, uid, groups and further attributes (each a list of values)."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    def info(self) -> dict[str, Any]:
        """The UserInfo of reviews; empty parts are left out."""
        info: dict[str, Any] = {"username": self.name}
        if self.uid:
            info["uid"] = self.uid
        if self.groups:
            info["groups"] = list(self.groups)
        if self.extra:
            info["extra"] = {key: list(values) for key, values in sorted(self.extra.items())}
        return info

    def authenticated(self) -> User:
        """The same user as a member of system:authenticated, unless known as authenticated or not."""
        if ALL_AUTHENTICATED in self.groups or ALL_UNAUTHENTICATED in self.groups:
            return self
        return replace(self, groups=(*self.groups, ALL_AUTHENTICATED))

    @property
    def node(self) -> str | None:
        """The node name of a kubelet identity, None for everybody else.

        A kubelet is called system:node:NAME and is a member of system:nodes.
        """
        if NODES in self.groups and self.name.startswith(_NODE_PREFIX):
            return self.name.removeprefix(_NODE_PREFIX)
        return None

    @property
    def service_account(self) -> tuple[str, str] | None:
        """Namespace and name of a service account identity, None for everybody else."""
        return split_service_account(self.name)


def anonymous() -> User:
    """The user of a request without credentials."""
    return User(ANONYMOUS, groups=(ALL_UNAUTHENTICATED,))


def node_user(name: str) -> User:
    """The kubelet of a node."""
    return User(_NODE_PREFIX + name, groups=(NODES, ALL_AUTHENTICATED))


def service_account_name(namespace: str, name: str) -> str:
    """The user name of a service account."""
    return f"{_SERVICE_ACCOUNT_PREFIX}{namespace}:{name}"


def service_account_groups(namespace: str) -> tuple[str, ...]:
    """The groups of each service account of a namespace, without system:authenticated."""
    return (SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}")


def split_service_account(user_name: str) -> tuple[str, str] | None:
    """Namespace and name out of `system:serviceaccount:NAMESPACE:NAME`, None for other user names."""
    if not user_name.startswith(_SERVICE_ACCOUNT_PREFIX):
        return None
    parts = user_name.removeprefix(_SERVICE_ACCOUNT_PREFIX).split(":")
    if len(parts) != 2 or not all(parts):
        return None
    return parts[0], parts[1]
