"""Pods (api-machinery sections 7, 13, 20 and api-validation section 9)."""

from __future__ import annotations

from typing import Any, Final

from clusters.embedded.apiserver.storage import Object
from clusters.embedded.apiserver.strategies import pod_defaults
from clusters.embedded.apiserver.strategies.base import Strategy, Write, copied, keep_status, restore
from dra_api.errors import FieldError
from dra_api.validation import names

_KEPT_WHEN_ABSENT: Final = (
    "resourceClaimStatuses",
    "extendedResourceClaimStatus",
    "nodeAllocatableResourceClaimStatuses",
)
_MUTABLE: Final = (
    "spec.containers[*].image",
    "spec.initContainers[*].image",
    "spec.activeDeadlineSeconds",
    "spec.tolerations",
    "spec.terminationGracePeriodSeconds",
)
_MIRROR: Final = "kubernetes.io/config.mirror"


class PodStrategy(Strategy):
    """Pods: defaulted, generation counted, spec almost immutable."""

    manages_generation = True
    status_metadata = ("labels", "annotations", "finalizers")

    def default(self, obj: Object, now: float) -> None:
        """See pod_defaults."""
        pod_defaults.apply(obj)

    def prepare_create(self, new: Object, write: Write) -> None:
        """Pending, with its QoS class."""
        new["metadata"]["generation"] = 1
        status: dict[str, Any] = {
            "phase": "Pending",
            "qosClass": pod_defaults.qos_class(new.get("spec") or {}),
        }
        if new.get("spec", {}).get("schedulingGates"):
            condition = {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": None,
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
            status["conditions"] = [condition]
        new["status"] = status

    def prepare_update(self, new: Object, old: Object, write: Write) -> None:
        """The status stays; the generation counts spec changes."""
        keep_status(new, old)
        grace = new.get("spec", {}).get("terminationGracePeriodSeconds")
        if grace is not None and grace < 0:
            new["spec"]["terminationGracePeriodSeconds"] = 1
        super().prepare_update(new, old, write)

    def prepare_status(self, new: Object, old: Object, write: Write) -> None:
        """Parts of the status that are absent keep their old value."""
        super().prepare_status(new, old, write)
        status = new.setdefault("status", {})
        before = old.get("status", {})
        for name in _KEPT_WHEN_ABSENT:
            if name not in status:
                restore(status, before, name)
        if not status.get("qosClass"):
            restore(status, before, "qosClass")

    def validate_create(self, new: Object, write: Write) -> list[FieldError]:
        """Containers with name and image, and the claims they use."""
        spec = new.get("spec") or {}
        errors: list[FieldError] = []
        if not spec.get("containers"):
            errors.append(FieldError("Required", "spec.containers"))
        seen: set[str] = set()
        for group in ("initContainers", "containers"):
            for index, container in enumerate(spec.get(group) or []):
                errors += _container_errors(container, f"spec.{group}[{index}]", seen)
        errors += _claim_errors(new, spec)
        if spec.get("restartPolicy") not in ("Always", "OnFailure", "Never"):
            detail = 'supported values: "Always", "OnFailure", "Never"'
            errors.append(FieldError("NotSupported", "spec.restartPolicy", detail, spec.get("restartPolicy")))
        return errors

    def validate_update(self, new: Object, old: Object, write: Write) -> list[FieldError]:
        """Only a few fields of the spec may change."""
        if _frozen(new, old) == _frozen(old, old):
            return []
        allowed = ",".join(f"`{name}`" for name in _MUTABLE)
        detail = (
            f"pod updates may not change fields other than {allowed} (only additions to existing tolerations)"
        )
        return [FieldError("Forbidden", "spec", detail)]

    def validate_status(self, new: Object, old: Object, write: Write) -> list[FieldError]:
        """Claim statuses name claims of the spec, once each; the node name stays."""
        errors: list[FieldError] = []
        known = {claim.get("name") for claim in (new.get("spec") or {}).get("resourceClaims") or []}
        seen: set[str] = set()
        for index, entry in enumerate((new.get("status") or {}).get("resourceClaimStatuses") or []):
            path = f"status.resourceClaimStatuses[{index}]"
            name = entry.get("name", "")
            if name not in known:
                detail = "must match the name of an entry in `spec.resourceClaims`"
                errors.append(FieldError("Invalid", f"{path}.name", detail, name))
            if name in seen:
                errors.append(FieldError("Duplicate", f"{path}.name", "", name))
            seen.add(name)
            claim = entry.get("resourceClaimName")
            if claim is not None:
                errors += [
                    FieldError("Invalid", f"{path}.name", text, claim)
                    for text in names.dns_subdomain_problems(claim)
                ]
        return errors


def _frozen(pod: Object, old: Object) -> dict[str, Any]:
    """The spec without what an update may change."""
    spec: dict[str, Any] = copied(pod.get("spec") or {})
    before = old.get("spec") or {}
    for group in ("containers", "initContainers"):
        for container in spec.get(group) or []:
            container.pop("image", None)
    spec.pop("activeDeadlineSeconds", None)
    spec.pop("terminationGracePeriodSeconds", None)
    old_tolerations = before.get("tolerations") or []
    if all(toleration in (spec.get("tolerations") or []) for toleration in old_tolerations):
        spec["tolerations"] = old_tolerations
    if before.get("schedulingGates"):
        _relax_gated(spec, before)
    return spec


def _relax_gated(spec: dict[str, Any], before: dict[str, Any]) -> None:
    """A gated pod may lose gates, and gain node selector terms."""
    if all(gate in before["schedulingGates"] for gate in spec.get("schedulingGates") or []):
        spec["schedulingGates"] = before["schedulingGates"]
    selector = before.get("nodeSelector") or {}
    wanted = spec.get("nodeSelector") or {}
    if all(wanted.get(key) == value for key, value in selector.items()):
        restore(spec, before, "nodeSelector")
    if not (before.get("affinity") or {}).get("nodeAffinity"):
        restore(spec, before, "affinity")


def _container_errors(container: dict[str, Any], path: str, seen: set[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    name = container.get("name", "")
    if not name:
        errors.append(FieldError("Required", f"{path}.name"))
    else:
        errors += [
            FieldError("Invalid", f"{path}.name", text, name) for text in names.dns_label_problems(name)
        ]
        if name in seen:
            errors.append(FieldError("Duplicate", f"{path}.name", "", name))
        seen.add(name)
    if not container.get("image"):
        errors.append(FieldError("Required", f"{path}.image"))
    return errors


def _claim_errors(pod: Object, spec: dict[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    claims = spec.get("resourceClaims") or []
    if claims and _MIRROR in (pod["metadata"].get("annotations") or {}):
        errors.append(
            FieldError("Forbidden", "spec.resourceClaims", "static pods do not support resource claims")
        )
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        path = f"spec.resourceClaims[{index}]"
        name = claim.get("name", "")
        if not name:
            errors.append(FieldError("Required", f"{path}.name"))
        elif name in seen:
            errors.append(FieldError("Duplicate", f"{path}.name", "", name))
        else:
            errors += [
                FieldError("Invalid", f"{path}.name", text, name) for text in names.dns_label_problems(name)
            ]
        seen.add(name)
        errors += _source_errors(claim, path)
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group) or []):
            errors += _use_errors(
                container, f"spec.{group}[{index}].resources.claims", [c.get("name", "") for c in claims]
            )
    return errors


def _source_errors(claim: dict[str, Any], path: str) -> list[FieldError]:
    sources = [
        key for key in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(key) is not None
    ]
    both = "`resourceClaimName`, `resourceClaimTemplateName`"
    if not sources:
        return [FieldError("Invalid", path, f"must specify one of: {both}", claim)]
    if len(sources) > 1:
        return [FieldError("Invalid", path, f"at most one of {both} may be specified", claim)]
    value = claim[sources[0]]
    return [
        FieldError("Invalid", f"{path}.{sources[0]}", text, value)
        for text in names.dns_subdomain_problems(value)
    ]


def _use_errors(container: dict[str, Any], path: str, known: list[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    whole: set[str] = set()
    parts: set[tuple[str, str]] = set()
    for index, use in enumerate((container.get("resources") or {}).get("claims") or []):
        name, request = use.get("name", ""), use.get("request", "")
        place = f"{path}[{index}]"
        if not name:
            errors.append(FieldError("Required", f"{place}.name"))
        elif name not in known:
            which = "which is empty" if not known else "(" + ", ".join(known) + ")"
            detail = "must be one of the names in pod.spec.resourceClaims " + which
            errors.append(FieldError("NotFound", f"{place}.name", "", name) if known else
                          FieldError("NotFound", f"{place}.name", detail, name))  # fmt: skip
        if request:
            errors += [
                FieldError("Invalid", f"{place}.request", text, request)
                for text in names.dns_label_problems(request)
            ]
        key = f"{name}/{request}" if request else name
        overlap = (
            name in whole
            or (name, request) in parts
            or (not request and any(part[0] == name for part in parts))
        )
        if overlap:
            errors.append(FieldError("Duplicate", place, "", key))
        if request:
            parts.add((name, request))
        else:
            whole.add(name)
    return errors
