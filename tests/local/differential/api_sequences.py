"""Random sequences of requests, each the same for a given seed and number."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any, Final

from api_chance import date_taints
from api_play import Operation
from api_reads import PARTIAL, PARTIALS, TABLE, Reads
from api_values import KINDS, Kind
from api_wire import JSON, PROTOBUF, YAML
from api_writes import APPLY, MANAGERS, Writes

EDITOR: Final = "editor"
STRANGER: Final = "stranger"
_AGENTS: Final = ("kubectl/v1.37.2 (linux/amd64) kubernetes/0000000", "tester/1.0", "agent", "curl/8.0")
_WEIGHTS: Final = {
    "create": 12,
    "create-generated": 3,
    "update": 8,
    "replace": 8,
    "replace-stale": 3,
    "patch-json": 7,
    "patch-merge": 8,
    "patch-strategic": 8,
    "apply": 12,
    "status-update": 4,
    "status-replace": 4,
    "status-patch-json": 2,
    "status-patch-merge": 3,
    "status-patch-strategic": 3,
    "status-apply": 5,
    "get": 5,
    "list": 7,
    "list-continue": 2,
    "watch": 4,
    "delete": 6,
    "delete-precondition": 2,
    "deletecollection": 2,
    "release": 4,
}
OPERATIONS: Final = tuple(_WEIGHTS)


class Sequence(Writes, Reads):
    """One sequence while it is drawn: a few names of one kind, sometimes of two."""

    def __init__(self, seed: int, number: int, length: int) -> None:
        self.chance = random.Random(f"{seed}/{number}")
        self.tag = f"{seed}-{number}"
        self.operations: list[Operation] = []
        chance = self.chance
        self.kinds = chance.sample(KINDS, 1 if chance.random() < 0.7 else 2)
        self.names = {kind.plural: [f"n{chance.randint(0, 39)}-{i}" for i in range(2)] for kind in self.kinds}
        self.alive: dict[tuple[str, str], int] = {}
        """Of objects that are likely to exist: the last operation that answered with them."""
        self.written: list[tuple[Kind, str, int]] = []
        """All operations that are likely to have answered with an object."""
        self.pages: list[tuple[int, Operation]] = []
        for _ in range(length):
            self._draw()

    def _draw(self) -> None:
        kind = self.chance.choice(self.kinds)
        options = [
            name
            for name in _WEIGHTS
            if kind.status is not None or not name.startswith("status-") or self.chance.random() < 0.04
        ]
        name = self.chance.choices(options, [_WEIGHTS[option] for option in options])[0]
        drawn = _DRAW[name](self, kind)
        if drawn is None:
            return
        operation: Operation = {"id": len(self.operations), "op": name, **drawn}
        operation["kind"] = kind.plural
        self._ornaments(operation)
        self.operations.append(operation)
        target = operation.pop("target", None)
        if target is not None:
            self._expect(kind, target, operation)

    def _expect(self, kind: Kind, name: str, operation: Operation) -> None:
        """Guess what the operation did, so that later ones can build on it."""
        query = operation.get("query", {})
        if query.get("dryRun") or "Impersonate-User" in operation.get("headers", {}):
            return
        if operation["method"] == "DELETE":
            self.alive.pop((kind.plural, name), None)
            return
        self.alive[kind.plural, name] = operation["id"]
        self.written.append((kind, name, operation["id"]))

    def _ornaments(self, operation: Operation) -> None:
        """What any request may carry besides: users, clients, managers, forms, validation, dry runs."""
        chance, method = self.chance, operation["method"]
        headers = operation.setdefault("headers", {})
        query = operation.setdefault("query", {})
        headers["User-Agent"] = chance.choice(_AGENTS)
        if chance.random() < 0.06:
            headers["Impersonate-User"] = chance.choice((EDITOR, EDITOR, STRANGER))
        if method in ("POST", "PUT", "PATCH"):
            if operation.get("form") != APPLY and chance.random() < 0.4:
                query["fieldManager"] = chance.choice(MANAGERS)
            if chance.random() < 0.35:
                query["fieldValidation"] = chance.choice(("Strict", "Warn", "Ignore"))
            if "/resourceslices" in operation["path"] and method != "POST":
                # Whose a list of quantities is depends on how the cache holds the stored ones.
                operation["fresh"] = True
            if method != "POST":
                date_taints(operation.get("body"))
            self._spoil(operation)
            if operation.get("unknown") and chance.random() < 0.5:
                query["fieldValidation"] = "Strict"
        if method != "GET" and chance.random() < 0.07 and "dryRun" not in (operation.get("body") or {}):
            query["dryRun"] = "All"
        if method == "DELETE" and operation.get("body") and query.pop("dryRun", None):
            operation["body"]["dryRun"] = ["All"]
        if method == "DELETE" and operation.get("body"):
            operation["form"] = chance.choices(("json", "yaml", "protobuf"), (6, 1, 2))[0]
        if method in ("POST", "PUT") and "base" not in operation:
            operation["form"] = chance.choices(("json", "yaml", "protobuf"), (6, 1, 2))[0]
            if operation["form"] == "protobuf" and operation.get("unknown"):
                operation["form"] = "json"
            if operation["form"] == "json" and chance.random() < 0.05:
                operation["duplicates"] = ["metadata"]
        if "Accept" not in headers and "watch" not in operation:
            accepts = (JSON, "", YAML, PROTOBUF, TABLE, PARTIAL, f"{PROTOBUF},{JSON}")
            chosen = chance.choices(accepts, (20, 4, 1, 3, 2, 1, 2))[0]
            if chosen == PARTIAL and operation.get("many"):
                chosen = PARTIALS
            if chosen:
                headers["Accept"] = chosen
            if chosen == PROTOBUF and method == "GET" and not operation.get("many"):
                operation["both_forms"] = True

    def _spoil(self, operation: Operation) -> None:
        """Sometimes add a field that the kind does not have."""
        chance, body = self.chance, operation.get("body")
        if chance.random() > 0.09 or not isinstance(body, dict):
            return
        place = chance.choice(("", "metadata", "spec", "data"))
        if place in ("", "metadata"):
            target: Any = body if not place else body.get(place)
            if isinstance(target, dict):
                target["unheardOf"] = chance.choice((1, "x", {"a": []}))
                operation["unknown"] = True
        elif isinstance(body.get("spec"), dict):
            body["spec"]["unheardOf"] = 1
            operation["unknown"] = True


_DRAW: Final[dict[str, Callable[[Sequence, Kind], Operation | None]]] = {
    name: getattr(Sequence, name.replace("-", "_")) for name in _WEIGHTS
}


def draw(seed: int, number: int, length: int = 30) -> list[Operation]:
    """The operations of one sequence."""
    return copy.deepcopy(Sequence(seed, number, length).operations)


def text(operations: list[Operation]) -> str:
    """A sequence as a file that can be played again."""
    return "[\n" + ",\n".join(json.dumps(operation) for operation in operations) + "\n]\n"
