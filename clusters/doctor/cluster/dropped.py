"""Fields that an API server has dropped without a word, because their gate was off (field fault 109).

Seen by the annotation in which `kubectl apply` keeps what was applied; of objects that came another way nothing is
known.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from clusters.doctor.cluster.model import ClusterCheck, Problem, fault
from clusters.doctor.cluster.snapshot import Snapshot
from clusters.doctor.model import Wanted

_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_KINDS: Final[Mapping[str, str]] = {
    "resourceclaims": "claim",
    "resourceclaimtemplates": "claim template",
    "deviceclasses": "class",
    "resourceslices": "slice",
    "pods": "Pod",
}
GATES: Final[Mapping[str, str]] = {
    "adminAccess": "DRAAdminAccess",
    "firstAvailable": "DRAPrioritizedList",
    "tolerations": "DRADeviceTaints",
    "taints": "DRADeviceTaints",
    "capacity": "DRAConsumableCapacity",
    "distinctAttribute": "DRAConsumableCapacity",
    "allowMultipleAllocations": "DRAConsumableCapacity",
    "requestPolicy": "DRAConsumableCapacity",
    "sharedCounters": "DRAPartitionableDevices",
    "consumesCounters": "DRAPartitionableDevices",
    "perDeviceNodeSelection": "DRAPartitionableDevices",
    "compatibilityGroups": "DRADeviceCompatibilityGroups",
    "partitionTypeAttribute": "DRAPartitionableDevicesType",
    "bindsToNode": "DRADeviceBindingConditions",
    "bindingConditions": "DRADeviceBindingConditions",
    "bindingFailureConditions": "DRADeviceBindingConditions",
    "derivedAttributes": "DRADerivedAttributes",
    "extendedResourceName": "DRAExtendedResource",
    "nodeAllocatableResources": "DRANodeAllocatableResources",
    "nodeAllocatableResourceMappings": "DRANodeAllocatableResources",
    "skipNodeOperations": "DRAOptionalNodeOperations",
    "resourceClaims": "DynamicResourceAllocation",
}
"""The gate without which a field is dropped."""


def judge(snapshot: Snapshot, wanted: Wanted) -> Iterator[Problem]:
    """What was applied, and is not there."""
    for resource, kind in _KINDS.items():
        for obj in snapshot.list(resource):
            meta = obj["metadata"]
            applied = _applied(meta, "v1" if resource == "pods" else snapshot.api_version)
            where = "/".join(filter(None, (meta.get("namespace"), meta["name"])))
            for path in lost(applied.get("spec"), obj.get("spec"), "spec"):
                field = path.rpartition(".")[2].partition("[")[0]
                if resource == "pods" and field not in ("resourceClaims", "claims", "source"):
                    continue
                if field == "source":
                    remedy = "since Kubernetes 1.31 its fields stand one level higher"
                elif gate := GATES.get(field):
                    remedy = f"switch on gate {gate} in every component, and apply it again"
                else:
                    remedy = "see its spelling, and whether this version has it"
                yield fault(f"{kind} {where}", f"the API server dropped {path}, which was applied", remedy)


def _applied(meta: Mapping[str, Any], api_version: str) -> Mapping[str, Any]:
    text = (meta.get("annotations") or {}).get(_APPLIED, "")
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return {}
    # Another version has other fields.
    return found if isinstance(found, dict) and found.get("apiVersion") == api_version else {}


def lost(applied: Any, stored: Any, path: str) -> Iterator[str]:
    """Paths of fields with a value that are not in the stored form; changed values are not looked at."""
    if isinstance(applied, Mapping):
        there = stored if isinstance(stored, Mapping) else {}
        for name, value in applied.items():
            if value in (None, "", [], {}, False):
                continue
            if name not in there:
                yield f"{path}.{name}"
            else:
                yield from lost(value, there[name], f"{path}.{name}")
    elif isinstance(applied, Sequence) and not isinstance(applied, str):
        items = stored if isinstance(stored, Sequence) and not isinstance(stored, str) else []
        named = {item["name"]: item for item in items if isinstance(item, Mapping) and "name" in item}
        for index, value in enumerate(applied):
            if not isinstance(value, Mapping):
                continue
            other = named.get(value.get("name")) if "name" in value else None
            if other is None and index < len(items) and "name" not in value:
                other = items[index]
            if other is not None:
                yield from lost(value, other, f"{path}[{index}]")


CHECKS: Final = (
    ClusterCheck(
        "dropped-fields",
        "Nothing that was applied was dropped for a gate that is off.",
        judge,
        ("resourceclaims",),
    ),
)
