"""The rules of validation_rules.yaml, which says what they are made of."""

from __future__ import annotations

import copy
import json
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml
from api_chance import Object

CREATE, UPDATE, STATUS = "create", "update", "status"
_FILE: Final = Path(__file__).with_name("validation_rules.yaml")
_STEP: Final = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_ABSENT: Final = {"$absent": True}

Changes = dict[str, Any]
"""Values by path; one that is ABSENT takes away what is there."""


@dataclass(frozen=True)
class Rule:
    """What a server checks. `good` keeps to it, `bad` breaks it."""

    id: str
    says: str
    kind: str
    good: tuple[Changes, ...]
    bad: tuple[Changes, ...]
    on: str = CREATE
    common: Changes = field(default_factory=dict)
    old: Changes | None = None
    alpha: bool = False
    deleted: bool = False


@dataclass(frozen=True)
class Rules:
    """All rules, and a valid object of each kind by plural: what stands beside apiVersion, kind and metadata."""

    bases: dict[str, Object]
    all: tuple[Rule, ...]

    def of(self, kind: str, on: str) -> list[Rule]:
        """The rules of a kind that one sort of write is judged by."""
        return [rule for rule in self.all if (rule.kind, rule.on) == (kind, on)]


@cache
def load() -> Rules:
    """The rules of the file; the result is shared."""
    document = yaml.safe_load(_FILE.read_text())
    return Rules(document["bases"], tuple(_rule(entry) for entry in document["rules"]))


def _rule(entry: Object) -> Rule:
    place = entry.get("at")
    good, bad = (
        tuple({place: _value(case)} if place else _changes(case) for case in entry[name])
        for name in ("good", "bad")
    )
    old = entry.get("old")
    return Rule(
        entry["id"], entry["says"], entry["kind"], good, bad, entry.get("write", CREATE),
        _changes(entry.get("with", {})), None if old is None else _changes(old), entry.get("gates") == "alpha",
        entry.get("deleted", False),
    )  # fmt: skip


def _changes(raw: Object) -> Changes:
    return {path: _value(value) for path, value in raw.items()}


def _value(raw: Any) -> Any:
    if isinstance(raw, list):
        return [_value(item) for item in raw]
    if not isinstance(raw, dict) or raw == _ABSENT:
        return raw
    match next(iter(raw.items()), ("", None)):
        case "$repeat", [text, count]:
            return text * count
        case "$times", [count, item]:
            return [_numbered(_value(item), index) for index in range(count)]
        case "$keys", [count, key, value]:
            return {key % index: _value(value) for index in range(count)}
        case "$json", text:
            return json.loads(str(text))
    return {str(key): _value(value) for key, value in raw.items()}


def _numbered(item: Any, index: int) -> Any:
    return json.loads(json.dumps(item).replace("%d", str(index)))


def changed(obj: Object, changes: Changes) -> Object:
    """A copy of the object with values put in their places. Raises LookupError where there is no such place."""
    result = copy.deepcopy(obj)
    for path, value in changes.items():
        steps = [int(index) if index else name for name, index in _STEP.findall(path)]
        _put(result, steps, copy.deepcopy(value), path)
    return result


def _put(node: Any, steps: list[str | int], value: Any, path: str) -> None:
    step, rest = steps[0], steps[1:]
    if not isinstance(node, list if isinstance(step, int) else dict):
        raise LookupError(f"there is no place {path}")
    if not rest and value == _ABSENT:
        if isinstance(node, dict):
            node.pop(step, None)
        elif step < len(node):
            del node[step]
        return
    below: Any = [] if rest and isinstance(rest[0], int) else {}
    if isinstance(step, int):
        if step > len(node):
            raise LookupError(f"there is no place {path}")
        if step == len(node):
            node.append(below)
    elif node.get(step) is None:
        node[step] = below
    if rest:
        _put(node[step], rest, value, path)
    else:
        node[step] = value
