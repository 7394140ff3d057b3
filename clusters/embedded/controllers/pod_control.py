"""Creation and deletion of Pods on behalf of their owners."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from clusters.client import ClientError
from clusters.embedded.components.client import ApiClient, Object
from clusters.embedded.components.events import EventRecorder
from clusters.embedded.controllers.pods import controller_ref, namespace_terminating

_NAME_LIMIT: Final = 253
_AT_ONCE: Final = 16
Item = TypeVar("Item")


def pod_from_template(template: Mapping[str, Any], owner: Mapping[str, Any]) -> Object:
    """A Pod of a template, under the control of `owner`, its name to be generated from the owner's."""
    metadata = template.get("metadata") or {}
    name = str(owner["metadata"]["name"])
    prefix = f"{name}-" if len(name) < _NAME_LIMIT else name
    made: Object = {"generateName": prefix, "namespace": owner["metadata"]["namespace"]}
    for field in ("labels", "annotations", "finalizers"):
        if metadata.get(field):
            made[field] = copy.deepcopy(metadata[field])
    made["ownerReferences"] = [controller_ref(owner)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": made,
        "spec": copy.deepcopy(template.get("spec") or {}),
    }


class PodControl:
    """Creates and deletes Pods for their owners and tells the owners' readers in events."""

    def __init__(self, client: ApiClient, recorder: EventRecorder) -> None:
        self._client = client
        self._recorder = recorder

    async def create(self, pod: Object, owner: Mapping[str, Any]) -> Object:
        """Create a Pod. Raises ClientError after an event FailedCreate."""
        try:
            made = await self._client.create("v1", "pods", pod, pod["metadata"]["namespace"])
        except ClientError as error:
            if not namespace_terminating(error):
                self._recorder.event(owner, "Warning", "FailedCreate", f"Error creating: {error.message}")
            raise
        name = made["metadata"]["name"]
        self._recorder.event(owner, "Normal", "SuccessfulCreate", f"Created pod: {name}")
        return made

    async def delete(self, pod: Mapping[str, Any], owner: Mapping[str, Any]) -> None:
        """Delete a Pod. Raises ClientError, after an event FailedDelete unless the Pod is gone."""
        metadata = pod["metadata"]
        try:
            await self._client.delete("v1", "pods", metadata["name"], metadata["namespace"])
        except ClientError as error:
            if error.code != 404:
                self._recorder.event(owner, "Warning", "FailedDelete", f"Error deleting: {error.message}")
            raise
        self._recorder.event(owner, "Normal", "SuccessfulDelete", f"Deleted pod: {metadata['name']}")


async def slow_start(count: int, create: Callable[[int], Awaitable[None]]) -> tuple[int, ClientError | None]:
    """Call `create` with 0..count-1, in batches of 1, 2, 4, ... at once; after a failure no further batch starts.

    Returns the number of calls that did well and the first error.
    """
    successes, start, size = 0, 0, min(count, 1)
    while size > 0:
        errors = await _outcomes(create, range(start, start + size))
        successes += size - len(errors)
        if errors:
            return successes, errors[0]
        start += size
        size = min(2 * size, count - start)
    return successes, None


async def together(function: Callable[[Item], Awaitable[None]], items: Iterable[Item]) -> ClientError | None:
    """Call `function` for all items at once; the first error in their order."""
    errors = await _outcomes(function, items)
    return errors[0] if errors else None


async def _outcomes(function: Callable[[Item], Awaitable[None]], items: Iterable[Item]) -> list[ClientError]:
    """The errors of calls that run at once, but no more than so many that they get by with a few connections."""
    places = asyncio.Semaphore(_AT_ONCE)

    async def call(item: Item) -> ClientError | None:
        async with places:
            try:
                await function(item)
            except ClientError as error:
                return error
        return None

    outcomes = await asyncio.gather(*(call(item) for item in items))
    return [error for error in outcomes if error is not None]
