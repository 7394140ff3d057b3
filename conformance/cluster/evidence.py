"""Evidence of a failed test on a whole cluster: objects, events, calls."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from clusters.client import Client, ClientError
from conformance.cluster.kit_driver import KitDriver
from conformance.cluster.manifests import RESOURCE_API
from conformance.model import Evidence

_CHARACTERS = 12_000


def collect(
    client: Client, namespace: str, driver: str, drivers: Sequence[KitDriver]
) -> tuple[Evidence, ...]:
    """What can be had of Pods, claims, slices, events and calls; the cluster may be broken."""
    items: list[Evidence] = []
    with contextlib.suppress(ClientError):
        lines = [_event(event) for event in client.list("v1", "events", namespace)]
        if lines:
            items.append(Evidence("log", "events", "\n".join(lines)))
    for title, api_version, resource in (
        ("Pods", "v1", "pods"),
        ("ResourceClaims", RESOURCE_API, "resourceclaims"),
    ):
        with contextlib.suppress(ClientError):
            if found := client.list(api_version, resource, namespace):
                items.append(Evidence("object", title, _text(found)))
    with contextlib.suppress(ClientError):
        query = {"fieldSelector": f"spec.driver={driver}"}
        if found := client.list(RESOURCE_API, "resourceslices", **query):
            items.append(Evidence("object", "ResourceSlices of the test", _text(found)))
    for kit_driver in drivers:
        calls = [
            f"{call.time:.3f} {call.service} {call.method} {list(call.claims)}" for call in kit_driver.calls()
        ]
        if calls:
            title = f"calls of the kubelet on {kit_driver.node} to {kit_driver.endpoint.name}"
            items.append(Evidence("call", title, "\n".join(calls)))
    return tuple(items)


def _event(event: Mapping[str, Any]) -> str:
    about = event.get("involvedObject") or {}
    return (
        f"{event.get('lastTimestamp') or event.get('eventTime') or ''} {event.get('type')} {event.get('reason')} "
        f"{about.get('kind')}/{about.get('name')}: {event.get('message')}"
    )


def _text(objects: Sequence[Mapping[str, Any]]) -> str:
    slim = []
    for obj in objects:
        metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
        slim.append({**obj, "metadata": metadata})
    return yaml.safe_dump_all(slim, sort_keys=False, allow_unicode=True)[:_CHARACTERS]
