"""What the drawing of a sequence knows of it so far."""

from __future__ import annotations

import random
from typing import Any, Final

import api_values as values
from api_chance import Object
from api_play import Operation
from api_values import Kind

NAMESPACE: Final = "differential"


class State:
    """A sequence while it is drawn."""

    chance: random.Random
    tag: str
    operations: list[Operation]
    kinds: list[Kind]
    names: dict[str, list[str]]
    alive: dict[tuple[str, str], int]
    """Of objects that are likely to exist: the last operation that answered with them."""
    written: list[tuple[Kind, str, int]]
    """All operations that are likely to have answered with an object."""
    pages: list[tuple[int, Operation]]
    """Lists that a page may follow."""

    def version(self, kind: Kind) -> str:
        """Mostly the newest version."""
        return self.chance.choice((*kind.versions, kind.versions[0], kind.versions[0]))

    def name(self, kind: Kind) -> str:
        """One of the sequence's names, rather of an object that exists."""
        names = self.names[kind.plural]
        alive = [name for name in names if (kind.plural, name) in self.alive]
        return self.chance.choice(alive if alive and self.chance.random() < 0.8 else names)

    def free_name(self, kind: Kind) -> str:
        """One of the sequence's names, rather of an object that does not exist."""
        names = self.names[kind.plural]
        free = [name for name in names if (kind.plural, name) not in self.alive]
        return self.chance.choice(free if free and self.chance.random() < 0.85 else names)

    def body(self, kind: Kind, version: str, name: str, **more: Any) -> Object:
        """A whole new object."""
        made = values.rewritten(kind, version, kind.make(self.chance, name))
        head = {"apiVersion": kind.api_version(version), "kind": kind.kind}
        return {**head, "metadata": values.metadata(self.chance, name, **more), **made}

    def status(self, kind: Kind, name: str) -> Object:
        """A whole new status; kinds without one get an empty one."""
        return kind.status(self.chance, name) if kind.status else {}

    def revision(self, kind: Kind, name: str) -> str | None:
        """The resourceVersion of an object: current, old or none."""
        seen = [number for one, other, number in self.written if (one, other) == (kind, name)]
        roll = self.chance.random()
        if not seen or roll < 0.4:
            return None
        if roll < 0.8:
            return f"${{rv:{seen[-1]}}}"
        return self.chance.choice((f"${{rv:{self.chance.choice(seen)}}}", "0"))
