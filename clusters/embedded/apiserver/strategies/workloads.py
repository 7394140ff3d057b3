"""The kinds of apps, batch and policy (api-machinery sections 7 and 20); their rules live in dra_api."""

from __future__ import annotations

from typing import Any, Final

from clusters.embedded.apiserver.storage import Object
from clusters.embedded.apiserver.strategies.base import (
    STATUS_METADATA,
    Strategy,
    Write,
    has_changed,
    keep_status,
)
from dra_api.decode import as_stored, zero_object
from dra_api.defaults_workloads import apply_workload_defaults
from dra_api.errors import FieldError
from dra_api.schema import GVK, load
from dra_api.validation import workloads
from dra_api.validation.jobs import NAME_LABELS, UID_LABELS
from dra_api.validation.names import dns_label_problems

_TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"


class WorkloadStrategy(Strategy):
    """Generation counted, status apart."""

    manages_generation = True
    warns_of_long_names = False

    def default(self, obj: Object, now: float) -> None:
        """See dra_api.defaults_workloads."""
        apply_workload_defaults(obj)

    def prepare_create(self, new: Object, write: Write) -> None:
        """No status but the counts that a server always prints."""
        new["status"] = _empty_status(new)
        super().prepare_create(new, write)

    def prepare_update(self, new: Object, old: Object, write: Write) -> None:
        """The status stays."""
        keep_status(new, old)
        super().prepare_update(new, old, write)

    def validate_create(self, new: Object, write: Write) -> list[FieldError]:
        """See dra_api.validation.workloads."""
        name = new["metadata"].get("name") or ""
        problems = dns_label_problems(name) if self.warns_of_long_names else []
        if problems:
            write.warnings.append(
                "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; "
                f"a DNS label is recommended: [{' '.join(problems)}]"
            )
        return workloads.validate(new, None)

    def validate_update(self, new: Object, old: Object, write: Write) -> list[FieldError]:
        """See dra_api.validation.workloads."""
        # A stored object has lost the empty lists and maps that a body may spell out.
        return workloads.validate(as_stored(new), old)

    def validate_status(self, new: Object, old: Object, write: Write) -> list[FieldError]:
        """See dra_api.validation.workloads."""
        return workloads.validate_status(new, old)


def _empty_status(obj: Object) -> Object:
    kind = load().kind(GVK.of(obj["apiVersion"], obj["kind"]))
    status = kind.fields.get("status") if kind is not None else None
    return zero_object(status.message) if status is not None else {}


class ReplicaSetStrategy(WorkloadStrategy):
    """ReplicaSets."""

    warns_of_long_names = True


class DeploymentStrategy(WorkloadStrategy):
    """Deployments: annotations count as spec, because ReplicaSets inherit them."""

    warns_of_long_names = True
    status_metadata = tuple(name for name in STATUS_METADATA if name != "labels")

    def prepare_update(self, new: Object, old: Object, write: Write) -> None:
        """A changed annotation is a new generation too."""
        super().prepare_update(new, old, write)
        before = old["metadata"]
        if (new["metadata"].get("annotations") or {}) != (before.get("annotations") or {}):
            new["metadata"]["generation"] = before.get("generation", 0) + 1


class DaemonSetStrategy(WorkloadStrategy):
    """DaemonSets count changes of their template in an annotation."""

    def default(self, obj: Object, now: float) -> None:
        """Whoever writes a DaemonSet writes the count, too, as far as managed fields tell."""
        super().default(obj, now)
        annotations = obj["metadata"].get("annotations") or {}
        obj["metadata"]["annotations"] = {_TEMPLATE_GENERATION: "0", **annotations}

    def prepare_create(self, new: Object, write: Write) -> None:
        """The count starts at 1."""
        super().prepare_create(new, write)
        given = (new["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION, "")
        _set_template_generation(new, max(_number(given), 1))

    def prepare_update(self, new: Object, old: Object, write: Write) -> None:
        """A changed template raises the count; nobody else may."""
        super().prepare_update(new, old, write)
        count = _template_generation(old)
        changed = has_changed(new, old, "spec", "template")
        _set_template_generation(new, count + 1 if changed else count)

    def prepare_status(self, new: Object, old: Object, write: Write) -> None:
        """The count stays."""
        super().prepare_status(new, old, write)
        _set_template_generation(new, _template_generation(old))


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _template_generation(obj: Object) -> int:
    return _number((obj["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION, ""))


def _set_template_generation(obj: Object, count: int) -> None:
    annotations = obj["metadata"].get("annotations") or {}
    obj["metadata"]["annotations"] = {**annotations, _TEMPLATE_GENERATION: str(count)}


class JobStrategy(WorkloadStrategy):
    """Jobs select their Pods by their own uid unless told otherwise."""

    warns_of_long_names = True

    def prepare_create(self, new: Object, write: Write) -> None:
        """Selector and labels of the template; a Job without labels of its own has those of its template."""
        super().prepare_create(new, write)
        spec, metadata = new["spec"], new["metadata"]
        template: dict[str, Any] = spec["template"]
        labels = (template.get("metadata") or {}).get("labels")
        # Defaulting shares the template's labels with a Job that has none.
        inherits = not metadata.get("labels") or metadata["labels"] is labels
        if not spec.get("manualSelector"):
            generated = dict.fromkeys(NAME_LABELS, metadata.get("name", "")) | dict.fromkeys(
                UID_LABELS, metadata["uid"]
            )
            labels = {**generated, **(labels or {})}
            template["metadata"] = {**(template.get("metadata") or {}), "labels": labels}
            selector = spec.get("selector") or {}
            chosen = {UID_LABELS[1]: metadata["uid"], **(selector.get("matchLabels") or {})}
            spec["selector"] = {**selector, "matchLabels": chosen}
        if inherits and labels:
            metadata["labels"] = dict(labels)


class RevisionStrategy(WorkloadStrategy):
    """ControllerRevisions have neither status nor generation."""

    manages_generation = False

    def prepare_create(self, new: Object, write: Write) -> None:
        """Nothing to reset."""

    def prepare_update(self, new: Object, old: Object, write: Write) -> None:
        """Nothing to keep."""
