"""Cases of the validation test: a write, and what goes before it; each rule by itself, and many at random."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from api_chance import Object, date_taints
from api_play import Operation
from api_state import NAMESPACE
from api_values import DRA, KINDS, POOL_REQUESTS, Kind, rewritten
from validation_fuzz import fuzzed
from validation_rules import CREATE, STATUS, UPDATE, Changes, Rule, changed, load

_KINDS: Final = {kind.plural: kind for kind in (*KINDS, POOL_REQUESTS) if kind.group == DRA}
_WEIGHTS: Final = {
    "resourceclaims": 6,
    "resourceclaimtemplates": 2,
    "resourceslices": 8,
    "deviceclasses": 2,
    "devicetaintrules": 2,
    "resourcepoolstatusrequests": 1,
}
_WITH_STATUS: Final = ("resourceclaims", "devicetaintrules", "resourcepoolstatusrequests")


@dataclass
class Case:
    """Operations on one object, of which the last is the one that is judged."""

    kind: Kind
    on: str
    version: str
    new: Object
    """What is written last, without apiVersion, kind and name, in the form of v1."""
    old: Object | None = None
    """What is created before that."""
    status: Object | None = None
    """What stands before that in the status."""
    deleted: bool = False
    """Whether the object is deleted before the last write."""
    hits: list[tuple[Rule, bool]] = field(default_factory=list)
    """The rules that go in, each with whether it is kept."""
    alone: bool = False
    """Whether nothing but one rule goes in, so that its verdict is known."""

    def __str__(self) -> str:
        parts = [f"{rule.id} {'kept' if good else 'broken'}" for rule, good in self.hits]
        return f"{self.on} of {self.kind.plural} {self.version}: {', '.join(parts) or 'nothing of the rules'}"

    def operations(self, name: str, first: int) -> list[Operation]:
        """The operations, with ids from `first` on, on an object of this name."""
        result: list[Operation] = []

        def add(method: str, body: Object, *, status: bool = False) -> None:
            number = first + len(result)
            whole = {} if method == "DELETE" else self._whole(body, name)
            if whole and result:
                whole["metadata"].setdefault("resourceVersion", f"${{rv:{number - 1}}}")
            place = (name, "status" if status else "") if result else ()
            result.append(
                {
                    "id": number, "op": f"{method} {'status' if status else ''}".strip(), "kind": self.kind.plural,
                    "method": method, "path": self.kind.path(self.version, NAMESPACE, *place), "query": {},
                    "headers": {}, "form": "json", "body": whole,
                }
            )  # fmt: skip

        if self.old is not None:
            add("POST", self.old)
        if self.status is not None:
            add("PUT", self.status, status=True)
        if self.deleted:
            add("DELETE", {})
        add("POST" if self.old is None else "PUT", self.new, status=self.on == STATUS)
        return result

    def _whole(self, body: Object, name: str) -> Object:
        try:
            body = rewritten(self.kind, self.version, body)
        except (AttributeError, KeyError, TypeError):
            body = copy.deepcopy(body)
        if self.old is not None and self.kind.plural in ("resourceslices", "devicetaintrules"):
            body = copy.deepcopy(body)
            date_taints(body)
        metadata = {"name": name, **body.get("metadata", {})}
        return (
            {"apiVersion": self.kind.api_version(self.version), "kind": self.kind.kind}
            | body
            | {"metadata": metadata}
        )


def systematic() -> Iterator[Case]:
    """Each rule kept and broken in every way of the file, and by nothing else."""
    for rule in load().all:
        for good, changes in [*((True, one) for one in rule.good), *((False, one) for one in rule.bad)]:
            yield _single(rule, changes, good=good)


def _single(rule: Rule, changes: Changes, *, good: bool) -> Case:
    kind = _KINDS[rule.kind]
    base = changed(load().bases[rule.kind], rule.common)
    bare = {key: value for key, value in load().bases[rule.kind].items() if key != "status"}
    case = Case(kind, rule.on, kind.versions[0], changed(base, changes), hits=[(rule, good)], alone=True)
    if rule.on == UPDATE:
        case.old = base
    elif rule.on == STATUS:
        case.old, case.deleted = bare, rule.deleted
        if rule.deleted:
            case.old = changed(bare, {"metadata": {"finalizers": ["example.com/stays"]}})
        case.status = None if rule.old is None else changed(base, rule.old)
    return case


class _Draw:
    """One random case."""

    def __init__(self, seed: int, number: int) -> None:
        self.chance = random.Random(f"validation {seed}/{number}")
        self.hits: list[tuple[Rule, bool]] = []
        plural = self.chance.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        self.kind = _KINDS[plural]

    def case(self) -> Case:
        chance, kind = self.chance, self.kind
        version = chance.choice((*kind.versions, kind.versions[0]))
        on = chance.choices((CREATE, UPDATE, STATUS), (5, 3, 3 if kind.plural in _WITH_STATUS else 0))[0]
        obj = self._few(self._start(), CREATE, chance.randint(0, 3), 1.0)
        if on == CREATE:
            return Case(kind, on, version, self._last(obj, CREATE), hits=self.hits)
        if on == UPDATE:
            ways = (CREATE, UPDATE) if load().of(kind.plural, UPDATE) else (CREATE,)
            return Case(kind, on, version, self._last(obj, chance.choice(ways)), old=obj, hits=self.hits)
        status = {**obj, "status": copy.deepcopy(load().bases[kind.plural]["status"])}
        if chance.random() < 0.4:
            status = self._few(status, STATUS, chance.randint(1, 2), 1.0)
        before = status if chance.random() < 0.4 else None
        bare = {key: value for key, value in obj.items() if key != "status"}
        return Case(kind, on, version, self._last(status, STATUS), old=bare, status=before, hits=self.hits)

    def _start(self) -> Object:
        base = load().bases[self.kind.plural]
        if self.kind is POOL_REQUESTS or self.chance.random() < 0.5:
            return copy.deepcopy(base)
        made = self.kind.make(self.chance, f"n{self.chance.randint(0, 99)}")
        return {**made, **({"status": copy.deepcopy(base["status"])} if "status" in base else {})}

    def _last(self, obj: Object, on: str) -> Object:
        obj = self._few(obj, on, self.chance.randint(1, 2), 0.35)
        part = "status" if on == STATUS else "spec"
        if self.chance.random() < 0.3 and part in obj:
            obj = {**obj, part: fuzzed(self.chance, obj[part])}
        return obj

    def _few(self, obj: Object, on: str, count: int, kept: float) -> Object:
        """Some rules kept or broken; changes that do not fit the object are left out."""
        rules = load().of(self.kind.plural, on)
        for rule in self.chance.sample(rules, min(count, len(rules))):
            good = bool(rule.good) and (self.chance.random() < kept or not rule.bad)
            changes = self.chance.choice(rule.good if good else rule.bad)
            try:
                obj = changed(obj, {**rule.common, **changes})
            except LookupError:
                continue
            self.hits.append((rule, good))
        return obj


def draw(seed: int, number: int) -> Case:
    """The random case of this number."""
    return _Draw(seed, number).case()


def text(operations: list[Operation]) -> str:
    """Operations as a file for `api_run.py --replay`."""
    return "[\n" + ",\n".join(json.dumps(operation) for operation in operations) + "\n]\n"
