"""Rules for the failure and success policies of Jobs, and for lists of indexes.

Source: kubernetes v1.37.2 `pkg/apis/batch/validation`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..errors import OMIT
from .findings import Findings
from .names import byte_length, label_key_problems, not_supported, too_many

Object = Mapping[str, Any]

_RULES_MAX: Final = 20
_EXIT_CODES_MAX: Final = 255
_INDEXES_MAX: Final = 64 * 1024
_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS: Final = ("In", "NotIn")
_STATES: Final = ("False", "True", "Unknown")


def _choices(values: tuple[str, ...]) -> str:
    return "valid values: [" + " ".join(f'"{value}"' for value in values) + "]"


def _check_choice(found: Findings, value: str, path: str, allowed: tuple[str, ...]) -> None:
    if not value:
        found.required(path, _choices(allowed))
    elif value not in allowed:
        found.add(not_supported(path, value, allowed))


def check_failure_policy(found: Findings, spec: Object, path: str) -> None:
    """`podFailurePolicy` of a Job's spec."""
    rules = spec["podFailurePolicy"].get("rules") or []
    if len(rules) > _RULES_MAX:
        found.add(too_many(f"{path}.rules", len(rules), _RULES_MAX))
    pod = (spec.get("template") or {}).get("spec") or {}
    names = {each.get("name") for group in ("containers", "initContainers") for each in pod.get(group) or []}
    for index, rule in enumerate(rules):
        where = f"{path}.rules[{index}]"
        action = rule.get("action") or ""
        if action == "FailIndex":
            if spec.get("backoffLimitPerIndex") is None:
                found.invalid(f"{where}.action", action, "requires the backoffLimitPerIndex to be set")
        else:
            _check_choice(found, action, f"{where}.action", _ACTIONS)
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or []
        if codes is not None:
            _check_exit_codes(found, codes, f"{where}.onExitCodes", names)
        _check_conditions(found, conditions, f"{where}.onPodConditions")
        if codes is not None and conditions:
            _without_value(found, where, "specifying both OnExitCodes and OnPodConditions is not supported")
        elif codes is None and not conditions:
            _without_value(found, where, "specifying one of OnExitCodes and OnPodConditions is required")


def _without_value(found: Findings, path: str, text: str) -> None:
    found.invalid(path, OMIT, text)


def _check_conditions(found: Findings, patterns: Sequence[Object], path: str) -> None:
    if len(patterns) > _RULES_MAX:
        found.add(too_many(path, len(patterns), _RULES_MAX))
    for index, pattern in enumerate(patterns):
        kind = pattern.get("type") or ""
        found.invalid_each(f"{path}[{index}].type", kind, label_key_problems(kind))
        _check_choice(found, pattern.get("status") or "", f"{path}[{index}].status", _STATES)


def _check_exit_codes(found: Findings, codes: Object, path: str, names: set[Any]) -> None:
    operator = codes.get("operator") or ""
    _check_choice(found, operator, f"{path}.operator", _OPERATORS)
    container = codes.get("containerName")
    if container is not None and container not in names:
        text = "must be one of the container or initContainer names in the pod template"
        found.invalid(f"{path}.containerName", container, text)
    values = codes.get("values") or []
    if not values:
        found.invalid(f"{path}.values", codes.get("values"), "at least one value is required")
    elif len(values) > _EXIT_CODES_MAX:
        found.add(too_many(f"{path}.values", len(values), _EXIT_CODES_MAX))
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            found.invalid(f"{path}.values[{index}]", value, "must not be 0 for the In operator")
        if value in values[:index]:
            found.duplicate(f"{path}.values[{index}]", value)
    if values != sorted(values):
        found.invalid(f"{path}.values", values, "must be ordered")


def check_success_policy(found: Findings, spec: Object, path: str, *, indexed: bool) -> None:
    """`successPolicy` of a Job's spec."""
    policy = spec["successPolicy"]
    if not indexed:
        rules = [
            {"SucceededIndexes": each.get("succeededIndexes"), "SucceededCount": each.get("succeededCount")}
            for each in policy.get("rules") or []
        ]
        found.invalid(path, {"Rules": rules or None}, "requires indexed completion mode")
        return
    rules = policy.get("rules") or []
    if not rules:
        text = "at least one rules must be specified when the successPolicy is specified"
        found.required(f"{path}.rules", text)
    if len(rules) > _RULES_MAX:
        found.add(too_many(f"{path}.rules", len(rules), _RULES_MAX))
    for index, rule in enumerate(rules):
        _check_success_rule(found, rule, f"{path}.rules[{index}]", spec.get("completions") or 0)


def _check_success_rule(found: Findings, rule: Object, path: str, completions: int) -> None:
    indexes, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    if indexes is None and count is None:
        text = "at least one of succeededCount or succeededIndexes must be specified"
        found.required(path, text)
    total = 0
    if indexes is not None:
        if byte_length(indexes) > _INDEXES_MAX:
            found.longer(f"{path}.succeededIndexes", _INDEXES_MAX)
        try:
            total = count_indexes(indexes, completions)
        except ValueError as error:
            found.invalid(f"{path}.succeededIndexes", indexes, f"error parsing succeededIndexes: {error}")
    if count is None:
        return
    if count < 0:
        found.invalid(f"{path}.succeededCount", count, "must be greater than or equal to 0")
    limits = [(completions, "the number of specified completions")]
    if indexes is not None:
        limits.append((total, "the number of indexes in the specified succeededIndexes field"))
    for limit, what in limits:
        if count > limit:
            text = f"must be less than or equal to {limit} ({what})"
            found.invalid(f"{path}.succeededCount", count, text)


def count_indexes(text: str, completions: int) -> int:
    """How many indexes `1,3-5` names; raises ValueError for another form or an index that is too large."""
    total, last = 0, -1
    for interval in text.split(",") if text else ():
        low, high = _interval(interval, completions)
        if last >= low:
            raise ValueError(f"non-increasing order, previous: {last}, current: {low}")
        total += high - low + 1
        last = high
    return total


def _interval(text: str, completions: int) -> tuple[int, int]:
    limits = text.split("-")
    if len(limits) > 2:
        raise ValueError(
            f'the fragment "{text}" violates the requirement that an index interval can have at most two parts '
            "separated by '-'"
        )
    numbers = []
    for limit in limits:
        if not limit.isdecimal():
            raise ValueError(f'cannot convert string to integer for index: "{limit}"')
        if int(limit) >= completions:
            raise ValueError(f'too large index: "{limit}"')
        numbers.append(int(limit))
    if len(numbers) == 2 and numbers[0] >= numbers[1]:
        raise ValueError(f"non-increasing order, previous: {numbers[0]}, current: {numbers[1]}")
    return numbers[0], numbers[-1]
