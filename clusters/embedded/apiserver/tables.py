"""The columns of server-side tables (api-machinery section 18)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from clusters.embedded.apiserver import pod_cells, policy_cells, workload_cells
from clusters.embedded.apiserver.durations import age, human_duration, since
from clusters.embedded.apiserver.resources import Resource
from clusters.embedded.apiserver.storage import Object

Cells = Callable[[Object, float], list[Any]]
_NONE: Final = "<none>"
_UNKNOWN: Final = "<unknown>"


class Column(NamedTuple):
    """One column; `priority` 1 is shown by `-o wide` only."""

    name: str
    type: str = "string"
    priority: int = 0

    def definition(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "name": self.name,
            "type": self.type,
            "format": "name" if self.name == "Name" else "",
            "description": f"{self.name} of the object.",
            "priority": self.priority,
        }


@dataclass(frozen=True)
class Table:
    """Columns of a kind and what their cells hold, given an object and the current time."""

    columns: Sequence[Column]
    cells: Cells
    conditions: Callable[[Object], list[dict[str, Any]]] = lambda _: []


def _name(obj: Object) -> str:
    return str(obj["metadata"].get("name", ""))


def _plain(obj: Object, now: float) -> list[Any]:
    return [_name(obj), age(obj, now)]


def _node(obj: Object, now: float) -> list[Any]:
    status, spec = obj.get("status") or {}, obj.get("spec") or {}
    ready = next((c for c in status.get("conditions") or [] if c.get("type") == "Ready"), None)
    state = "Unknown"
    if ready is not None:
        state = "Ready" if ready.get("status") == "True" else "NotReady"
    if spec.get("unschedulable"):
        state += ",SchedulingDisabled"
    roles: set[str] = set()
    for key, value in (obj["metadata"].get("labels") or {}).items():
        if key.startswith("node-role.kubernetes.io/"):
            roles.add(key.removeprefix("node-role.kubernetes.io/"))
        elif key == "kubernetes.io/role" and value:
            roles.add(value)
    info = status.get("nodeInfo") or {}
    kernel = info.get("kernelVersion") or _UNKNOWN
    if info.get("kernelVersion") and info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        _name(obj),
        state,
        ",".join(sorted(roles)) or _NONE,
        age(obj, now),
        info.get("kubeletVersion", ""),
        _address(status, "InternalIP"),
        _address(status, "ExternalIP"),
        info.get("osImage") or _UNKNOWN,
        kernel,
        info.get("containerRuntimeVersion") or _UNKNOWN,
    ]


def _address(status: dict[str, Any], kind: str) -> str:
    found = (a.get("address") for a in status.get("addresses") or [] if a.get("type") == kind)
    return next(found, None) or _NONE


def _event(obj: Object, now: float) -> list[Any]:
    involved = obj.get("involvedObject") or obj.get("regarding") or {}
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    series = obj.get("series") or {}
    first = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime")
    last = (
        series.get("lastObservedTime")
        or obj.get("lastTimestamp")
        or obj.get("deprecatedLastTimestamp")
        or first
    )
    component = (
        source.get("component") or obj.get("reportingComponent") or obj.get("reportingController") or ""
    )
    host = source.get("host") or obj.get("reportingInstance") or ""
    message = obj.get("message") or obj.get("note") or ""
    count = series.get("count") or obj.get("count") or obj.get("deprecatedCount") or 1
    target = involved.get("kind", "").lower()
    if involved.get("name"):
        target += f"/{involved['name']}"
    return [
        since(last, now),
        obj.get("type", ""),
        obj.get("reason", ""),
        target,
        involved.get("fieldPath", ""),
        f"{component}, {host}" if host else component,
        message.strip(),
        since(first, now),
        count,
        _name(obj),
    ]


def _claim(obj: Object, now: float) -> list[Any]:
    status = obj.get("status") or {}
    states: list[str] = []
    deleted = "deletionTimestamp" in obj["metadata"]
    if deleted:
        states.append("deleted")
    if status.get("allocation") is None:
        if not deleted:
            states.append("pending")
    else:
        states.append("allocated")
        if status.get("reservedFor"):
            states.append("reserved")
    return [_name(obj), ",".join(states), age(obj, now)]


def _slice(obj: Object, now: float) -> list[Any]:
    spec = obj.get("spec") or {}
    pool = (spec.get("pool") or {}).get("name", "")
    return [_name(obj), spec.get("nodeName") or "", spec.get("driver", ""), pool, age(obj, now)]


def _taint_rule(obj: Object, now: float) -> list[Any]:
    taint = (obj.get("spec") or {}).get("taint") or {}
    added = since(taint["timeAdded"], now) if taint.get("timeAdded") else ""
    return [
        _name(obj),
        taint.get("key", ""),
        taint.get("value", ""),
        taint.get("effect", ""),
        added,
        age(obj, now),
    ]


def _pool_status(obj: Object, now: float) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status")
    if status is None or (not status.get("conditions") and "pools" not in status):
        return [_name(obj), spec.get("driver", ""), "-", "-", "-", "-", "-", 0, "Pending", "-"]
    pools = status.get("pools") or []

    def total(field: str) -> str:
        return str(sum(pool.get(field) or 0 for pool in pools))

    failed = any(
        c.get("type") == "Failed" and c.get("status") == "True" for c in status.get("conditions") or []
    )
    complete = (
        "Complete"
        if len(pools) == status.get("poolCount")
        else f"Complete ({len(pools)}/{status.get('poolCount')} pools)"
    )
    errors = str(sum(1 for pool in pools if pool.get("validationError")))
    return [
        _name(obj), spec.get("driver", ""), total("totalDevices"), total("availableDevices"),
        total("allocatedDevices"), total("unavailableDevices"), errors, len(pools),
        "Failed" if failed else complete, age(obj, now),
    ]  # fmt: skip


def _binding(obj: Object, now: float) -> list[Any]:
    reference = obj.get("roleRef") or {}
    subjects = obj.get("subjects") or []

    def named(kind: str) -> str:
        return ", ".join(s.get("name", "") for s in subjects if s.get("kind") == kind)

    accounts = ", ".join(
        f"{s.get('namespace', '')}/{s.get('name', '')}" for s in subjects if s.get("kind") == "ServiceAccount"
    )
    role = f"{reference.get('kind', '')}/{reference.get('name', '')}"
    return [_name(obj), role, age(obj, now), named("User"), named("Group"), accounts]


def _columns(*names: str, **types: str) -> list[Column]:
    """Columns from names; a trailing `*` makes a wide one, `types` gives non-string types by name."""
    found = []
    for name in names:
        plain = name.removesuffix("*")
        kind = types.get(plain.lower().replace(" ", "_"), "string")
        found.append(Column(plain, kind, 1 if name.endswith("*") else 0))
    return found


def _config_map(obj: Object, now: float) -> list[Any]:
    return [_name(obj), len(obj.get("data") or {}) + len(obj.get("binaryData") or {}), age(obj, now)]


def _created_at(obj: Object, now: float) -> list[Any]:
    return [_name(obj), obj["metadata"].get("creationTimestamp") or _UNKNOWN]


_TEMPLATE: Final = ("Containers*", "Images*")
_COUNTS: Final = {"desired": "integer", "current": "integer"}
_PLAIN: Final = Table(_columns("Name", "Age"), _plain)
_EVENT: Final = Table(
    _columns("Last Seen", "Type", "Reason", "Object", "Subobject*", "Source*", "Message", "First Seen*", "Count*",
             "Name*", count="integer"),
    _event,
)  # fmt: skip
_ROLE: Final = Table(_columns("Name", "Created At", created_at="date"), _created_at)
_BINDING: Final = Table(_columns("Name", "Role", "Age", "Users*", "Groups*", "ServiceAccounts*"), _binding)
_TABLES: Final[dict[str, Table]] = {
    "Pod": Table(
        _columns("Name", "Ready", "Status", "Restarts", "Age", "IP*", "Node*", "Nominated Node*", "Readiness Gates*"),
        lambda obj, now: pod_cells.cells(obj, now, human_duration),
        pod_cells.conditions,
    ),
    "Node": Table(
        _columns("Name", "Status", "Roles", "Age", "Version", "Internal-IP*", "External-IP*", "OS-Image*",
                 "Kernel-Version*", "Container-Runtime*"),
        _node,
    ),
    "Namespace": Table(
        _columns("Name", "Status", "Age"),
        lambda obj, now: [_name(obj), (obj.get("status") or {}).get("phase", ""), age(obj, now)],
    ),
    "Event": _EVENT,
    "ConfigMap": Table(_columns("Name", "Data", "Age"), _config_map),
    "Secret": Table(
        _columns("Name", "Type", "Data", "Age", data="integer"),
        lambda obj, now: [_name(obj), obj.get("type", ""), len(obj.get("data") or {}), age(obj, now)],
    ),
    "ResourceClaim": Table(_columns("Name", "State", "Age"), _claim),
    "ResourceSlice": Table(_columns("Name", "Node", "Driver", "Pool", "Age"), _slice),
    "DeviceTaintRule": Table(_columns("Name", "Key", "Value", "Effect", "TimeAdded", "Age"), _taint_rule),
    "ResourcePoolStatusRequest": Table(
        _columns("Name", "Driver", "Total", "Available", "Allocated", "Unavailable", "Errors", "Pools", "Status",
                 "Completed", pools="integer"),
        _pool_status,
    ),
    "Service": Table(
        _columns("Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector*"), workload_cells.service
    ),
    "Deployment": Table(
        _columns("Name", "Ready", "Up-to-date", "Available", "Age", *_TEMPLATE, "Selector*", **_COUNTS),
        workload_cells.deployment,
    ),
    "ReplicaSet": Table(
        _columns("Name", "Desired", "Current", "Ready", "Age", *_TEMPLATE, "Selector*", **_COUNTS, ready="integer"),
        workload_cells.replica_set,
    ),
    "StatefulSet": Table(_columns("Name", "Ready", "Age", *_TEMPLATE), workload_cells.stateful_set),
    "DaemonSet": Table(
        _columns("Name", "Desired", "Current", "Ready", "Up-to-date", "Available", "Node Selector", "Age", *_TEMPLATE,
                 "Selector*", **_COUNTS, ready="integer", available="integer"),
        workload_cells.daemon_set,
    ),
    "ControllerRevision": Table(
        _columns("Name", "Controller", "Revision", "Age"), workload_cells.controller_revision
    ),
    "Job": Table(
        _columns("Name", "Status", "Completions", "Duration", "Age", *_TEMPLATE, "Selector*"), workload_cells.job
    ),
    "CronJob": Table(
        _columns("Name", "Schedule", "Timezone", "Suspend", "Active", "Last Schedule", "Age", *_TEMPLATE,
                 "Selector*", suspend="boolean", active="integer"),
        workload_cells.cron_job,
    ),
    "PodDisruptionBudget": Table(
        _columns("Name", "Min Available", "Max Unavailable", "Allowed Disruptions", "Age",
                 allowed_disruptions="integer"),
        workload_cells.disruption_budget,
    ),
    "Scale": Table(
        _columns("Name", "Desired", "Available", "Age", desired="integer", available="integer"),
        workload_cells.scale,
    ),
    "Lease": Table(
        _columns("Name", "Holder", "Age"),
        lambda obj, now: [_name(obj), (obj.get("spec") or {}).get("holderIdentity") or "", age(obj, now)],
    ),
    "ResourceQuota": Table(_columns("Name", "Request", "Limit", "Age"), policy_cells.quota),
    "MutatingAdmissionPolicy": Table(
        _columns("Name", "Mutations", "ParamKind", "Age", mutations="integer"), policy_cells.mutating_policy
    ),
    "MutatingAdmissionPolicyBinding": Table(
        _columns("Name", "PolicyName", "ParamRef", "Age"), policy_cells.policy_binding
    ),
    "ValidatingAdmissionPolicy": Table(
        _columns("Name", "Validations", "ParamKind", "Age", validations="integer"), policy_cells.validating_policy
    ),
    "ValidatingAdmissionPolicyBinding": Table(
        _columns("Name", "PolicyName", "ParamRef", "Age"), policy_cells.policy_binding
    ),
    "Role": _ROLE,
    "ClusterRole": _ROLE,
    "RoleBinding": _BINDING,
    "ClusterRoleBinding": _BINDING,
}  # fmt: skip


def of(resource: Resource) -> Table:
    """The table of a resource; kinds without columns of their own show name and age."""
    return _TABLES.get(resource.kind, _PLAIN)
