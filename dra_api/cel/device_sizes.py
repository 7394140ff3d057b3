"""The largest sizes of what is reachable from the variable `device`.

Sources: the limits of the API and the size estimator of dynamic-resource-allocation `cel/compile.go`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .estimates import Range


@dataclass(frozen=True)
class _Shape:
    size: int
    key: _Shape | None = None
    element: _Shape | None = None
    fields: tuple[tuple[str, _Shape], ...] = ()


_ATTRIBUTE: Final = _Shape(64)  # the longest string; lists have at most 48 elements
_ID: Final = _Shape(32)
_DOMAIN: Final = _Shape(63)
_QUANTITY: Final = _Shape(0)
_MOST_ENTRIES: Final = 32
_DEVICE: Final = _Shape(
    0,
    fields=(
        ("driver", _Shape(63)),
        ("allowMultipleAllocations", _Shape(1)),
        ("attributes", _Shape(_MOST_ENTRIES, _DOMAIN, _Shape(_MOST_ENTRIES, _ID, _ATTRIBUTE))),
        ("capacity", _Shape(_MOST_ENTRIES, _DOMAIN, _Shape(_MOST_ENTRIES, _ID, _QUANTITY))),
    ),
)


def size_of(path: Sequence[str] | None) -> Range | None:
    """The size of what a path leads to: a variable, then names, `@keys`, `@values`, `@items`; else None."""
    if not path or path[0] != "device":
        return None
    shape: _Shape | None = _DEVICE
    for name in path[1:]:
        if shape is None:
            return None
        if name in ("@items", "@values"):
            shape = shape.element
        elif name == "@keys":
            shape = shape.key
        else:
            found = dict(shape.fields).get(name)
            # A name in a map of attributes is an attribute.
            shape = found if found is not None or shape.element is not _ATTRIBUTE else _ATTRIBUTE
    return None if shape is None else Range(0, shape.size)
