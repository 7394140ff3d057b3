"""What a new cluster holds before the first request."""

from __future__ import annotations

import uuid
from typing import Final

from clusters.embedded.apiserver.auth import bootstrap
from clusters.embedded.apiserver.served import Resources
from clusters.embedded.apiserver.storage import Object, Store
from clusters.embedded.apiserver.strategies.service import API_SERVER_ADDRESS
from clusters.embedded.apiserver.times import timestamp
from dra_api.defaults_core import NAMESPACE_LABEL

NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")


def populate(store: Store, resources: Resources, gates: frozenset[str], now: float) -> None:
    """Create what is missing of system namespaces, service accounts and bootstrap roles.

    The controllers' accounts are what kube-controller-manager makes at its start.
    """
    created = timestamp(now)
    for name in NAMESPACES:
        _create(store, resources, _namespace(name), created)
        _create(store, resources, _service_account(name, "default"), created)
    for name in bootstrap.controller_names(gates):
        _create(store, resources, _service_account(bootstrap.SYSTEM_NAMESPACE, name), created)
    _create(store, resources, _api_service(), created)
    for obj in bootstrap.objects(gates):
        _create(store, resources, obj, created)


def _namespace(name: str) -> Object:
    return {
        "kind": "Namespace",
        "apiVersion": "v1",
        "metadata": {"name": name, "labels": {NAMESPACE_LABEL: name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def _api_service() -> Object:
    """The Service by which Pods of a real cluster reach the API server."""
    port = {"name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443}
    labels = {"component": "apiserver", "provider": "kubernetes"}
    return {
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": labels},
        "spec": {
            "ports": [port],
            "clusterIP": API_SERVER_ADDRESS,
            "clusterIPs": [API_SERVER_ADDRESS],
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
        },
        "status": {"loadBalancer": {}},
    }


def _service_account(namespace: str, name: str) -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": metadata}


def _create(store: Store, resources: Resources, obj: Object, created: str) -> None:
    group, _, version = obj["apiVersion"].rpartition("/")
    served = resources.find_kind(group, version, obj["kind"])
    if served is None:
        return
    metadata = obj["metadata"]
    key = served.resource.key
    if store.get(*key, metadata.get("namespace", ""), metadata["name"]) is not None:
        return
    system = {"uid": str(uuid.uuid4()), "creationTimestamp": created}
    store.create(
        key, {"kind": obj["kind"], "apiVersion": obj["apiVersion"], **obj, "metadata": {**metadata, **system}}
    )
