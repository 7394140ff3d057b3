"""Planned lists, maps and messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .attributes import Run
from .errors import EvalError
from .frame import Frame
from .patches import maker_of
from .steps import Meter, Step, unhashable, watched
from .values import MISSING, UNHASHABLE, CelMap, OptionalValue, shown


class ListStep(Step):
    """`[a, ?b]`."""

    def __init__(self, id: int, elements: Sequence[Step], optionals: frozenset[int]) -> None:
        self.id = id
        self.elements = elements
        self._optionals = optionals

    def compile(self, meter: Meter | None) -> Run:
        """See Step."""
        runs = tuple(element.compile(meter) for element in self.elements)
        optionals = self._optionals

        def plain(frame: Frame) -> Any:
            return [run(frame) for run in runs]

        def mixed(frame: Frame) -> Any:
            found: list[Any] = []
            for position, run in enumerate(runs):
                value = run(frame)
                if position in optionals:
                    if type(value) is not OptionalValue:
                        raise EvalError(
                            f"cannot initialize optional list element from non-optional value {shown(value)}"
                        )
                    if value.value is MISSING:
                        continue
                    value = value.value
                found.append(value)
            return found

        run = mixed if optionals else plain
        if meter is None:
            return run
        return watched(run, meter.constructor(self.id, [each.id for each in self.elements], 10))


class MapStep(Step):
    """`{key: value, ?key: value}`; entries are (key, value, optional)."""

    def __init__(self, id: int, entries: Sequence[tuple[Step, Step, bool]]) -> None:
        self.id = id
        self.entries = entries

    def compile(self, meter: Meter | None) -> Run:
        """See Step."""
        runs = tuple(
            (key.compile(meter), value.compile(meter), optional) for key, value, optional in self.entries
        )

        def run(frame: Frame) -> Any:
            found = CelMap()
            for make_key, make_value, optional in runs:
                key = make_key(frame)
                if type(key) in UNHASHABLE:
                    raise unhashable(key)
                value = make_value(frame)
                if optional:
                    if type(value) is not OptionalValue:
                        raise EvalError(
                            f"cannot initialize optional entry '{shown(key)}' from non-optional value {shown(value)}"
                        )
                    if value.value is MISSING:
                        found.remove(key)
                        continue
                    value = value.value
                found.put(key, value)
            return found

        if meter is None:
            return run
        ids = [step.id for key, value, _ in self.entries for step in (key, value)]
        return watched(run, meter.constructor(self.id, ids, 30))


class StructStep(Step):
    """`Name{field: value, ?field: value}`; entries are (field, value, optional)."""

    def __init__(self, id: int, name: str, entries: Sequence[tuple[str, Step, bool]]) -> None:
        self.id = id
        self._name = name
        self._entries = entries

    def compile(self, meter: Meter | None) -> Run:
        """See Step."""
        runs = tuple((field, value.compile(meter), optional) for field, value, optional in self._entries)
        name = self._name
        make = maker_of(name)

        def run(frame: Frame) -> Any:
            fields: dict[str, Any] = {}
            for field, make_value, optional in runs:
                value = make_value(frame)
                if optional:
                    if type(value) is not OptionalValue:
                        raise EvalError(
                            f"cannot initialize optional entry '{field}' from non-optional value {shown(value)}"
                        )
                    if value.value is MISSING:
                        continue
                    value = value.value
                fields[field] = value
            if make is None:
                raise EvalError(f"unknown type '{name}'")
            return make(fields)

        if meter is None:
            return run
        return watched(run, meter.constructor(self.id, [value.id for _, value, _ in self._entries], 40))
