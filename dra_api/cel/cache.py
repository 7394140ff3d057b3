"""Compiled selectors that are used again and again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from threading import Lock
from typing import Final

from .. import features as gates
from .program import Kind, Program, compile_selector


class ProgramCache:
    """The most recently used programs, by expression; threads may share it."""

    def __init__(
        self,
        size: int = 10,
        *,
        features: Collection[str] = gates.ENABLED_1_37,
        environment: Kind = "stored",
    ) -> None:
        """Keep at most `size` programs; the scheduler keeps 10."""
        self._size: Final = size
        self._features: Final = frozenset(features)
        self._environment: Final = environment
        self._programs: OrderedDict[str, Program] = OrderedDict()
        self._lock = Lock()

    def get(self, expression: str) -> Program:
        """The program of an expression, compiled when it is not there. Raises CompileError, which is not kept."""
        with self._lock:
            program = self._programs.get(expression)
            if program is not None:
                self._programs.move_to_end(expression)
                return program
        program = compile_selector(expression, features=self._features, environment=self._environment)
        with self._lock:
            self._programs[expression] = program
            self._programs.move_to_end(expression)
            while len(self._programs) > self._size:
                self._programs.popitem(last=False)
        return program

    def __len__(self) -> int:
        with self._lock:
            return len(self._programs)
