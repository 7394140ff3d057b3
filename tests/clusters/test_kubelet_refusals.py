"""Containers that a kubelet does not start, for what their Pod says."""

from __future__ import annotations

from typing import Any

import pytest
from kubelet_harness import Bench, bench, container, run


async def waiting(made: Bench, name: str) -> Any:
    """Why the container of a Pod waits."""

    async def check() -> Any:
        status = (await made.pod(name)).get("status") or {}
        state = (status.get("containerStatuses") or [{"state": {}}])[0]["state"].get("waiting") or {}
        return state if state.get("message") else None

    return await made.until(check, f"the container of {name} waits for a reason")


@pytest.mark.parametrize(
    ("security", "why"),
    [
        ({}, "container has runAsNonRoot and image will run as root"),
        ({"runAsUser": 0}, "container's runAsUser breaks non-root policy"),
    ],
)
def test_who_must_not_be_root_is_not_started_as_root(security: dict[str, Any], why: str) -> None:
    async def scenario() -> None:
        async with bench() as made:
            await made.create("p", securityContext={"runAsNonRoot": True, **security})
            uid = (await made.pod("p"))["metadata"]["uid"]
            text = f'{why} (pod: "p_default({uid})", container: c)'
            assert await waiting(made, "p") == {"reason": "CreateContainerConfigError", "message": text}
            await made.event("Failed", f"Error: {text}")
            await made.create(
                "q",
                container("c", "pause", securityContext={"runAsUser": 7}),
                container("d", "pause", securityContext={"runAsNonRoot": False}),
                securityContext={"runAsNonRoot": True, **security},
            )
            await made.ready("q")

    run(scenario())


def test_an_image_without_a_proper_name_is_told() -> None:
    async def scenario() -> None:
        async with bench() as made:
            await made.create("p", {**container("c", "pause"), "image": "Bad Image"})
            text = (
                'Failed to apply default image tag "Bad Image": couldn\'t parse image name "Bad Image": '
                "invalid reference format: repository name (library/Bad Image) must be lowercase"
            )
            assert await waiting(made, "p") == {"reason": "InvalidImageName", "message": text}
            await made.event("InspectFailed", text)
            await made.event("Failed", "Error: InvalidImageName")

    run(scenario())
