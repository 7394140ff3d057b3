"""Names, labels and volumes of the Pods of a StatefulSet. No input or output."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any, Final

from clusters.embedded.components.client import Object
from clusters.embedded.controllers.pod_control import pod_from_template
from clusters.embedded.controllers.pods import labels_of
from clusters.embedded.controllers.revisions import HASH_LABEL

NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"
_NAME: Final = re.compile(r"(.*)-([0-9]+)", re.DOTALL)
_MAX_INT32: Final = 2**31 - 1


def parent_and_ordinal(pod: Mapping[str, Any]) -> tuple[str, int]:
    """The name of the set and the ordinal in a Pod's name; the ordinal is -1 when there is none."""
    found = _NAME.fullmatch(pod["metadata"]["name"])
    if found is None:
        return "", -1
    ordinal = int(found[2])
    return found[1], ordinal if ordinal <= _MAX_INT32 else -1


def ordinal_of(pod: Mapping[str, Any]) -> int:
    """The ordinal of a Pod; -1 when it has none."""
    return parent_and_ordinal(pod)[1]


def ordinals(found: Mapping[str, Any]) -> range:
    """The ordinals that a set wants."""
    start = int((found["spec"].get("ordinals") or {}).get("start", 0))
    return range(start, start + int(found["spec"]["replicas"]))


def pod_name(found: Mapping[str, Any], ordinal: int) -> str:
    """The name of the Pod with an ordinal."""
    return f"{found['metadata']['name']}-{ordinal}"


def claim_name(found: Mapping[str, Any], template: Mapping[str, Any], ordinal: int) -> str:
    """The name of the claim of a Pod for one of the claim templates."""
    return f"{template['metadata']['name']}-{pod_name(found, ordinal)}"


def claims_of(found: Mapping[str, Any], ordinal: int) -> list[Object]:
    """The claims of a Pod."""
    made = []
    for template in found["spec"].get("volumeClaimTemplates") or []:
        metadata = template["metadata"]
        labels = {**(metadata.get("labels") or {}), **(found["spec"]["selector"].get("matchLabels") or {})}
        made.append(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {
                    **({"annotations": metadata["annotations"]} if metadata.get("annotations") else {}),
                    "name": claim_name(found, template, ordinal),
                    "namespace": found["metadata"]["namespace"],
                    "labels": labels,
                },
                "spec": copy.deepcopy(template["spec"]),
            }
        )
    return made


def identity_labels(found: Mapping[str, Any], ordinal: int) -> dict[str, str]:
    """The labels that name a Pod."""
    return {NAME_LABEL: pod_name(found, ordinal), INDEX_LABEL: str(ordinal)}


def has_identity(found: Mapping[str, Any], pod: Mapping[str, Any]) -> bool:
    """Whether name and label are those of a member."""
    parent, ordinal = parent_and_ordinal(pod)
    name = pod["metadata"]["name"]
    return (
        ordinal >= 0
        and parent == found["metadata"]["name"]
        and name == pod_name(found, ordinal)
        and labels_of(pod).get(NAME_LABEL) == name
    )


def has_storage(found: Mapping[str, Any], pod: Mapping[str, Any]) -> bool:
    """Whether the Pod's volumes are its claims."""
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or []}
    ordinal = ordinal_of(pod)
    for template in found["spec"].get("volumeClaimTemplates") or []:
        source = volumes.get(template["metadata"]["name"], {}).get("persistentVolumeClaim") or {}
        if source.get("claimName") != claim_name(found, template, ordinal):
            return False
    return True


def with_storage(found: Mapping[str, Any], ordinal: int, volumes: list[Object]) -> list[Object]:
    """Volumes with those of the claims first."""
    templates = found["spec"].get("volumeClaimTemplates") or []
    mine = [
        {
            "name": template["metadata"]["name"],
            "persistentVolumeClaim": {"claimName": claim_name(found, template, ordinal)},
        }
        for template in templates
    ]
    names = {volume["name"] for volume in mine}
    return mine + [volume for volume in volumes if volume["name"] not in names]


def template_of(revision: Mapping[str, Any]) -> Object:
    """The template that a revision holds."""
    template: Object = revision["data"]["spec"]["template"]
    return {key: value for key, value in template.items() if key != "$patch"}


def revision_of(pod: Mapping[str, Any]) -> str:
    """The name of the revision that a Pod was made of."""
    return labels_of(pod).get(HASH_LABEL, "")


def new_pod(
    found: Mapping[str, Any], ordinal: int, current: Mapping[str, Any], update: Mapping[str, Any]
) -> Object:
    """A Pod that does not exist yet, of the current revision below the partition and of the update revision else."""
    revision = current if _stays(found, ordinal) else update
    pod = pod_from_template(template_of(revision), found)
    metadata, spec = pod["metadata"], pod["spec"]
    metadata["name"] = pod_name(found, ordinal)
    metadata["labels"] = {
        **labels_of(pod),
        **identity_labels(found, ordinal),
        HASH_LABEL: revision["metadata"]["name"],
    }
    spec["hostname"] = metadata["name"]
    if found["spec"].get("serviceName"):
        spec["subdomain"] = found["spec"]["serviceName"]
    volumes = with_storage(found, ordinal, spec.get("volumes") or [])
    if volumes:
        spec["volumes"] = volumes
    return pod


def _stays(found: Mapping[str, Any], ordinal: int) -> bool:
    """Whether a Pod is not to be updated yet."""
    strategy, start = found["spec"]["updateStrategy"], ordinals(found).start
    rolling = strategy.get("rollingUpdate")
    if rolling is not None:
        return ordinal < start + int(rolling.get("partition") or 0)
    current = int((found.get("status") or {}).get("currentReplicas", 0))
    return bool(strategy["type"] == "RollingUpdate") and ordinal < start + current
