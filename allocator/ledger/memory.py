"""The ledger in the memory of one process: for schedulers that share it, and as what the script in Redis is held to."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from .interface import FORGOTTEN_AFTER, Ledger

_Data = dict[str, Any]


class _Holders:
    """Who holds a name, and the last changes of those who join it: `prior` is the last one by another than `by`."""

    def __init__(self) -> None:
        self.takes: set[str] = set()
        self.joins: set[str] = set()
        self.last = self.prior = 0
        self.by = ""


class MemoryLedger(Ledger):
    """Gone with the process."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, remembered: int = FORGOTTEN_AFTER
    ) -> None:
        """`clock` tells seconds; `remembered` is how many removals are told to those who have not heard of them."""
        self._clock = clock
        self._remembered = remembered
        self.lose()

    def lose(self) -> None:
        """Become empty, as a server that was started anew."""
        self._id = ""
        self._filled = False
        self._seq = self._floor = 0
        self._entries: dict[str, _Data] = {}
        self._held: dict[str, _Holders] = {}
        self._changes: dict[str, int] = {}
        self._removed: dict[str, int] = {}

    async def _call(self, operation: str, arguments: Mapping[str, Any]) -> _Data:
        if operation == "open":
            self._id = self._id or arguments["id"]
            return {"id": self._id, "filled": self._filled}
        usable = self._filled or operation in ("settle", "fill")
        if not self._id or self._id != arguments["ledger"] or not usable:
            return {"lost": True}
        return {**getattr(self, f"_do_{operation}")(arguments), **self._delta(arguments["since"])}

    # The operations.

    def _do_reserve(self, arguments: Mapping[str, Any]) -> _Data:
        self._do_settle(arguments)
        session, seen, wishes = arguments["session"], arguments["seen"], arguments["wishes"]
        taken, joined = dict[str, str](), dict[str, str]()
        found = [self._refusal(wish, seen, session, taken, joined) for wish in wishes]
        conflicts = [conflict for conflict in found if conflict is not None]
        if conflicts:
            return {"conflicts": conflicts}
        token = self._next()
        for wish in wishes:
            before = self._entries.get(wish["uid"])
            if before is not None:
                self._let_go(before)
            entry = {
                **wish,
                "state": "reserved",
                "token": token,
                "session": session,
                "at": self._clock(),
            }
            self._save(entry)
            self._hold(entry)
        return {"token": token}

    def _do_confirm(self, arguments: Mapping[str, Any]) -> _Data:
        unknown = []
        for uid, token in arguments["tokens"].items():
            entry = self._entries.get(uid)
            if entry is not None and entry["state"] == "reserved" and entry["token"] == token:
                entry["at"] = self._clock()
            else:
                unknown.append(uid)
        return {"unknown": unknown}

    def _do_commit(self, arguments: Mapping[str, Any]) -> _Data:
        unknown = []
        for uid, written in arguments["written"].items():
            entry = self._entries.get(uid)
            if entry is None or entry["token"] != written["token"]:
                unknown.append(uid)
            elif entry["state"] != "committed":
                self._save({**entry, "state": "committed", "version": written["version"]})
        return {"unknown": unknown}

    def _do_release(self, arguments: Mapping[str, Any]) -> _Data:
        for uid, token in arguments["tokens"].items():
            entry = self._entries.get(uid)
            if entry is not None and entry["state"] != "committed" and entry["token"] == token:
                self._remove(entry)
        return {}

    def _do_expire(self, arguments: Mapping[str, Any]) -> _Data:
        old, session = self._clock() - arguments["age"] / 1000, arguments["session"]
        for entry in list(self._entries.values()):
            if entry["state"] != "reserved":
                continue
            earlier = entry["session"] != session and _name(entry["session"]) == _name(session)
            if earlier or entry["at"] <= old:
                self._save({**entry, "state": "expiring"})
        return {}

    def _do_settle(self, arguments: Mapping[str, Any]) -> _Data:
        for fact in arguments["facts"]:
            self._note(fact)
        return {}

    def _do_read(self, arguments: Mapping[str, Any]) -> _Data:
        return {}

    def _do_fill(self, arguments: Mapping[str, Any]) -> _Data:
        self._filled = True
        return {}

    # What they consist of.

    def _refusal(
        self, wish: _Data, seen: int, session: str, taken: dict[str, str], joined: dict[str, str]
    ) -> _Data | None:
        uid = wish["uid"]
        entry = self._entries.get(uid)
        if entry is not None:
            own = entry["state"] == "reserved" and entry["session"] == session
            if not own or entry["results"] != wish["results"]:
                return {"name": "", "holder": uid}
        for name in wish["takes"]:
            record = self._held.get(name) or _Holders()
            holder = taken.get(name) or joined.get(name) or _other(record.takes | record.joins, uid)
            if holder:
                return {"name": name, "holder": holder}
            taken[name] = uid
        for name in wish["joins"]:
            record = self._held.get(name) or _Holders()
            holder = taken.get(name) or _other(record.takes, uid)
            moved = record.prior if record.by == session else record.last
            if not holder and moved > seen:
                holder = _other(record.joins, uid)
            if holder:
                return {"name": name, "holder": holder}
            joined[name] = uid
        return None

    def _note(self, fact: _Data) -> None:
        entry = self._entries.get(fact["uid"])
        if not fact["allocated"]:
            if entry is None:
                return
            outdated = entry["state"] == "committed" and entry["version"] < fact["version"]
            fenced = entry["state"] == "expiring" and entry["token"] <= fact["token"]
            if fact["gone"] or outdated or fenced:
                self._remove(entry)
            return
        if entry is not None:
            if entry["version"] >= fact["version"]:
                return
            self._let_go(entry)
        new = {
            **{
                name: fact[name]
                for name in ("namespace", "name", "uid", "version", "takes", "joins", "results")
            },
            "state": "committed",
            "token": entry["token"] if entry else 0,
            "session": entry["session"] if entry else "",
            "at": 0,
        }
        for name in new["takes"]:
            record = self._held.get(name) or _Holders()
            self._overrule(record.takes | record.joins, new["uid"])
        for name in new["joins"]:
            self._overrule((self._held.get(name) or _Holders()).takes, new["uid"])
        self._save(new)
        self._hold(new)

    def _overrule(self, holders: set[str], uid: str) -> None:
        for holder in holders - {uid}:
            entry = self._entries[holder]
            if entry["state"] == "reserved":
                self._save({**entry, "state": "expiring"})

    def _next(self) -> int:
        self._seq += 1
        return self._seq

    def _save(self, entry: _Data) -> None:
        self._entries[entry["uid"]] = entry
        self._changes[entry["uid"]] = self._next()
        self._removed.pop(entry["uid"], None)

    def _remove(self, entry: _Data) -> None:
        self._let_go(entry)
        del self._entries[entry["uid"]], self._changes[entry["uid"]]
        self._removed[entry["uid"]] = self._next()
        while len(self._removed) > self._remembered:
            self._floor = self._removed.pop(next(iter(self._removed)))

    def _hold(self, entry: _Data) -> None:
        for name in entry["takes"]:
            self._held.setdefault(name, _Holders()).takes.add(entry["uid"])
        for name in entry["joins"]:
            record = self._held.setdefault(name, _Holders())
            record.joins.add(entry["uid"])
            if record.by != entry["session"]:
                record.prior, record.by = record.last, entry["session"]
            record.last = self._seq

    def _let_go(self, entry: _Data) -> None:
        for kind in ("takes", "joins"):
            for name in entry[kind]:
                record = self._held[name]
                getattr(record, kind).discard(entry["uid"])
                if not record.takes and not record.joins:
                    del self._held[name]

    def _delta(self, since: int) -> _Data:
        whole = since < self._floor
        changed = [uid for uid, change in self._changes.items() if whole or change > since]
        removed = [] if whole else [uid for uid, change in self._removed.items() if change > since]
        return {
            "until": self._seq,
            "changed": [dict(self._entries[uid]) for uid in changed],
            "removed": removed,
            "whole": whole,
        }


def _other(holders: set[str], uid: str) -> str:
    return next(iter(holders - {uid}), "")


def _name(session: str) -> str:
    return session.partition("#")[0]
