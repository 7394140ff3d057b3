"""Slices from one pod to the next: parsed once, and sorted anew only when one of them has changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import is_
from typing import Any

from .features import Features
from .model import Slice
from .pools import SliceIndex


class SliceCache:
    """Parsed slices and their index, kept while the same objects are asked for again.

    Objects are known by identity: an informer hands out the same dict until the slice changes. What is not asked
    for any more is forgotten. Safe for use by several threads (a race only does work twice).
    """

    def __init__(self) -> None:
        self._known: tuple[list[Mapping[str, Any]], list[Slice]] = ([], [])
        self._index: tuple[list[Slice], Features, SliceIndex] | None = None

    def parsed(self, slices: Iterable[Mapping[str, Any]]) -> list[Slice]:
        """The records of the objects, in the same order. The list is the same one as long as they are."""
        wanted = slices if isinstance(slices, list) else list(slices)
        objects, parsed = self._known
        if len(wanted) == len(objects) and all(map(is_, wanted, objects)):
            return parsed
        before = {id(slice): record for slice, record in zip(objects, parsed, strict=True)}
        parsed = [before.get(id(slice)) or Slice.of(slice) for slice in wanted]
        self._known = (list(wanted), parsed)
        return parsed

    def index(self, slices: Iterable[Mapping[str, Any]], features: Features) -> SliceIndex:
        """The index of the slices. What it has found out about nodes is kept as far as changes let it."""
        parsed = self.parsed(slices)
        last = self._index
        if last is not None and last[1] == features:
            if last[0] is parsed:
                return last[2]
            index = SliceIndex(parsed, features, last[2])
        else:
            index = SliceIndex(parsed, features)
        self._index = (parsed, features, index)
        return index
