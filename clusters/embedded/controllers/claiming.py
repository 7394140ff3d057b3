"""Adoption and release of objects by their controllers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from clusters.client import ClientError
from clusters.embedded.components.client import ApiClient, Object
from clusters.embedded.controllers.controller import SyncError
from clusters.embedded.controllers.pods import controller_of, controller_ref, is_deleted, labels_of
from dra_api.label_selector import Selector, matcher


async def claim(
    client: ApiClient,
    owner: Mapping[str, Any],
    resources: tuple[str, str, str],
    objects: Sequence[Object],
    fits: Callable[[Object], bool] | Selector,
    finalizers: Sequence[str] = (),
    written: Callable[[Object], None] = lambda obj: None,
) -> list[Object]:
    """Adopt orphans that fit, release owned objects that do not; returns what `owner` controls now.

    `resources` are the owner's resource and API version and resource of the objects. A selector may stand for `fits`.
    Before the first adoption the owner is read anew: an owner that is being deleted, or was replaced, adopts nothing.
    Adopted objects get `finalizers`, released ones lose them; `written` is told of every changed object.
    Raises SyncError and ClientError, after all objects were tried.
    """
    resource, api_version, objects_resource = resources
    if not callable(fits):
        test = matcher(fits)

        def fits(obj: Object) -> bool:
            return test(labels_of(obj))

    claimed: list[Object] = []
    errors: list[ClientError] = []
    may_adopt: bool = False
    for obj in objects:
        reference = controller_of(obj)
        if reference is not None and reference["uid"] != owner["metadata"]["uid"]:
            continue
        fitting = fits(obj)
        if reference is not None and fitting:
            claimed.append(obj)
            continue
        if is_deleted(owner) or (reference is None and (not fitting or is_deleted(obj))):
            continue
        try:
            if reference is not None:
                patch = _release_patch(obj, owner, finalizers)
            else:
                if not may_adopt:
                    await _check_owner(client, owner, resource)
                    may_adopt = True
                patch = _adoption_patch(obj, owner, finalizers)
            changed = await client.patch(
                api_version, objects_resource, obj["metadata"]["name"], patch, obj["metadata"]["namespace"]
            )
        except ClientError as error:
            # 404: the object is gone. 422 for a release: it has another uid now.
            if error.code == 404 or (reference is not None and error.code == 422):
                continue
            errors.append(error)
        else:
            written(changed)
            if reference is None:
                claimed.append(changed)
    if errors:
        raise errors[0]
    return claimed


async def _check_owner(client: ApiClient, owner: Mapping[str, Any], resource: str) -> None:
    metadata = owner["metadata"]
    namespace, name = metadata["namespace"], metadata["name"]
    fresh = await client.find(owner["apiVersion"], resource, name, namespace)
    if fresh is None:
        raise SyncError(f"{owner['kind']} {namespace}/{name} is gone")
    if fresh["metadata"]["uid"] != metadata["uid"]:
        raise SyncError(
            f"original {owner['kind']} {namespace}/{name} is gone: "
            f"got uid {fresh['metadata']['uid']}, wanted {metadata['uid']}"
        )
    if is_deleted(fresh):
        raise SyncError(
            f"{namespace}/{name} has just been deleted at {fresh['metadata']['deletionTimestamp']}"
        )


def _adoption_patch(obj: Object, owner: Mapping[str, Any], finalizers: Sequence[str]) -> Object:
    metadata: Object = {"uid": obj["metadata"]["uid"], "ownerReferences": [controller_ref(owner)]}
    if finalizers:
        metadata["finalizers"] = list(finalizers)
    return {"metadata": metadata}


def _release_patch(obj: Object, owner: Mapping[str, Any], finalizers: Sequence[str]) -> Object:
    metadata: Object = {
        "uid": obj["metadata"]["uid"],
        "ownerReferences": [{"$patch": "delete", "uid": owner["metadata"]["uid"]}],
    }
    if finalizers:
        metadata["$deleteFromPrimitiveList/finalizers"] = list(finalizers)
    return {"metadata": metadata}
