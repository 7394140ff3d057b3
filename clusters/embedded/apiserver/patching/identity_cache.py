"""What was made of an object, remembered by the object itself and not by its value."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


class IdentityCache(Generic[Result]):
    """The results of the last objects; these are kept alive and must not be changed afterwards."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: OrderedDict[int, tuple[Any, Result]] = OrderedDict()

    def get(self, key: Any) -> Result | None:
        """The result for exactly this object."""
        found = self._kept.get(id(key))
        return found[1] if found is not None and found[0] is key else None

    def put(self, key: Any, result: Result) -> Result:
        """Remember a result, and return it."""
        self._kept[id(key)] = key, result
        if len(self._kept) > self._size:
            self._kept.popitem(last=False)
        return result
