"""Values seen through their shape: checked, as field sets, compared (api-machinery section 8)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from clusters.embedded.apiserver.patching import fields
from clusters.embedded.apiserver.patching.fields import Element, FieldSet, Path
from clusters.embedded.apiserver.patching.gotext import go_text, go_type
from clusters.embedded.apiserver.patching.shapes import Shape
from dra_api.decode import is_respelled, same_form

ABSENT: Final = object()
"""A side of a comparison that has no value here; None is an explicit null."""


class TypedError(ValueError):
    """A value that does not fit its shape; the text lists every problem with its path."""


def element_of(shape: Shape, item: Any) -> Element:
    """The path element that selects an item of a granular list. Raises TypedError."""
    if not shape.keys:
        if item is None:
            raise TypedError("associative list without keys has an element that's an explicit null")
        if isinstance(item, dict):
            raise TypedError("associative list without keys has an element that's a map type")
        if isinstance(item, list):
            raise TypedError("not supported: associative list with lists as elements")
        return fields.member(item)
    if item is None:
        raise TypedError("associative list with keys may not have a null element")
    if not isinstance(item, dict):
        raise TypedError("associative list with keys may not have non-map elements")
    keys: dict[str, Any] = {}
    for name in shape.keys:
        slot = shape.element.fields.get(name)
        if name in item:
            keys[name] = item[name]
        elif slot is not None and slot.default is not None:
            keys[name] = slot.default
    if not keys:
        names = "[" + " ".join(f'"{name}"' for name in shape.keys) + "]"
        raise TypedError(
            f"associative list with keys has an element that omits all key fields {names} "
            "(and doesn't have default values for any key fields)"
        )
    return fields.keyed(keys)


_UNSELECTABLE: Final = Element("", None)


def element_or_none(shape: Shape, item: Any) -> Element:
    """Like `element_of`, for lists that pruning left with items that nothing selects."""
    try:
        return element_of(shape, item)
    except TypedError:
        return _UNSELECTABLE


def check(value: Any, shape: Shape, *, allow_duplicates: bool = False) -> None:
    """Raises TypedError unless the value fits the shape, list items being unique where not allowed."""
    problems = list(_problems(value, shape, "", allow_duplicates))
    if problems:
        raise TypedError(problems[0] if len(problems) == 1 else "\n  ".join(["errors:", *problems]))


def _problems(value: Any, shape: Shape, path: str, allow_duplicates: bool) -> list[str]:
    shape = shape.for_value(value)
    where = f"{path}: " if path else ""
    if value is None or shape.kind == "any":
        return []
    if shape.kind == "scalar":
        problem = _scalar_problem(value, shape.scalar)
        return [where + problem] if problem else []
    found: list[str] = []
    if shape.kind == "list":
        if not isinstance(value, list):
            return [f"{where}expected list, got &{{{go_text(value)}}}"]
        seen: set[Element] = set()
        for index, item in enumerate(value):
            if shape.atomic:
                step = f"[{index}]"
            else:
                try:
                    element = element_of(shape, item)
                except TypedError as error:
                    return [*found, f"{where}element {index}: {error}"]
                step = str(element)
                if element in seen and not allow_duplicates:
                    found.append(f"{where}duplicate entries for key {step}")
                seen.add(element)
            found += _problems(item, shape.element, path + step, allow_duplicates)
        return found
    if not isinstance(value, dict):
        return [f"{where}expected map, got &{{{go_text(value)}}}"]
    for name in sorted(value):
        if not shape.declares(name):
            return [*found, f"{path}.{name}: field not declared in schema"]
        found += _problems(value[name], shape.child(name), f"{path}.{name}", allow_duplicates)
    return found


def _scalar_problem(value: Any, scalar: str) -> str | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if scalar == "numeric" and not is_number:
        return f"expected numeric (int or float), got {go_type(value)}"
    if scalar == "string" and not isinstance(value, str):
        return f"expected string, got &value.valueUnstructured{{Value:{go_text(value)}}}"
    if scalar == "boolean" and not isinstance(value, bool):
        return f"expected boolean, got &{{{go_text(value)}}}"
    if scalar == "untyped" and not isinstance(value, str | bool | int | float):
        return f"expected any scalar, got &{{{go_text(value)}}}"
    return None


def to_set(value: Any, shape: Shape) -> FieldSet:
    """What an applied value owns: leaves, list items and their fields, map entries, empty maps, nulls."""
    result = FieldSet()
    _collect(value, shape, (), result)
    return result


def _collect(value: Any, shape: Shape, path: Path, result: FieldSet) -> None:
    shape = shape.for_value(value)
    if shape.kind == "scalar" or shape.atomic:
        result.insert(path)
    elif shape.kind == "list":
        items = [(element_or_none(shape, item), item) for item in value or ()]
        counts = Counter(element for element, _ in items)
        for element, item in items:
            result.insert((*path, element))
            if counts[element] == 1:
                _collect(item, shape.element, (*path, element), result)
    else:
        for name, item in (value or {}).items():
            below = (*path, fields.field(name))
            _collect(item, shape.child(name), below, result)
            if item is None or item == {} or name not in shape.fields:
                result.insert(below)


@dataclass(frozen=True)
class Comparison:
    """What a write changed, as three disjoint sets."""

    added: FieldSet = field(default_factory=FieldSet)
    modified: FieldSet = field(default_factory=FieldSet)
    removed: FieldSet = field(default_factory=FieldSet)

    def without(self, ignored: FieldSet) -> Comparison:
        """The comparison less some fields and everything below them."""
        return Comparison(
            self.added.without(ignored), self.modified.without(ignored), self.removed.without(ignored)
        )


def compare(old: Any, new: Any, shape: Shape) -> Comparison:
    """What leads from the old to the new value; a container that appears or vanishes counts itself too.

    An atomic list that shows the same and was sent in another form (`1024Mi` for `1Gi`) counts as modified.
    """
    result = Comparison()
    _compare(old, new, shape, (), result)
    if is_respelled(new):
        _compare_forms(old, new, shape, (), result)
    return result


def _compare_forms(old: Any, new: Any, shape: Shape, path: Path, result: Comparison) -> None:
    """Finds the atomic lists that are equal in all but their form."""
    shape = shape.for_value(new)
    if shape.kind == "list" and shape.atomic:
        if is_respelled(new) and equal(old, new) and not same_form(old, new):
            result.modified.insert(path)
    elif shape.kind == "list":
        before, after = _grouped(old, shape), _grouped(new, shape)
        for element in before.keys() & after.keys():
            if len(before[element]) == len(after[element]) == 1:
                _compare_forms(before[element][0], after[element][0], shape.element, (*path, element), result)
    elif not shape.atomic and isinstance(old, dict) and isinstance(new, dict):
        for name in old.keys() & new.keys():
            _compare_forms(old[name], new[name], shape.child(name), (*path, fields.field(name)), result)


def _compare(old: Any, new: Any, shape: Shape, path: Path, result: Comparison) -> None:
    if shape.kind == "any" and old is not ABSENT and new is not ABSENT:
        # Where free JSON changes its type, the old value's parts are looked at by its own type first.
        former = shape.for_value(old)
        if old is not None and new is not None and former is not shape.for_value(new):
            _compare(old, new, former, path, result)
    if old is not ABSENT and new is not ABSENT and equal(old, new):
        return
    shape = shape.for_value(old if new is ABSENT or new is None else new)
    if shape.kind == "scalar" or shape.atomic or (_is_empty(old) and _is_empty(new)):
        if old is ABSENT:
            result.added.insert(path)
        elif new is ABSENT:
            result.removed.insert(path)
        else:
            result.modified.insert(path)
        return
    if shape.kind == "list":
        _compare_items(_grouped(old, shape), _grouped(new, shape), shape, path, result)
    else:
        before, after = _mapping(old), _mapping(new)
        for name in before.keys() | after.keys():
            below = (*path, fields.field(name))
            _compare(before.get(name, ABSENT), after.get(name, ABSENT), shape.child(name), below, result)
    if old is ABSENT:
        result.added.insert(path)
    elif new is ABSENT:
        result.removed.insert(path)


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _is_empty(value: Any) -> bool:
    return value is ABSENT or value is None or value == {} or value == []


def _grouped(value: Any, shape: Shape) -> dict[Element, list[Any]]:
    """List items by the element that selects them; several under one are duplicates."""
    groups: dict[Element, list[Any]] = {}
    for item in value if isinstance(value, list) else ():
        groups.setdefault(element_of(shape, item), []).append(item)
    return groups


def _compare_items(
    old: dict[Element, list[Any]],
    new: dict[Element, list[Any]],
    shape: Shape,
    path: Path,
    result: Comparison,
) -> None:
    for element in old.keys() | new.keys():
        before, after = old.get(element, []), new.get(element, [])
        below = (*path, element)
        if len(before) < 2 and len(after) < 2:
            left = before[0] if before else ABSENT
            _compare(left, after[0] if after else ABSENT, shape.element, below, result)
        elif len(before) > 1 and len(after) > 1:
            # Duplicates are one leaf together.
            if not equal(before, after):
                result.modified.insert(below)
        elif len(before) > 1:
            if after:
                _compare(ABSENT, after[0], shape.element, below, result)
            result.removed.insert(below)
        else:
            if before:
                _compare(before[0], ABSENT, shape.element, below, result)
            result.added.insert(below)


def equal(left: Any, right: Any) -> bool:
    """Equality of JSON values: 1 equals 1.0, true is no number."""
    if left is right:
        return True
    if left != right:
        return False
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)
