"""JSON patch, RFC 6902, with the deviations of a Kubernetes API server (api-machinery section 8).

Deviations: `replace` of a missing map key adds it; a negative index counts from the end; `test` of a missing
key against null succeeds. Whatever does not fit the object is one and the same 422 without a reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from clusters.embedded.apiserver.copying import copied
from clusters.embedded.apiserver.patching.errors import bad_patch, rejected, too_many_operations

MAX_OPERATIONS: Final = 10_000
"""Operations in one patch; more are refused with 413."""

_MAX_COPIED: Final = 3 * 1024 * 1024
"""Bytes of JSON that all copy operations of a patch may add: copies of copies double each time."""

_INDEX: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_FIELDS: Final = ("op", "path", "from")
_Container: TypeAlias = "dict[str, Any] | list[Any]"


def json_patch(obj: dict[str, Any], ops: Any) -> Any:
    """The object after all operations; the input stays as it is.

    Raises PatchError: 400 when `ops` is no list of operations, 413 for too many, 422 when one does not apply.
    """
    check_operations(ops)
    if len(ops or ()) > MAX_OPERATIONS:
        raise too_many_operations(MAX_OPERATIONS, len(ops))
    document: Any = copied(obj)
    size = 0
    for operation in ops or ():
        operation = operation or {}
        if operation.get("op") == "copy":
            size += _size_of_source(document, operation)
            if size > _MAX_COPIED:
                raise rejected()
        document = _apply(document, operation)
    return document


def check_operations(ops: Any) -> None:
    """Raises PatchError (400) unless `ops` is null or a list of objects; their op, path, from are strings."""
    if ops is None:
        return
    if not isinstance(ops, list):
        raise bad_patch(_cannot(ops, "value of type []handlers.jsonPatchOp"))
    for operation in ops:
        if operation is None:
            continue
        if not isinstance(operation, dict):
            raise bad_patch(_cannot(operation, "value of type handlers.jsonPatchOp"))
        for name in _FIELDS:
            value = operation.get(name)
            if value is not None and not isinstance(value, str):
                raise bad_patch(_cannot(value, f"struct field jsonPatchOp.{name} of type string"))


def _cannot(value: Any, target: str) -> str:
    return f"error decoding patch: json: cannot unmarshal {json_type(value)} into Go {target}"


def json_type(value: Any) -> str:
    """The JSON type of a value as Go's decoder names it."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int | float):
        return "number"
    return "array" if isinstance(value, list) else "object"


def _apply(document: Any, operation: dict[str, Any]) -> Any:
    action = _ACTIONS.get(operation.get("op") or "")
    if action is None:
        raise rejected()
    return action(document, operation)


def _pointer(operation: dict[str, Any], name: str) -> str:
    pointer = operation.get(name)
    if not isinstance(pointer, str):
        raise rejected()
    return pointer


def _find(document: Any, pointer: str) -> tuple[_Container, str]:
    """The container that holds the last step of a pointer, and that step."""
    steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")]
    if len(steps) < 2:
        raise rejected()
    node = document
    for step in steps[1:-1]:
        node = _get(node, step)
        if not isinstance(node, dict | list):
            raise rejected()
    return node, steps[-1]


def _index(items: list[Any], step: str, size: int) -> int:
    """The index a step names in a list of `size` places."""
    if not _INDEX.fullmatch(step):
        raise rejected()
    index = int(step)
    if index < 0:
        index += size
    if not 0 <= index < size:
        raise rejected()
    return index


def _get(container: _Container, step: str) -> Any:
    if isinstance(container, dict):
        return container.get(step)
    return container[_index(container, step, len(container))]


def _insert(container: _Container, step: str, value: Any) -> None:
    if isinstance(container, dict):
        container[step] = value
    elif step == "-":
        container.append(value)
    else:
        container.insert(_index(container, step, len(container) + 1), value)


def _delete(container: _Container, step: str) -> None:
    if isinstance(container, dict):
        if step not in container:
            raise rejected()
        del container[step]
    else:
        del container[_index(container, step, len(container))]


def _add(document: Any, operation: dict[str, Any]) -> Any:
    container, step = _find(document, _pointer(operation, "path"))
    _insert(container, step, copied(operation.get("value")))
    return document


def _remove(document: Any, operation: dict[str, Any]) -> Any:
    container, step = _find(document, _pointer(operation, "path"))
    _delete(container, step)
    return document


def _replace(document: Any, operation: dict[str, Any]) -> Any:
    pointer = _pointer(operation, "path")
    value = copied(operation.get("value"))
    if pointer == "":
        if not isinstance(value, dict | list):
            raise rejected()
        return value
    container, step = _find(document, pointer)
    if isinstance(container, dict):
        container[step] = value
    else:
        container[_index(container, step, len(container))] = value
    return document


def _move(document: Any, operation: dict[str, Any]) -> Any:
    container, step = _find(document, _pointer(operation, "from"))
    value = _get(container, step)
    _delete(container, step)
    target, last = _find(document, _pointer(operation, "path"))
    _insert(target, last, value)
    return document


def _size_of_source(document: Any, operation: dict[str, Any]) -> int:
    container, step = _find(document, _pointer(operation, "from"))
    return len(json.dumps(_get(container, step)))


def _copy(document: Any, operation: dict[str, Any]) -> Any:
    container, step = _find(document, _pointer(operation, "from"))
    value = copied(_get(container, step))
    target, last = _find(document, _pointer(operation, "path"))
    _insert(target, last, value)
    return document


def _test(document: Any, operation: dict[str, Any]) -> Any:
    pointer = _pointer(operation, "path")
    if pointer == "":
        found = document
    else:
        container, step = _find(document, pointer)
        found = _get(container, step)
    if not _equal(found, operation.get("value")):
        raise rejected()
    return document


def _equal(left: Any, right: Any) -> bool:
    # Python holds True == 1 and 1 == 1.0; JSON texts differ.
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    kinds = [(isinstance(value, bool), isinstance(value, float)) for value in (left, right)]
    return kinds[0] == kinds[1] and bool(left == right)


_ACTIONS: Final[dict[str, Callable[[Any, dict[str, Any]], Any]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}
