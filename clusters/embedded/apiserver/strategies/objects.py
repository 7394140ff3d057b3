"""Lease, Event and the RBAC kinds."""

from __future__ import annotations

import re
from typing import Any, Final

from clusters.embedded.apiserver.storage import Object
from clusters.embedded.apiserver.strategies.base import Strategy, Write
from dra_api.errors import FieldError
from dra_api.validation import names

_RBAC_GROUP: Final = "rbac.authorization.k8s.io"
_QUALIFIED: Final = re.compile(
    r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
)
_NOTE_LIMIT: Final = 1024
_WORD_LIMIT: Final = 128


class LeaseStrategy(Strategy):
    """Leases: positive duration, counted transitions."""

    def validate_create(self, new: Object, write: Write) -> list[FieldError]:
        """leaseDurationSeconds > 0, leaseTransitions >= 0, a holder that is not the empty string."""
        spec = new.get("spec") or {}
        errors: list[FieldError] = []
        duration = spec.get("leaseDurationSeconds")
        if duration is not None and duration <= 0:
            errors.append(
                FieldError("Invalid", "spec.leaseDurationSeconds", "must be greater than 0", duration)
            )
        transitions = spec.get("leaseTransitions")
        if transitions is not None and transitions < 0:
            detail = "must be greater than or equal to 0"
            errors.append(FieldError("Invalid", "spec.leaseTransitions", detail, transitions))
        return errors

    def validate_update(self, new: Object, old: Object, write: Write) -> list[FieldError]:
        """The same rules."""
        return self.validate_create(new, write)


class EventStrategy(Strategy):
    """Events, stored in their core/v1 form. `strict` are the rules of events.k8s.io writes."""

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict

    def validate_create(self, new: Object, write: Write) -> list[FieldError]:
        """The involved object's namespace, and for new-style events the fields they need."""
        errors: list[FieldError] = []
        new_style = bool(new.get("eventTime"))
        involved = (new.get("involvedObject") or {}).get("namespace", "")
        namespace = new["metadata"].get("namespace", "")
        if not involved:
            if namespace not in ("default", "kube-system") and not new_style:
                errors.append(self._mismatch(involved))
        elif involved != namespace and not new_style:
            errors.append(self._mismatch(involved))
        if self._strict and not new_style:
            errors.append(FieldError("Required", "eventTime"))
        if self._strict or new_style:
            errors += self._new_style(new)
        if self._strict:
            errors += self._deprecated(new)
        return errors

    @staticmethod
    def _mismatch(value: str) -> FieldError:
        return FieldError("Invalid", "involvedObject.namespace", "does not match event.namespace", value)

    @staticmethod
    def _new_style(new: Object) -> list[FieldError]:
        errors: list[FieldError] = []
        controller = new.get("reportingComponent", "")
        if not controller:
            errors.append(FieldError("Required", "reportingController"))
        elif not _QUALIFIED.fullmatch(controller):
            errors.append(
                FieldError("Invalid", "reportingController", "must be a qualified name", controller)
            )
        for field, value in (
            ("reportingInstance", new.get("reportingInstance", "")),
            ("action", new.get("action", "")),
            ("reason", new.get("reason", "")),
        ):
            if not value:
                errors.append(FieldError("Required", field))
            elif len(value.encode()) > _WORD_LIMIT:
                errors.append(
                    FieldError("Invalid", field, f"can have at most {_WORD_LIMIT} characters", value)
                )
        if len(new.get("message", "").encode()) > _NOTE_LIMIT:
            errors.append(FieldError("Invalid", "message", f"can have at most {_NOTE_LIMIT} characters", ""))
        if new.get("type") not in ("Normal", "Warning"):
            errors.append(FieldError("Invalid", "type", "has invalid value: ", new.get("type", "")))
        return errors

    @staticmethod
    def _deprecated(new: Object) -> list[FieldError]:
        needs = "needs to be unset"
        errors: list[FieldError] = []
        for field in ("firstTimestamp", "lastTimestamp"):
            if new.get(field):
                errors.append(FieldError("Invalid", field, needs, new[field]))
        if new.get("count"):
            errors.append(FieldError("Invalid", "count", needs, new["count"]))
        if new.get("source"):
            errors.append(FieldError("Invalid", "source", needs, new["source"]))
        return errors

    def validate_update(self, new: Object, old: Object, write: Write) -> list[FieldError]:
        """Of a new-style event only the series can change."""
        if not (self._strict and new.get("eventTime")):
            return []
        fields = (
            "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count",
            "reportingComponent", "reportingInstance", "action", "type", "eventTime", "related",
        )  # fmt: skip
        return [
            FieldError("Invalid", field, "field is immutable", new.get(field))
            for field in fields
            if new.get(field) != old.get(field)
        ]


class RoleStrategy(Strategy):
    """Role and ClusterRole: each rule needs verbs and what they act on."""

    name_rule = staticmethod(names.is_path_segment)

    def __init__(self, *, namespaced: bool) -> None:
        self._namespaced = namespaced

    def default(self, obj: Object, now: float) -> None:
        """`rules` is always shown, null when there are none."""
        obj.setdefault("rules", None)

    def validate_create(self, new: Object, write: Write) -> list[FieldError]:
        """The rules of policy rules."""
        errors: list[FieldError] = []
        for index, rule in enumerate(new.get("rules") or []):
            errors += self._rule(rule, f"rules[{index}]")
        return errors

    def _rule(self, rule: dict[str, Any], path: str) -> list[FieldError]:
        errors: list[FieldError] = []
        if not rule.get("verbs"):
            errors.append(FieldError("Required", f"{path}.verbs", "verbs must contain at least one value"))
        if rule.get("nonResourceURLs"):
            if self._namespaced:
                detail = "namespaced rules cannot apply to non-resource URLs"
                errors.append(
                    FieldError("Invalid", f"{path}.nonResourceURLs", detail, rule["nonResourceURLs"])
                )
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                detail = "rules cannot apply to both regular resources and non-resource URLs"
                errors.append(
                    FieldError("Invalid", f"{path}.nonResourceURLs", detail, rule["nonResourceURLs"])
                )
            return errors
        if not rule.get("apiGroups"):
            detail = "resource rules must supply at least one api group"
            errors.append(FieldError("Required", f"{path}.apiGroups", detail))
        if not rule.get("resources"):
            detail = "resource rules must supply at least one resource"
            errors.append(FieldError("Required", f"{path}.resources", detail))
        return errors

    def validate_update(self, new: Object, old: Object, write: Write) -> list[FieldError]:
        """The same rules."""
        return self.validate_create(new, write)


class BindingStrategy(Strategy):
    """RoleBinding and ClusterRoleBinding: the role reference never changes."""

    name_rule = staticmethod(names.is_path_segment)

    def __init__(self, *, namespaced: bool) -> None:
        self._namespaced = namespaced

    def default(self, obj: Object, now: float) -> None:
        """API groups of the role reference and of users and groups."""
        reference = obj.setdefault("roleRef", {})
        if not reference.get("apiGroup"):
            reference["apiGroup"] = _RBAC_GROUP
        for subject in obj.get("subjects") or []:
            if subject.get("kind") in ("User", "Group") and not subject.get("apiGroup"):
                subject["apiGroup"] = _RBAC_GROUP

    def validate_create(self, new: Object, write: Write) -> list[FieldError]:
        """A known kind of role with a name, and complete subjects."""
        errors: list[FieldError] = []
        reference = new.get("roleRef") or {}
        if reference.get("apiGroup") != _RBAC_GROUP:
            detail = f'supported values: "{_RBAC_GROUP}"'
            errors.append(FieldError("NotSupported", "roleRef.apiGroup", detail, reference.get("apiGroup")))
        kinds = ("Role", "ClusterRole") if self._namespaced else ("ClusterRole",)
        if reference.get("kind") not in kinds:
            detail = "supported values: " + ", ".join(f'"{kind}"' for kind in sorted(kinds))
            errors.append(FieldError("NotSupported", "roleRef.kind", detail, reference.get("kind", "")))
        if not reference.get("name"):
            errors.append(FieldError("Required", "roleRef.name"))
        for index, subject in enumerate(new.get("subjects") or []):
            errors += self._subject(subject, f"subjects[{index}]")
        return errors

    def _subject(self, subject: dict[str, Any], path: str) -> list[FieldError]:
        errors: list[FieldError] = []
        if not subject.get("name"):
            errors.append(FieldError("Required", f"{path}.name"))
        kind = subject.get("kind", "")
        if kind == "ServiceAccount":
            if not self._namespaced and not subject.get("namespace"):
                errors.append(FieldError("Required", f"{path}.namespace"))
        elif kind not in ("User", "Group"):
            detail = 'supported values: "Group", "ServiceAccount", "User"'
            errors.append(FieldError("NotSupported", f"{path}.kind", detail, kind))
        return errors

    def validate_update(self, new: Object, old: Object, write: Write) -> list[FieldError]:
        """As on create, and the role reference stays."""
        errors = self.validate_create(new, write)
        if new.get("roleRef") != old.get("roleRef"):
            errors.append(FieldError("Invalid", "roleRef", "field is immutable", new.get("roleRef")))
        return errors
