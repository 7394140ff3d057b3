"""The value side of server-side apply: merge and remove (api-machinery section 8)."""

from __future__ import annotations

from typing import Any

from clusters.embedded.apiserver.patching import fields
from clusters.embedded.apiserver.patching.fields import Element, FieldSet
from clusters.embedded.apiserver.patching.shapes import Shape
from clusters.embedded.apiserver.patching.typed import ABSENT, TypedError, element_of, element_or_none


def merge(live: Any, config: Any, shape: Shape) -> Any:
    """The live value with the configuration merged in; ABSENT when nothing is left; the inputs stay.

    Raises TypedError when the configuration lists an item twice.
    """
    shape = shape.for_value(live if config is ABSENT else config)
    if shape.kind == "scalar" or shape.atomic or not (_has_content(live) or _has_content(config)):
        return live if config is ABSENT else config
    if shape.kind == "list":
        items = _merge_items(_items(live), _items(config), shape)
        return items or ABSENT
    before, wanted = _mapping(live), _mapping(config)
    result = {}
    for name in [*before, *(name for name in wanted if name not in before)]:
        value = merge(before.get(name, ABSENT), wanted.get(name, ABSENT), shape.child(name))
        if value is not ABSENT:
            result[name] = value
    return result or ABSENT


def _has_content(value: Any) -> bool:
    return value is not ABSENT and bool(value)


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _merge_items(live: list[Any], config: list[Any], shape: Shape) -> list[Any]:
    """Applied items in the applied order; live-only items keep their place between their neighbours."""
    wanted: dict[Element, Any] = {}
    for item in config:
        element = element_of(shape, item)
        if element in wanted:
            raise TypedError(f"duplicate entries for key {element}")
        wanted[element] = item
    present: dict[Element, Any] = {}
    order: list[Element] = []
    for item in live:
        element = element_of(shape, item)
        # A live duplicate is not merged with: it counts as null.
        present[element] = None if element in present else item
        order.append(element)

    result: list[Any] = []

    def put(value: Any) -> None:
        if value is not ABSENT:
            result.append(value)

    def put_wanted(element: Element) -> None:
        put(merge(present.get(element, ABSENT), wanted[element], shape.element))

    applied = list(wanted)
    shared = [element for element in applied if element in present]
    done: set[Element] = set()
    left = right = 0
    while left < len(order) or right < len(applied):
        if left < len(order) and right < len(applied):
            element = order[left]
            if element == applied[right]:
                done.add(element)
                put_wanted(element)
                left, right = left + 1, right + 1
                shared = shared[1:]
                continue
            if element in wanted and shared and shared[0] != element:
                # It comes at its applied place.
                left += 1
                continue
        if left < len(order):
            element = order[left]
            if element not in wanted:
                put(merge(live[left], ABSENT, shape.element))
                left += 1
                continue
            if element in done:
                left += 1
        if right < len(applied):
            element = applied[right]
            done.add(element)
            put_wanted(element)
            right += 1
            if shared and shared[0] == element:
                shared = shared[1:]
    return result


def remove(value: Any, gone: FieldSet, shape: Shape) -> Any:
    """The value without the members of a set; None when nothing is left. The input stays as it is."""
    shape = shape.for_value(value)
    if shape.kind == "scalar" or not isinstance(value, dict | list):
        return value
    if not value or shape.atomic:
        # Part of a leaf is removed: the leaf goes as a whole.
        return None
    if isinstance(value, list):
        items = []
        for item in value:
            element = element_or_none(shape, item)
            if element not in gone.members:
                below = gone.below(element)
                items.append(remove(item, below, shape.element) if below else item)
        return items or None
    result = {}
    for name, item in value.items():
        element = fields.field(name)
        if element not in gone.members:
            below = gone.below(element)
            result[name] = remove(item, below, shape.child(name)) if below else item
    return result or None


def with_named_fields(owned: FieldSet, shape: Shape) -> FieldSet:
    """The set with every struct field on the way to a member added; map entries and lists are not."""
    members = set(owned.members)
    children = {}
    for element, child in owned.children.items():
        below = Shape("any")
        if element.kind == "f" and shape.kind in {"struct", "map"}:
            below = shape.child(element.value)
            if element.value in shape.fields:
                members.add(element)
        elif element.kind == "k" and shape.kind == "list":
            below = shape.element
        children[element] = with_named_fields(child, below)
    return FieldSet(members, children)
