"""Identities of the parts of a cluster: keys, certificates and tokens, in files that their owner alone can read."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from clusters import tls
from clusters.proxies import kubeconfig
from clusters.tls import Certificates

MASTERS: Final = "system:masters"
_NODES: Final = "system:nodes"
ADMIN: Final = "drakit:admin"
SCHEDULER: Final = "system:kube-scheduler"
CONTROLLER_MANAGER: Final = "system:kube-controller-manager"
FRONT_PROXY: Final = "front-proxy-client"


def node_user(name: str) -> str:
    """The user of a node's kubelet."""
    return f"system:node:{name}"


class Credentials:
    """Files below `folder`; `authority` signs what else is needed."""

    def __init__(self, folder: Path, nodes: Sequence[str]) -> None:
        """Make them, with a user for the kubelet of each node. Raises OSError."""
        folder.mkdir(mode=0o700)
        self._folder = folder
        self.authority = tls.Authority()
        self.ca = write(folder / "ca.pem", self.authority.pem)
        self.apiserver = self.pair(
            "apiserver",
            self.authority.server(
                "kube-apiserver", *tls.SERVICE_NAMES, "kubernetes.default.svc.cluster.local"
            ),
        )
        self.serving = self.pair("component", self.authority.server("component", "localhost"))
        """For the secure ports of scheduler and controller manager."""
        self.kubelet_client = self.pair(
            "kubelet-client", self.authority.client("kube-apiserver-kubelet-client")
        )
        front_proxy = tls.Authority("drakit-front-proxy-ca")
        self.front_proxy_ca = write(folder / "front-proxy-ca.pem", front_proxy.pem)
        self.front_proxy = self.pair("front-proxy-client", front_proxy.client(FRONT_PROXY))
        private, public = tls.key_pair()
        self.service_account_key = write(folder / "service-account.key", private)
        self.service_account_public_key = write(folder / "service-account.pub", public)
        users = [(ADMIN, MASTERS), (SCHEDULER, ""), (CONTROLLER_MANAGER, "")]
        users += [(node_user(name), _NODES) for name in nodes]
        self._tokens = {user: secrets.token_urlsafe(24) for user, _ in users}
        lines = [
            f'{self._tokens[user]},{user},{user},"{groups}"'
            if groups
            else f"{self._tokens[user]},{user},{user}"
            for user, groups in users
        ]
        self.tokens = write(folder / "tokens.csv", ("\n".join(lines) + "\n").encode())

    def token(self, user: str) -> str:
        """The bearer token of a user."""
        return self._tokens[user]

    def pair(self, name: str, issued: Certificates) -> tuple[Path, Path]:
        """Files with a certificate and its key."""
        return (
            write(self._folder / f"{name}.pem", issued.certificate_pem),
            write(self._folder / f"{name}.key", issued.key_pem),
        )

    def kubeconfig(self, user: str, server: str) -> Path:
        """A kubeconfig of a user, for the address that the API server has now. Raises OSError."""
        path = self._folder / f"{user.replace(':', '-')}.kubeconfig"
        kubeconfig.write(path, server=server, ca_pem=self.authority.pem, token=self._tokens[user], user=user)
        return path

    def all_tokens(self) -> list[str]:
        """What must not be shown."""
        return list(self._tokens.values())


def write(path: Path, data: bytes) -> Path:
    """Write a file that its owner alone can read, and return its path. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    return path
