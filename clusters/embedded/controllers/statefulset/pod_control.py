"""Creation, update and deletion of the Pods and claims of StatefulSets, with their events."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from clusters.client import ClientError
from clusters.embedded.components.client import ApiClient, Object
from clusters.embedded.components.events import EventRecorder
from clusters.embedded.controllers.controller import SyncError
from clusters.embedded.controllers.pods import labels_of
from clusters.embedded.controllers.statefulset import identity

_CLAIMS = "persistentvolumeclaims"


class StatefulPodControl:
    """For the Pods of one set."""

    def __init__(
        self,
        client: ApiClient,
        recorder: EventRecorder,
        found: Object,
        written: Callable[[Object], None],
    ) -> None:
        """`written` is told of every Pod that was written."""
        self._client, self._recorder, self._found, self._written = client, recorder, found, written

    async def create(self, pod: Object) -> None:
        """Create the claims of a Pod, then the Pod. Raises ClientError."""
        try:
            await self.create_claims(pod)
        except ClientError as error:
            self._tell("Create", pod, error.message)
            raise
        try:
            made = await self._client.create("v1", "pods", pod, pod["metadata"]["namespace"])
        except ClientError as error:
            if error.code != 409:
                self._tell("Create", pod, error.message)
            raise
        self._written(made)
        self._tell("Create", pod)

    async def update(self, pod: Mapping[str, Any]) -> None:
        """Give a Pod the labels and volumes of a member. Raises ClientError."""
        changed = copy.deepcopy(dict(pod))
        ordinal = identity.ordinal_of(pod)
        if not identity.has_identity(self._found, pod):
            labels = {**labels_of(pod), **identity.identity_labels(self._found, ordinal)}
            changed["metadata"]["labels"] = labels
        if not identity.has_storage(self._found, pod):
            volumes = changed["spec"].get("volumes") or []
            changed["spec"]["volumes"] = identity.with_storage(self._found, ordinal, volumes)
        try:
            await self.create_claims(pod)
            self._written(await self._client.update("v1", "pods", changed))
        except ClientError as error:
            self._tell("Update", pod, error.message)
            raise
        self._tell("Update", pod)

    async def delete(self, pod: Mapping[str, Any]) -> None:
        """Delete a Pod; one that is gone is fine. Raises ClientError."""
        metadata = pod["metadata"]
        try:
            await self._client.delete("v1", "pods", metadata["name"], metadata["namespace"])
        except ClientError as error:
            if error.code != 404:
                self._tell("Delete", pod, error.message)
                raise
        self._tell("Delete", pod)

    async def create_claims(self, pod: Mapping[str, Any]) -> None:
        """Create the claims of a Pod that are missing. Raises ClientError, also where claims are not served at all."""
        name = pod["metadata"]["name"]
        where = f"Pod {name} in StatefulSet {self._found['metadata']['name']}"
        for claim in identity.claims_of(self._found, identity.ordinal_of(pod)):
            metadata = claim["metadata"]
            known = await self._client.find("v1", _CLAIMS, metadata["name"], metadata["namespace"])
            if known is not None:
                if known["metadata"].get("deletionTimestamp"):
                    raise SyncError(f"pvc {metadata['name']} is being deleted")
                continue
            try:
                await self._client.create("v1", _CLAIMS, claim, metadata["namespace"])
            except ClientError as error:
                if error.code != 409:
                    text = f"Create Claim {metadata['name']} for {where} failed error: {error.message}"
                    self._recorder.event(self._found, "Warning", "FailedCreate", text)
                raise SyncError(f"failed to create PVC {metadata['name']}: {error.message}") from None
            text = f"Create Claim {metadata['name']} {where} success"
            self._recorder.event(self._found, "Normal", "SuccessfulCreate", text)

    def _tell(self, verb: str, pod: Mapping[str, Any], error: str = "") -> None:
        what = f"{verb} Pod {pod['metadata']['name']} in StatefulSet {self._found['metadata']['name']}"
        if error:
            self._recorder.event(self._found, "Warning", f"Failed{verb}", f"{what} failed error: {error}")
        else:
            self._recorder.event(self._found, "Normal", f"Successful{verb}", f"{what} successful")
