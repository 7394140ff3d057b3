"""Cells of tables of apps, batch, policy and scale objects (api-machinery section 18)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from clusters.embedded.apiserver.durations import age, human_duration, since
from clusters.embedded.apiserver.storage import Object
from clusters.embedded.apiserver.times import parse
from dra_api.label_selector import LabelSelectorError, format_selector

_NONE: Final = "<none>"
_JOB_STATES_FIRST: Final = (("Complete", "Complete"), ("Failed", "Failed"))
_JOB_STATES_LAST: Final = (
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)


def _name(obj: Object) -> str:
    return str(obj["metadata"].get("name", ""))


def _parts(obj: Object) -> tuple[dict[str, Any], dict[str, Any]]:
    return obj.get("spec") or {}, obj.get("status") or {}


def _template(spec: Mapping[str, Any]) -> list[str]:
    """Names and images of the containers of a pod template."""
    containers = ((spec.get("template") or {}).get("spec") or {}).get("containers") or []
    return [",".join(each.get(field, "") for each in containers) for field in ("name", "image")]


def _selector(spec: Mapping[str, Any], *, empty: str = _NONE, broken: str = "<error>") -> str:
    try:
        return format_selector(spec.get("selector")) or empty
    except LabelSelectorError:
        return broken


def _labels(labels: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or _NONE


def deployment(obj: Object, now: float) -> list[Any]:
    """Name, Ready, Up-to-date, Available, Age, Containers, Images, Selector."""
    spec, status = _parts(obj)
    return [
        _name(obj),
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age(obj, now),
        *_template(spec),
        _selector(spec, empty="", broken="<invalid>"),
    ]


def replica_set(obj: Object, now: float) -> list[Any]:
    """Name, Desired, Current, Ready, Age, Containers, Images, Selector."""
    spec, status = _parts(obj)
    counts = [spec.get("replicas", 0), status.get("replicas", 0), status.get("readyReplicas", 0)]
    return [_name(obj), *counts, age(obj, now), *_template(spec), _selector(spec)]


def stateful_set(obj: Object, now: float) -> list[Any]:
    """Name, Ready, Age, Containers, Images."""
    spec, status = _parts(obj)
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    return [_name(obj), ready, age(obj, now), *_template(spec)]


def daemon_set(obj: Object, now: float) -> list[Any]:
    """Name, five counts, Node Selector, Age, Containers, Images, Selector."""
    spec, status = _parts(obj)
    fields = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    nodes = ((spec.get("template") or {}).get("spec") or {}).get("nodeSelector")
    counts = [status.get(field, 0) for field in fields]
    return [_name(obj), *counts, _labels(nodes), age(obj, now), *_template(spec), _selector(spec)]


def controller_revision(obj: Object, now: float) -> list[Any]:
    """Name, Controller, Revision, Age."""
    owners = obj["metadata"].get("ownerReferences") or []
    owner = next((each for each in owners if each.get("controller")), None)
    controller = _NONE
    if owner is not None:
        group = owner.get("apiVersion", "").rpartition("/")[0]
        kind = f"{owner.get('kind', '')}.{group}" if group else owner.get("kind", "")
        controller = f"{kind.lower()}/{owner.get('name', '')}"
    return [_name(obj), controller, obj.get("revision", 0), age(obj, now)]


def job(obj: Object, now: float) -> list[Any]:
    """Name, Status, Completions, Duration, Age, Containers, Images, Selector."""
    spec, status = _parts(obj)
    succeeded, parallelism = status.get("succeeded", 0), spec.get("parallelism") or 0
    if spec.get("completions") is not None:
        completions = f"{succeeded}/{spec['completions']}"
    elif parallelism > 1:
        completions = f"{succeeded}/1 of {parallelism}"
    else:
        completions = f"{succeeded}/1"
    start, end = status.get("startTime"), status.get("completionTime")
    duration = ""
    if start:
        duration = human_duration((parse(end) if end else now) - parse(start))
    return [
        _name(obj),
        _job_state(obj, status),
        completions,
        duration,
        age(obj, now),
        *_template(spec),
        _selector(spec),
    ]


def _job_state(obj: Object, status: Mapping[str, Any]) -> str:
    true = {each.get("type") for each in status.get("conditions") or [] if each.get("status") == "True"}
    for condition, state in _JOB_STATES_FIRST:
        if condition in true:
            return state
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    return next((state for condition, state in _JOB_STATES_LAST if condition in true), "Running")


def cron_job(obj: Object, now: float) -> list[Any]:
    """Name, Schedule, Timezone, Suspend, Active, Last Schedule, Age, Containers, Images, Selector."""
    spec, status = _parts(obj)
    template = (spec.get("jobTemplate") or {}).get("spec") or {}
    suspend = spec.get("suspend")
    last = status.get("lastScheduleTime")
    return [
        _name(obj),
        spec.get("schedule", ""),
        _NONE if spec.get("timeZone") is None else spec["timeZone"],
        "<unset>" if suspend is None else str(bool(suspend)),
        len(status.get("active") or []),
        since(last, now) if last else _NONE,
        age(obj, now),
        *_template(template),
        _selector(template),
    ]


def disruption_budget(obj: Object, now: float) -> list[Any]:
    """Name, Min Available, Max Unavailable, Allowed Disruptions, Age."""
    spec, status = _parts(obj)
    limits = [
        "N/A" if spec.get(field) is None else str(spec[field]) for field in ("minAvailable", "maxUnavailable")
    ]
    return [_name(obj), *limits, status.get("disruptionsAllowed", 0), age(obj, now)]


def service(obj: Object, now: float) -> list[Any]:
    """Name, Type, Cluster-IP, External-IP, Port(s), Age, Selector."""
    spec, status = _parts(obj)
    kind = spec.get("type", "")
    addresses = spec.get("clusterIPs") or []
    ports = [
        f"{port.get('port', 0)}{_node_port(port)}/{port.get('protocol', '')}"
        for port in spec.get("ports") or []
    ]
    return [
        _name(obj),
        kind,
        addresses[0] if addresses else _NONE,
        _external(kind, spec, status),
        ",".join(ports) or _NONE,
        age(obj, now),
        _labels(spec.get("selector")),
    ]


def _node_port(port: Mapping[str, Any]) -> str:
    return f":{port['nodePort']}" if port.get("nodePort") else ""


def _external(kind: str, spec: dict[str, Any], status: dict[str, Any]) -> str:
    if kind == "ExternalName":
        return str(spec.get("externalName", ""))
    found: list[str] = []
    if kind == "LoadBalancer":
        ingress = (status.get("loadBalancer") or {}).get("ingress") or []
        found = sorted({each.get("ip") or each.get("hostname") or "" for each in ingress} - {""})
    found += spec.get("externalIPs") or []
    return ",".join(found) or ("<pending>" if kind == "LoadBalancer" else _NONE)


def scale(obj: Object, now: float) -> list[Any]:
    """Name, Desired, Available, Age."""
    spec, status = _parts(obj)
    return [_name(obj), spec.get("replicas", 0), status.get("replicas", 0), age(obj, now)]
