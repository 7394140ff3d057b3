"""Strategic merge patch: a JSON merge with rules for lists (api-machinery section 8).

The rules come from the patch strategies and merge keys of the schema; a patch overrides them by directives:
`$patch`, `$retainKeys`, `$deleteFromPrimitiveList/FIELD` and `$setElementOrder/FIELD`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from clusters.embedded.apiserver.copying import copied
from clusters.embedded.apiserver.patching.errors import bad_patch, failed, rejected
from clusters.embedded.apiserver.patching.gotext import go_text, go_type
from clusters.embedded.apiserver.patching.json_patch import json_type
from clusters.embedded.apiserver.patching.shapes import Shape, Slot

_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_DELETE_FROM: Final = "$deleteFromPrimitiveList"
_ORDER: Final = "$setElementOrder"
_DROP: Final = object()


def strategic_merge(shape: Shape, obj: dict[str, Any], patch: Any) -> dict[str, Any]:
    """The object with the patch merged in by the rules of its kind's shape; the inputs stay as they are.

    Raises PatchError: 400 for malformed directives, 422 for lists of lists, 500 where merging is impossible.
    """
    if patch is not None and not isinstance(patch, dict):
        target = "map[string]interface {}"
        raise bad_patch(f"json: cannot unmarshal {json_type(patch)} into Go value of type {target}")
    return _merge_map(shape, copied(obj), copied(patch or {}))


def _merge_map(shape: Shape, original: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    if _DIRECTIVE in patch:
        return _whole_map(patch)
    _retain_keys(original, patch)
    _ordered_lists(shape, original, patch)
    for key, value in patch.items():
        deleting = key.startswith(_DELETE_FROM)
        name = _target(key, _DELETE_FROM) if deleting else key
        if value is None:
            original.pop(name, None)
        elif name not in original or _json_kind(original[name]) != _json_kind(value):
            if not deleting:
                _put(original, name, _without_nulls(value))
        elif isinstance(value, dict):
            slot = _slot(shape, name)
            replace = _strategy(slot) == "replace"
            original[name] = value if replace else _merge_map(slot.shape, original[name], value)
        elif isinstance(value, list):
            slot = _list_slot(shape, name)
            if _strategy(slot) == "merge" or deleting:
                original[name] = _merge_list(slot, original[name], value, deleting=deleting)
            else:
                original[name] = value
        else:
            original[name] = value
    return original


def _whole_map(patch: dict[str, Any]) -> dict[str, Any]:
    directive = patch[_DIRECTIVE]
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _DIRECTIVE}
    if directive == "delete":
        return {}
    raise _unknown_directive(directive, patch)


def _unknown_directive(directive: Any, patch: dict[str, Any]) -> Exception:
    text = directive if isinstance(directive, str) else f"%!s({go_type(directive)}={go_text(directive)})"
    return failed(f"unknown patch type: {text} in map: {go_text(patch)}")


def _retain_keys(original: dict[str, Any], patch: dict[str, Any]) -> None:
    """Drops what `$retainKeys` does not name; everything the patch sets must be named."""
    if _RETAIN not in patch:
        return
    keys = patch.pop(_RETAIN)
    if not isinstance(keys, list):
        raise bad_patch("invalid patch format of retainKeys")
    for key, value in patch.items():
        if value is not None and not key.startswith((_DELETE_FROM, _ORDER)) and key not in keys:
            raise bad_patch("invalid patch format of retainKeys")
    for key in [key for key in original if key not in keys]:
        del original[key]


def _target(key: str, prefix: str) -> str:
    """The field a parallel directive such as `$setElementOrder/containers` speaks of."""
    head, separator, name = key.partition("/")
    if head != prefix or not separator:
        what = "primitive list" if prefix == _DELETE_FROM else "setElementOrder list"
        raise bad_patch(f"invalid patch format of {what}")
    return name


def _slot(shape: Shape, name: str) -> Slot:
    if shape.kind != "struct":
        raise failed(f"merging an object in json but data type is not struct, instead is: {shape.kind}")
    slot = shape.fields.get(name)
    if slot is None:
        raise failed(f'unable to find api field in struct {shape.name} for the json field "{name}"')
    return slot


def _list_slot(shape: Shape, name: str) -> Slot:
    slot = _slot(shape, name)
    if slot.shape.kind != "list":
        raise failed(f"expected slice or array type, but got: {shape.kind}")
    return slot


def _strategy(slot: Slot) -> str:
    names = [name for name in slot.strategies if name != "retainKeys"]
    return names[0] if names else ""


def _json_kind(value: Any) -> str:
    return go_type(value)


def _put(original: dict[str, Any], name: str, value: Any) -> None:
    kept = _without_directives(value)
    if kept is _DROP:
        original.pop(name, None)
    else:
        original[name] = kept


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _without_directives(value: Any) -> Any:
    """A new value for a place that had none: maps with `$patch` vanish."""
    if isinstance(value, dict):
        if _DIRECTIVE in value:
            return _DROP
        items = {key: _without_directives(item) for key, item in value.items()}
        return {key: item for key, item in items.items() if item is not _DROP}
    if isinstance(value, list):
        kept = [_without_directives(item) for item in value]
        return [item for item in kept if item is not _DROP]
    return value


def _ordered_lists(shape: Shape, original: dict[str, Any], patch: dict[str, Any]) -> None:
    """Merges the lists that have a `$setElementOrder`; takes both out of the patch."""
    for key in [key for key in patch if key.startswith(_ORDER)]:
        order = patch.pop(key)
        name = _target(key, _ORDER)
        if not isinstance(order, list):
            raise failed(f"expected a []interface {{}}, but received a {go_type(order)}")
        before, wanted = (_as_list(source.get(name)) for source in (original, patch))
        slot = _list_slot(shape, name)
        _check_order(wanted or [], order, slot.merge_key)
        if before is None and wanted is None:
            continue
        if wanted is None:
            merged = before or []
        elif before is None:
            merged = _without_directives(wanted)
        elif _strategy(slot) == "merge":
            merged = _merge_list(slot, list(before), wanted, deleting=False)
        else:
            merged = wanted
        chosen, rest = _partition(merged, order, slot.merge_key)
        is_map = _element_kind(before or [], wanted or []) == go_type({})
        original[name] = _interleave(chosen, rest, order, before or [], slot.merge_key if is_map else "")
        patch.pop(name, None)


def _as_list(value: Any) -> list[Any] | None:
    if value is None or isinstance(value, list):
        return value
    raise failed(f"expected a []interface {{}}, but received a {go_type(value)}")


def _check_order(wanted: list[Any], order: list[Any], merge_key: str) -> None:
    """The items that a patch lists must appear in its `$setElementOrder`, in the same order."""
    if not wanted or not order:
        return
    items = (
        wanted if not merge_key else [item for item in wanted if _as_map(item).get(_DIRECTIVE) != "delete"]
    )
    place = 0
    for item in items:
        # A directive after the last ordered item counts as out of order on a real server, too.
        if isinstance(item, dict) and _DIRECTIVE in item and place < len(order):
            continue
        while place < len(order) and not _same(item, order[place], merge_key):
            place += 1
        if place == len(order):
            raise failed(
                f"The order in patch list:\n{go_text(wanted)}\n"
                f" doesn't match {_ORDER} list:\n{go_text(order)}\n"
            )
        place += 1


def _same(left: Any, right: Any, merge_key: str) -> bool:
    if not merge_key:
        return _equal(left, right)
    return _equal(_key_of(left, merge_key), _key_of(right, merge_key))


def _equal(left: Any, right: Any) -> bool:
    # Python holds True == 1; the comparison comes first because it almost always decides.
    return bool(left == right) and go_type(left) == go_type(right)


def _as_map(item: Any) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise failed(f"expected a map[string]interface {{}}, but received a {go_type(item)}")
    return item


def _key_of(item: Any, merge_key: str) -> Any:
    entry = _as_map(item)
    if merge_key not in entry:
        raise failed(f"map: {go_text(entry)} does not contain declared merge key: {merge_key}")
    return entry[merge_key]


def _element_kind(*lists: Sequence[Any]) -> str:
    """The one type of all items; lists in lists and mixed lists cannot be merged."""
    kinds = [go_type(item) for items in lists for item in items]
    if not kinds:
        raise failed("no elements in any of the given slices")
    if kinds[0] == go_type([]):
        raise rejected()
    if len(set(kinds)) > 1:
        raise failed(f"list element types are not identical: {go_text([list(items) for items in lists])}")
    return kinds[0]


def _merge_list(slot: Slot, original: list[Any], patch: list[Any], *, deleting: bool) -> list[Any]:
    if not original and not patch:
        return original
    is_map = _element_kind(original, patch) == go_type({})
    if not is_map:
        if deleting:
            return [item for item in original if not _contains(patch, item)]
        merged: list[Any] = []
        for item in [*original, *patch]:
            if not _contains(merged, item):
                merged.append(item)
        chosen, rest = _partition(merged, patch, "")
        return _interleave(chosen, rest, patch, original, "")
    key = slot.merge_key
    if not key:
        raise failed(f"cannot merge lists without merge key for {slot.shape.element.kind}")
    original, patch = _list_directives(original, patch, key)
    merged = list(original)
    for item in patch:
        value = _key_of(item, key)
        place = _place(merged, value, key)
        if place is None:
            merged.append(item)
        else:
            merged[place] = _merge_map(slot.shape.element, merged[place], item)
    chosen, rest = _partition(merged, patch, key)
    return _interleave(chosen, rest, patch, original, key)


def _contains(items: list[Any], wanted: Any) -> bool:
    return any(_equal(item, wanted) for item in items)


def _place(items: list[Any], value: Any, key: str) -> int | None:
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            raise failed(f"value for key {index} is not a map")
        if key in item and _equal(item[key], value):
            return index
    return None


def _list_directives(original: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """Carries out `$patch` items; returns what to merge into and what to merge."""
    plain: list[Any] = []
    replace = False
    for item in patch:
        if _DIRECTIVE not in item:
            plain.append(item)
        elif item[_DIRECTIVE] == "delete":
            value = _key_of(item, key)
            _place(original, value, key)
            original = [entry for entry in original if not (key in entry and _equal(entry[key], value))]
        elif item[_DIRECTIVE] == "replace":
            replace = True
        elif item[_DIRECTIVE] == "merge":
            raise failed("merging lists cannot yet be specified in the patch")
        else:
            raise _unknown_directive(item[_DIRECTIVE], item)
    return (plain, []) if replace else (original, plain)


def _partition(items: list[Any], listed: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """The items that are listed, and the others."""
    chosen: list[Any] = []
    rest: list[Any] = []
    for item in items:
        found = _contains(listed, item) if not key else _place(listed, _key_of(item, key), key) is not None
        (chosen if found else rest).append(item)
    return chosen, rest


def _interleave(
    chosen: list[Any], rest: list[Any], order: list[Any], before: list[Any], key: str
) -> list[Any]:
    """The chosen items in the wanted order; one of the rest goes before the first that it preceded."""

    def index(items: list[Any], item: Any) -> int:
        wanted = item.get(key) if key else item
        for place, candidate in enumerate(items):
            if _equal(candidate.get(key) if key else candidate, wanted):
                return place
        return -1

    if key:
        for item in [*chosen, *order, *rest, *before]:
            _key_of(item, key)
    left = sorted(rest, key=lambda item: index(before, item))
    right = sorted(chosen, key=lambda item: index(order, item))
    result: list[Any] = []
    while left and right:
        mine, theirs = index(before, left[0]), index(before, right[0])
        result.append(left.pop(0) if 0 <= mine < theirs else right.pop(0))
    return result + left + right
