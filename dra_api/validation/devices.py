"""Rules that several DRA kinds share: taints, tolerations, binding conditions, selectors, configuration."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from . import limits
from .cel import validate_selector_expression
from .findings import Findings, check_list, check_set, check_unique
from .formats import check_driver, check_json_object, check_label, check_label_key, check_label_value
from .names import not_supported

Object = Mapping[str, Any]

_EFFECTS: Final = ("NoExecute", "NoSchedule", "None")
_OPERATORS: Final = ("Equal", "Exists")
_SKIPPABLE: Final = ("*", "NodePrepareResources", "NodeUnprepareResources")
_REQUEST_REFERENCE: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)


class RequestNames:
    """The names of a claim's requests and sub-requests."""

    def __init__(self, devices: Object) -> None:
        self._names = {
            request.get("name") or "": {sub.get("name") or "" for sub in request.get("firstAvailable") or []}
            for request in devices.get("requests") or []
        }

    def __contains__(self, reference: str) -> bool:
        """Whether `request` or `request/sub-request` exists."""
        name, slash, sub = reference.partition("/")
        return name in self._names and (not slash or sub in self._names[name])


def check_request_references(found: Findings, names: Sequence[str], known: RequestNames, path: str) -> None:
    """A list of requests that a constraint or configuration applies to."""
    check_set(
        found,
        names,
        limits.REQUESTS,
        path,
        lambda name, where: check_request_reference(found, name, known, where),
        str,
        str,
        declared=True,
    )


def check_request_reference(found: Findings, name: str, known: RequestNames, path: str) -> None:
    """One reference: `request` or `request/sub-request`, which must exist."""
    parts = name.split("/")
    if len(parts) > 2:
        found.invalid(path, name, _REQUEST_REFERENCE)
        return
    for part in parts:
        check_label(found, path, part)
    if name not in known:
        found.invalid(path, name, _REQUEST_REFERENCE)


def check_selectors(
    found: Findings, selectors: Sequence[Object], path: str, gates: Collection[str], *, stored: bool = False
) -> None:
    """Device selectors; expressions of `stored` ones are not compiled again."""

    def check(selector: Object, where: str) -> None:
        cel = selector.get("cel")
        if cel is None:
            found.required(f"{where}.cel")
        elif not stored:
            expression = cel.get("expression") or ""
            found.extend(validate_selector_expression(expression, f"{where}.cel.expression", gates))

    check_list(found, selectors, limits.SELECTORS, path, check, declared=True)


def check_configuration(found: Findings, config: Object, path: str, *, stored: bool = False) -> None:
    """The `opaque` part of a configuration."""
    opaque = config.get("opaque")
    if opaque is None:
        found.required(f"{path}.opaque")
        return
    check_driver(found, f"{path}.opaque.driver", opaque.get("driver") or "", declared=True)
    parameters = opaque.get("parameters")
    check_json_object(found, f"{path}.opaque.parameters", parameters, limits.OPAQUE_PARAMETERS, stored=stored)


def check_taint(found: Findings, taint: Object, path: str, old: Object | None = None) -> None:
    """A device taint; an effect that equals that of `old` is not judged again."""
    check_label_key(found, f"{path}.key", taint.get("key") or "")
    if taint.get("value"):
        check_label_value(found, f"{path}.value", taint["value"])
    effect = taint.get("effect") or ""
    if old is not None and effect == (old.get("effect") or ""):
        return
    if not effect:
        found.required(f"{path}.effect", declared=True)
    elif effect not in _EFFECTS:
        found.add(not_supported(f"{path}.effect", effect, _EFFECTS), declared=True)


def check_tolerations(found: Findings, tolerations: Sequence[Object], path: str) -> None:
    """Device tolerations; their number is not limited."""
    for index, toleration in enumerate(tolerations):
        _check_toleration(found, toleration, f"{path}[{index}]")


def _check_toleration(found: Findings, toleration: Object, path: str) -> None:
    operator, value = toleration.get("operator") or "", toleration.get("value") or ""
    if toleration.get("key"):
        check_label_key(found, f"{path}.key", toleration["key"], declared=True)
    if operator == "Exists":
        if value:
            found.invalid(f"{path}.value", value, "must be empty for operator `Exists`")
    elif operator == "Equal":
        check_label_value(found, f"{path}.value", value)
    elif not operator:
        found.required(f"{path}.operator", declared=True)
    else:
        found.add(not_supported(f"{path}.operator", operator, _OPERATORS), declared=True)
    effect = toleration.get("effect") or ""
    if effect and effect not in _EFFECTS:
        found.add(not_supported(f"{path}.effect", effect, _EFFECTS), declared=True)


def check_binding(found: Findings, holder: Object, path: str) -> None:
    """Binding conditions of a device or a result: label keys, unique, disjoint, and both lists or none."""
    ready, failed = holder.get("bindingConditions") or [], holder.get("bindingFailureConditions") or []
    for field, conditions in (("bindingConditions", ready), ("bindingFailureConditions", failed)):
        check_list(
            found,
            conditions,
            limits.BINDING_CONDITIONS,
            f"{path}.{field}",
            lambda name, where: check_label_key(found, where, name),
            declared=True,
        )
    check_unique(found, ready, f"{path}.bindingConditions", str, str, declared=False)
    for index, name in enumerate(failed):
        where = f"{path}.bindingFailureConditions[{index}]"
        if name in failed[:index]:
            found.duplicate(where, name)
        if name in ready:
            found.invalid(where, name, "bindingFailureConditions must not overlap with bindingConditions")
    if failed and not ready:
        text = "bindingConditions are required to use bindingFailureConditions"
        found.invalid(f"{path}.bindingConditions", holder.get("bindingConditions"), text)
    if ready and not failed:
        text = "bindingFailureConditions are required to use bindingConditions"
        found.invalid(f"{path}.bindingFailureConditions", holder.get("bindingFailureConditions"), text)


def check_skipped_operations(found: Findings, operations: Sequence[str], path: str) -> None:
    """`skipNodeOperations`: known operations, each once; preparing is skipped only with unpreparing."""
    skipped = set(operations)
    if "NodePrepareResources" in skipped and not skipped & {"NodeUnprepareResources", "*"}:
        text = "NodePrepareResources cannot be skipped unless NodeUnprepareResources is also skipped"
        found.invalid(path, list(operations), text)
    check_unique(found, operations, path, str, str, declared=True)
    for index, operation in enumerate(operations):
        if operation not in _SKIPPABLE:
            found.add(not_supported(f"{path}[{index}]", operation, _SKIPPABLE), declared=True)
