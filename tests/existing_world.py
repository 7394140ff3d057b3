"""A cluster of somebody's, as tests of every tier look at it: what is on it, and accounts with the least rights."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from clusters.client import Client, ClientError
from clusters.existing.leftovers import all_kinds
from clusters.existing.settings import Settings
from conformance.cluster import manifests

Snapshot = dict[tuple[str, str, str, str], Any]


def wait_settled(client: Client) -> None:
    """Wait for what a cluster that has just become ready still makes by itself: the lease of each node."""
    deadline = time.monotonic() + 60
    while True:
        nodes = {node["metadata"]["name"] for node in client.list("v1", "nodes")}
        leases = client.list("coordination.k8s.io/v1", "leases", "kube-node-lease")
        if nodes <= {lease["metadata"]["name"] for lease in leases}:
            return
        assert time.monotonic() < deadline, "not every node has a lease"
        time.sleep(0.2)


def snapshot(client: Client, driver: str) -> Snapshot:
    """Every object but events and the driver's slices, by resource, namespace, name and UID, with its spec."""
    found: Snapshot = {}
    for version, resource in all_kinds(client):
        if resource == "events":
            continue
        for item in client.list(version, resource):
            metadata = item["metadata"]
            if resource == "resourceslices" and item["spec"]["driver"] == driver:
                continue
            key = (resource, metadata.get("namespace", ""), metadata["name"], metadata["uid"])
            found[key] = None if resource == "leases" else item.get("spec")
    return found


def apply(client: Client, objects: Iterable[Mapping[str, Any]]) -> None:
    """Make objects of RBAC that are not there yet."""
    for obj in objects:
        resource = "serviceaccounts" if obj["kind"] == "ServiceAccount" else f"{obj['kind'].lower()}s"
        try:
            client.create(obj["apiVersion"], resource, obj)
        except ClientError as error:
            assert error.reason == "AlreadyExists", error


def token(client: Client, name: str, namespace: str = "default") -> str:
    """A token of a service account."""
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 7200},
    }
    return str(client.create("v1", "serviceaccounts", request, namespace, name, "token")["status"]["token"])


def other_user(kubeconfig: Path, path: Path, user: Mapping[str, Any]) -> Path:
    """A copy of a kubeconfig with another user."""
    document = yaml.safe_load(kubeconfig.read_text())
    document["users"][0]["user"] = dict(user)
    path.write_text(yaml.safe_dump(document))
    return path


def check_pod_security(client: Client) -> None:
    """A namespace of level restricted refuses Pods as tests make them, and takes them in the form of this tier."""
    name = "drakit-pod-security"
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    client.create(
        "v1",
        "namespaces",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": label}},
    )
    try:
        deadline = time.monotonic() + 30
        while client.find("v1", "serviceaccounts", "default", name) is None:
            assert time.monotonic() < deadline, "no default service account"
            time.sleep(0.1)
        pod = manifests.pod(
            "pod",
            claims={"device": "claim"},
            containers=[manifests.container(claims=["device"])],
            initContainers=[manifests.container("init")],
        )
        settings = Settings(run="abcd", image="probe", restricted=True)
        path, dry = f"/api/v1/namespaces/{name}/pods", {"dryRun": "All"}
        client.request("POST", path, body=settings.shaped(pod), query=dry)
        try:
            client.request("POST", path, body=pod, query=dry)
        except ClientError as error:
            assert 'violates PodSecurity "restricted' in error.message
        else:
            raise AssertionError("the namespace is not of level restricted")
    finally:
        client.delete("v1", "namespaces", name)
