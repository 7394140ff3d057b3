"""What a write of the main endpoint may change in a pod (kubernetes v1.37.2 `ValidatePodUpdate`)."""

from __future__ import annotations

import copy
import difflib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..equality import semantic_equal
from ..schema import Field, Message, load
from .findings import Findings

Object = Mapping[str, Any]

_CHANGEABLE: Final = (
    "`spec.containers[*].image`",
    "`spec.initContainers[*].image`",
    "`spec.activeDeadlineSeconds`",
    "`spec.tolerations` (only additions to existing tolerations)",
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
)
_INT32_MAX: Final = 2**31 - 1
_REQUIRED_TERMS: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def check_changes(found: Findings, new: Object, old: Object) -> None:
    """Images, deadline, tolerations and gates may change in their ways, everything else stays."""
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    for group in ("containers", "initContainers"):
        if not _check_images(found, spec.get(group) or [], before.get(group) or [], f"spec.{group}"):
            return
    if not _check_deadline(found, spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")):
        return
    _check_tolerations(found, spec.get("tolerations") or [], before.get("tolerations") or [])
    _check_gates(found, spec.get("schedulingGates") or [], before.get("schedulingGates") or [])
    rest = _with_changeable_of(spec, before)
    if before.get("schedulingGates"):
        _check_placement(found, rest, before)
    if not semantic_equal(rest, before, _message("PodSpec")):
        text = f"pod updates may not change fields other than {','.join(_CHANGEABLE)}"
        found.forbidden("spec", f"{text}\n{_difference(before, rest)}")


def _message(name: str) -> Message:
    return load().message(f"core/v1.{name}")


def _check_images(found: Findings, new: Sequence[Object], old: Sequence[Object], path: str) -> bool:
    """False where the containers cannot be compared one by one."""
    if len(new) != len(old):
        found.forbidden(path, "pod updates may not add or remove containers")
        return False
    for index, container in enumerate(new):
        image = container.get("image") or ""
        if not image:
            found.required(f"{path}[{index}].image")
        if image.strip() != image:
            found.invalid(f"{path}[{index}].image", image, "must not have leading or trailing whitespace")
    return True


def _check_deadline(found: Findings, new: int | None, old: int | None) -> bool:
    """False where the server looks no further."""
    path = "spec.activeDeadlineSeconds"
    if new is None:
        if old is not None:
            found.invalid(path, None, "must not update from a positive integer to nil value")
        return True
    if not 0 <= new <= _INT32_MAX:
        found.invalid(path, new, f"must be between 0 and {_INT32_MAX}, inclusive")
        return False
    if old is not None and old < new:
        found.invalid(path, new, "must be less than or equal to previous value")
        return False
    return True


def _check_tolerations(found: Findings, new: Sequence[Object], old: Sequence[Object]) -> None:
    kept = [_without_seconds(toleration) for toleration in new]
    if any(_without_seconds(toleration) not in kept for toleration in old):
        text = "existing toleration can not be modified except its tolerationSeconds"
        found.forbidden("spec.tolerations", text)


def _without_seconds(toleration: Object) -> dict[str, Any]:
    return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}


def _check_gates(found: Findings, new: Sequence[Object], old: Sequence[Object]) -> None:
    before = {gate.get("name") for gate in old}
    for index, gate in enumerate(new):
        if gate.get("name") not in before:
            text = f"only deletion is allowed, but found new scheduling gate '{gate.get('name') or ''}'"
            found.forbidden(f"spec.schedulingGates[{index}].name", text)


def _with_changeable_of(spec: Object, before: Object) -> dict[str, Any]:
    """The new spec with the old values of all that has been judged by itself."""
    rest = copy.deepcopy(dict(spec))
    for group in ("containers", "initContainers"):
        for container, old in zip(rest.get(group) or [], before.get(group) or [], strict=True):
            _take(container, old, "image")
    for name in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        _take(rest, before, name)
    if (before.get("terminationGracePeriodSeconds") or 0) < 0 and rest.get(
        "terminationGracePeriodSeconds"
    ) == 1:
        _take(rest, before, "terminationGracePeriodSeconds")
    return rest


def _take(target: dict[str, Any], source: Object, name: str) -> None:
    if name in source:
        target[name] = source[name]
    else:
        target.pop(name, None)


def _check_placement(found: Findings, rest: dict[str, Any], before: Object) -> None:
    """A gated pod may be tied closer to nodes. Puts the old values into `rest`."""
    selector, old_selector = rest.get("nodeSelector") or {}, before.get("nodeSelector") or {}
    if any(selector.get(key) != value for key, value in old_selector.items()):
        text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        found.invalid("spec.nodeSelector", selector, text)
    _take(rest, before, "nodeSelector")
    affinity = rest.get("affinity") or {}
    old_node = (before.get("affinity") or {}).get("nodeAffinity")
    _check_terms(found, _terms(affinity.get("nodeAffinity")), _terms(old_node))
    if old_node is not None:
        rest["affinity"] = {**affinity, "nodeAffinity": old_node}
    elif affinity:
        affinity.pop("nodeAffinity", None)
        if not affinity and before.get("affinity") is None:
            del rest["affinity"]


def _terms(node_affinity: Object | None) -> list[dict[str, Any]]:
    return ((node_affinity or {}).get(_REQUIRED_TERMS) or {}).get("nodeSelectorTerms") or []


def _check_terms(found: Findings, new: list[dict[str, Any]], old: list[dict[str, Any]]) -> None:
    """Terms of a required node affinity, which only get further expressions."""
    path = f"spec.affinity.nodeAffinity.{_REQUIRED_TERMS}.nodeSelectorTerms"
    if old and len(old) != len(new):
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        found.invalid(path, new, text)
        return
    for index, (term, before) in enumerate(zip(new, old, strict=False)):
        if not _only_grows(term, before):
            text = "only additions are allowed (no mutations or deletions)"
            found.invalid(f"{path}[{index}]", term, text)


def _only_grows(term: Object, before: Object) -> bool:
    fields = ("matchExpressions", "matchFields")
    if not any(before.get(field) for field in fields):
        # An empty term selects nothing; anything more would select something.
        return not any(term.get(field) for field in fields)
    return all(
        (term.get(field) or [])[: len(before.get(field) or [])] == (before.get(field) or [])
        for field in fields
    )


def _difference(old: Object, new: Object) -> str:
    """A unified diff of the two specs; a real server's shows the fields under their internal names."""
    before, after = (
        json.dumps(_in_order(spec, _message("PodSpec")), ensure_ascii=False, indent=1).splitlines()
        for spec in (old, new)
    )
    # The first two lines would name files.
    return "\n".join([*difflib.unified_diff(before, after, lineterm="")][2:]) + "\n"


def _in_order(value: Any, message: Message) -> Any:
    """The value with the fields of every struct in the order of the Go structs, so that moved ones do not differ."""
    if not isinstance(value, Mapping):
        return value
    return {
        name: _field_in_order(value[name], field) for name, field in message.fields.items() if name in value
    }


def _field_in_order(value: Any, field: Field) -> Any:
    if field.type != "message":
        return dict(sorted(value.items())) if isinstance(value, Mapping) else value
    if field.shape == "list":
        return [_in_order(item, field.message) for item in value or []]
    if field.shape == "map":
        return {key: _in_order(item, field.message) for key, item in sorted((value or {}).items())}
    return _in_order(value, field.message)
