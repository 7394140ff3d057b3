"""The identity of a driver: a service account with exactly the declared permissions, and tokens bound to nodes."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from clusters.client import Client, ClientError
from clusters.descriptor import Descriptor
from clusters.process import StartError

_NAMESPACE = "kube-system"
_RBAC = "rbac.authorization.k8s.io/v1"
# Nobody renews the token of a driver, and a cluster may live as long as its certificates.
_TOKEN_SECONDS = 365 * 24 * 3600


class DriverAccounts:
    """ClusterRole, ServiceAccount and binding of each driver of a cluster, made when first needed. Thread-safe."""

    def __init__(self, client: Client) -> None:
        """`client` acts as an administrator."""
        self._client = client
        self._lock = threading.Lock()
        self._known: set[str] = set()

    def token(self, descriptor: Descriptor, node: Mapping[str, Any]) -> str:
        """A token of the driver's account, valid as long as the Node object exists.

        Bound so, it says on which node the driver runs (`authentication.kubernetes.io/node-name`), as the token of a
        DaemonSet's Pod would. Raises StartError for permissions that the API server refuses, and ClientError.
        """
        self._ensure(descriptor)
        reference = {
            "kind": "Node",
            "apiVersion": "v1",
            "name": node["metadata"]["name"],
            "uid": node["metadata"]["uid"],
        }
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": _TOKEN_SECONDS, "boundObjectRef": reference},
        }
        answer = self._client.create("v1", "serviceaccounts", request, _NAMESPACE, descriptor.name, "token")
        return str(answer["status"]["token"])

    def _ensure(self, descriptor: Descriptor) -> None:
        with self._lock:
            account = descriptor.name
            if account in self._known:
                return
            role = _object(_RBAC, "ClusterRole", f"drakit:driver:{account}")
            role["rules"] = [rule.as_dict() for rule in descriptor.permissions]
            try:
                self._make(_RBAC, "clusterroles", role)
            except ClientError as error:
                # Nothing has been made yet, so that the next node hears the same.
                raise StartError(f"permissions: the API server refuses them: {error.message}") from None
            self._make("v1", "serviceaccounts", _object("v1", "ServiceAccount", account), _NAMESPACE)
            binding = _object(_RBAC, "ClusterRoleBinding", f"drakit:driver:{account}")
            binding["roleRef"] = {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": f"drakit:driver:{account}",
            }
            binding["subjects"] = [{"kind": "ServiceAccount", "name": account, "namespace": _NAMESPACE}]
            self._make(_RBAC, "clusterrolebindings", binding)
            self._known.add(account)

    def _make(
        self, api_version: str, resource: str, body: Mapping[str, Any], namespace: str | None = None
    ) -> None:
        """Create an object; one that is there is from a try that failed at a later one."""
        try:
            self._client.create(api_version, resource, body, namespace)
        except ClientError as error:
            if error.reason != "AlreadyExists":
                raise


def _object(api_version: str, kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}
