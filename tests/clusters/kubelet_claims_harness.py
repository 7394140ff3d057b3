"""Claims and Pods that use them, for tests of kubelets with the small driver."""

from __future__ import annotations

import json
from typing import Any

from kubelet_harness import (
    NODE,
    RESOURCE,
    Bench,
    container,
)
from small_driver import NAME, SmallDriver

from clusters.embedded.kubelet.dra.checkpoint import decode

PREFIX = "Failed to prepare dynamic resources: prepare dynamic resources: "


def cdi(made: Bench, claim: dict[str, Any]) -> None:
    """The spec that the small driver answers with the name of."""
    uid = claim["metadata"]["uid"]
    edits = {"env": [f"CLAIM_{claim['metadata']['name'].upper().replace('-', '_')}={uid}"]}
    spec = {"cdiVersion": "0.6.0", "kind": "a.com/c", "devices": [{"name": uid, "containerEdits": edits}]}
    (made.cdi / f"{uid}.json").write_text(json.dumps(spec))


async def claim(made: Bench, name: str = "claim", *drivers: str, **more: Any) -> dict[str, Any]:
    found = await made.claim(name, *drivers, **more)
    cdi(made, found)
    return found


async def claimed_pod(
    made: Bench, name: str, *claims: str, command: tuple[str, ...] = (), **spec: Any
) -> dict[str, Any]:
    """A Pod of one container that refers to all claims; the Pod is in their reservedFor."""
    own = container("c", *command, resources={"claims": [{"name": item} for item in claims]})
    pod = await made.create(
        name, own, resourceClaims=[{"name": item, "resourceClaimName": item} for item in claims], **spec
    )
    for item in claims:
        await made.reserve(item, pod)
    return pod


def calls(small: SmallDriver, method: str) -> list[list[str]]:
    return [[item.name for item in request.claims] for _, called, request in small.calls if called == method]


def cached(made: Bench) -> list[dict[str, Any]]:
    return decode((made.root / "dra_manager_state").read_bytes())


async def slices(made: Bench) -> list[str]:
    found = await made.client.list(RESOURCE, "resourceslices")
    return sorted(item["metadata"]["name"] for item in found["items"])


async def publish(made: Bench, name: str, driver_name: str = NAME, **owner: Any) -> None:
    body = {
        "apiVersion": RESOURCE,
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {
            "driver": driver_name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "d"}],
            **(owner or {"nodeName": NODE}),
        },
    }
    await made.client.create(RESOURCE, "resourceslices", body)
