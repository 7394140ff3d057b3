"""Random sequences of requests, each the same for a given seed and number."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any, Final

import api_values as values
from api_play import JSON, PROTOBUF, YAML, Operation
from api_values import KINDS, Kind, Object, maybe, some

NAMESPACE: Final = "differential"
EDITOR: Final = "editor"
STRANGER: Final = "stranger"
MERGE: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL: Final = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIALS: Final = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
PARTIAL_PROTOBUF: Final = f"{PROTOBUF};as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
_AGENTS: Final = ("kubectl/v1.37.2 (linux/amd64) kubernetes/0000000", "tester/1.0", "agent", "curl/8.0")
_MANAGERS: Final = ("m1", "m2", "kubectl")
_SELECTORS: Final = (
    ("app=a", {"app": "a"}),
    ("app==b", {"app": "b"}),
    ("app!=a", {"app": "b"}),
    ("app in (a,b)", {"app": "a"}),
    ("app notin (a)", {"app": "b"}),
    ("tier", {"tier": "x"}),
    ("!tier", {}),
    ("app=a,tier notin (x)", {"app": "a", "tier": "y"}),
)
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


class Sequence:
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
                query["fieldManager"] = chance.choice(_MANAGERS)
            if chance.random() < 0.35:
                query["fieldValidation"] = chance.choice(("Strict", "Warn", "Ignore"))
            self._spoil(operation)
        if method != "GET" and chance.random() < 0.07 and "dryRun" not in (operation.get("body") or {}):
            query["dryRun"] = "All"
        if method == "DELETE" and operation.get("body") and query.pop("dryRun", None):
            operation["body"]["dryRun"] = ["All"]
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
        if chance.random() > 0.06 or not isinstance(body, dict):
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

    # What the operations share.

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

    # The kinds of operations. Each returns None when there is nothing to do it with.

    def create(self, kind: Kind) -> Operation:
        """POST with a name."""
        version, name = self.version(kind), self.free_name(kind)
        body = self.body(kind, version, name)
        if kind.status is not None and self.chance.random() < 0.15:
            body["status"] = self.status(kind, name)
        if self.chance.random() < 0.1:
            body["metadata"]["generateName"] = "unused-"
        return {"method": "POST", "path": kind.path(version, NAMESPACE), "body": body, "target": name}

    def create_generated(self, kind: Kind) -> Operation:
        """POST with generateName; the name is later known by reference only."""
        version, number = self.version(kind), len(self.operations)
        # Prefixes of their own keep the order of lists.
        prefix = f"g{number}{self.chance.choice(('-', '', 'x' * 70))}"
        body = self.body(kind, version, "", generateName=prefix)
        reference = f"${{name:{number}}}"
        self.names[kind.plural].append(reference)
        path = kind.path(version, NAMESPACE)
        return {"method": "POST", "path": path, "body": body, "target": reference, "generates": True}

    def update(self, kind: Kind) -> Operation:
        """PUT of a whole new object, with any resourceVersion."""
        version, name = self.version(kind), self.name(kind)
        if name.startswith("$") and kind.fixed_spec:
            return self.replace(kind) or self.create(kind)
        body = self.body(kind, version, name, **some(resourceVersion=self.revision(kind, name)))
        return {"method": "PUT", "path": kind.path(version, NAMESPACE, name), "body": body, "target": name}

    def _change(self, kind: Kind, name: str, version: str) -> Object:
        """A JSON merge patch of what may change."""
        chance = self.chance
        change: Object = {}
        meta = values.metadata(chance, "")
        meta.pop("name", None)
        for field in ("labels", "annotations"):
            if isinstance(meta.get(field), dict) and chance.random() < 0.4:
                meta[field] = {**meta[field], chance.choice(("app", "tier", "note/0")): None}
        for field in ("finalizers", "ownerReferences", "labels", "annotations"):
            if chance.random() < 0.1:
                meta[field] = None
        change["metadata"] = meta
        if not kind.fixed_spec and chance.random() < 0.7:
            change |= values.rewritten(kind, version, kind.make(chance, name))
        if kind.plural == "configmaps" and chance.random() < 0.3:
            change["data"] = {**change.get("data", {}), f"k{chance.randint(0, 3)}": None}
        return change

    def replace(self, kind: Kind) -> Operation | None:
        """PUT of what an earlier operation answered, with a change: what real clients do."""
        return self._replaced(kind, stale=False)

    def replace_stale(self, kind: Kind) -> Operation | None:
        """The same on an answer that is older."""
        return self._replaced(kind, stale=True)

    def _replaced(self, kind: Kind, *, stale: bool, subresource: str = "") -> Operation | None:
        seen = [(name, number) for one, name, number in self.written if one == kind]
        if not seen:
            return None
        name, number = self.chance.choice(seen) if stale else seen[-1]
        found = self.operations[number]
        # The body has the version of the operation that answered with it.
        version = found["path"].split("/")[3] if kind.group else "v1"
        accept = found["headers"].get("Accept", "")
        if (accept and not accept.startswith((JSON, YAML, PROTOBUF))) or "as=" in accept:
            return None
        change = {"status": self.status(kind, name)} if subresource else self._change(kind, name, version)
        if self.chance.random() < 0.15:
            change.setdefault("metadata", {})["managedFields"] = self.chance.choice(([], [{}], None))
        path = kind.path(version, NAMESPACE, name, subresource)
        return {"method": "PUT", "path": path, "base": number, "body": change, "target": name}

    def _patch(self, kind: Kind, form: str, body: Any, subresource: str = "") -> Operation:
        name = self.name(kind)
        version = self.version(kind)
        path = kind.path(version, NAMESPACE, name, subresource)
        made = body(self, kind, name, version) if callable(body) else body
        return {"method": "PATCH", "path": path, "form": form, "body": made, "target": name}

    def patch_merge(self, kind: Kind) -> Operation:
        """A JSON merge patch."""

        def body(self: Sequence, kind: Kind, name: str, version: str) -> Object:
            change = self._change(kind, name, version)
            if self.chance.random() < 0.15:
                change["metadata"].update(some(resourceVersion=self.revision(kind, name)))
            return change

        return self._patch(kind, MERGE, body)

    def patch_strategic(self, kind: Kind) -> Operation:
        """A strategic merge patch with its directives."""

        def body(self: Sequence, kind: Kind, name: str, version: str) -> Object:
            chance, change = self.chance, self._change(kind, name, version)
            meta = change["metadata"]
            roll = chance.random()
            if roll < 0.15:
                meta["$deleteFromPrimitiveList/finalizers"] = [chance.choice(values.FINALIZERS)]
                meta.pop("finalizers", None)
            elif roll < 0.3:
                meta["$setElementOrder/finalizers"] = list(values.FINALIZERS)
                meta["finalizers"] = list(chance.sample(values.FINALIZERS, 2))
            elif roll < 0.4:
                meta["ownerReferences"] = [{"$patch": "delete", "uid": values.owners(chance)[0]["uid"]}]
            elif roll < 0.5:
                meta["ownerReferences"] = values.owners(chance)
                meta["$setElementOrder/ownerReferences"] = [
                    {"uid": o["uid"]} for o in meta["ownerReferences"]
                ]
            elif roll < 0.6:
                meta["ownerReferences"] = [{"$patch": "replace"}, *values.owners(chance)]
            elif roll < 0.7:
                meta["labels"] = {"$patch": "replace", "app": "a"}
            return change

        return self._patch(kind, STRATEGIC, body)

    def patch_json(self, kind: Kind) -> Operation:
        """A JSON patch of metadata and data, some of which cannot be done."""

        def body(self: Sequence, kind: Kind, name: str, version: str) -> list[Object]:
            chance = self.chance
            choices: list[Callable[[], Object]] = [
                lambda: {"op": "add", "path": "/metadata/labels", "value": {"app": chance.choice("ab")}},
                lambda: {"op": "add", "path": "/metadata/labels/tier", "value": chance.choice("xy")},
                lambda: {"op": "replace", "path": "/metadata/labels/app", "value": chance.choice("ab")},
                lambda: {"op": "remove", "path": "/metadata/labels/app"},
                lambda: {"op": "add", "path": "/metadata/annotations", "value": {"note/x": "n"}},
                lambda: {"op": "add", "path": "/metadata/annotations/note~12", "value": "n"},
                lambda: {"op": "add", "path": "/metadata/finalizers", "value": [values.FINALIZERS[0]]},
                lambda: {"op": "add", "path": "/metadata/finalizers/-", "value": values.FINALIZERS[1]},
                lambda: {"op": "remove", "path": "/metadata/finalizers/0"},
                lambda: {"op": "remove", "path": "/metadata/finalizers"},
                lambda: {"op": "test", "path": "/metadata/name", "value": name},
                lambda: {"op": "test", "path": "/metadata/labels/app", "value": "a"},
                lambda: {"op": "copy", "from": "/metadata/labels", "path": "/metadata/annotations"},
                lambda: {"op": "move", "from": "/metadata/labels/app", "path": "/metadata/labels/tier"},
                lambda: {"op": "replace", "path": "/metadata/managedFields", "value": [{}]},
                lambda: {"op": "remove", "path": "/metadata/managedFields/0"},
            ]
            if kind.plural == "configmaps":
                choices += [
                    lambda: {"op": "add", "path": "/data", "value": {"k0": "z"}},
                    lambda: {"op": "add", "path": "/data/k1", "value": "z"},
                    lambda: {"op": "remove", "path": "/data/k2"},
                ]
            if kind.plural == "leases":
                choices.append(lambda: {"op": "replace", "path": "/spec/holderIdentity", "value": "h9"})
            if kind.plural == "deviceclasses":
                choices.append(lambda: {"op": "add", "path": "/spec/extendedResourceName", "value": "a.b/c"})
            return [chance.choice(choices)() for _ in range(chance.randint(1, 3))]

        return self._patch(kind, JSON_PATCH, body)

    def apply(self, kind: Kind) -> Operation:
        """Server-side apply of a part of an object, which may create it."""
        return self._applied(kind)

    def _applied(self, kind: Kind, subresource: str = "") -> Operation:
        chance = self.chance
        name = self.name(kind) if chance.random() < 0.7 else self.free_name(kind)
        version = self.version(kind)
        body = self.body(kind, version, name)
        if subresource:
            body["metadata"] = {"name": name}
            body.pop("spec", None)
            body["status"] = self.status(kind, name)
        else:
            for field in [key for key in body["metadata"] if key != "name"]:
                if chance.random() < 0.3:
                    del body["metadata"][field]
            if not kind.fixed_spec:
                self._thin(body)
            if chance.random() < 0.1:
                body["metadata"].update(some(resourceVersion=self.revision(kind, name)))
        query = {"fieldManager": chance.choice(_MANAGERS)}
        if chance.random() < 0.45:
            query["force"] = "true"
        path = kind.path(version, NAMESPACE, name, subresource)
        return {
            "method": "PATCH", "path": path, "form": APPLY, "body": body, "query": query, "target": name,
        }  # fmt: skip

    def _thin(self, body: Object) -> None:
        """Leave out some optional fields of a configuration."""
        for part in ("data", "spec"):
            inner = body.get(part)
            if isinstance(inner, dict) and part == "data":
                for key in list(inner):
                    if self.chance.random() < 0.3:
                        del inner[key]

    def status_update(self, kind: Kind) -> Operation:
        """PUT of /status with a whole new object."""
        version, name = self.version(kind), self.name(kind)
        if name.startswith("$"):
            return self._replaced(kind, stale=False, subresource="status") or self.status_apply(kind)
        body = self.body(kind, version, name, **some(resourceVersion=self.revision(kind, name)))
        body["status"] = self.status(kind, name)
        path = kind.path(version, NAMESPACE, name, "status")
        return {"method": "PUT", "path": path, "body": body, "target": name}

    def status_replace(self, kind: Kind) -> Operation | None:
        """PUT of /status with what an earlier operation answered."""
        return self._replaced(kind, stale=self.chance.random() < 0.2, subresource="status")

    def status_patch_merge(self, kind: Kind) -> Operation:
        """A merge patch of /status."""
        return self._patch(kind, MERGE, _status_body, "status")

    def status_patch_strategic(self, kind: Kind) -> Operation:
        """A strategic merge patch of /status."""
        return self._patch(kind, STRATEGIC, _status_body, "status")

    def status_patch_json(self, kind: Kind) -> Operation:
        """A JSON patch of /status."""

        def body(self: Sequence, kind: Kind, name: str, version: str) -> list[Object]:
            return [{"op": "add", "path": "/status", "value": self.status(kind, name)}]

        return self._patch(kind, JSON_PATCH, body, "status")

    def status_apply(self, kind: Kind) -> Operation:
        """Server-side apply of /status."""
        return self._applied(kind, "status")

    def get(self, kind: Kind) -> Operation:
        """GET of an object, sometimes through its status, sometimes from the cache."""
        version = self.version(kind)
        subresource = "status" if kind.status and self.chance.random() < 0.15 else ""
        name = self.name(kind)
        query, fresh = {}, False
        if self.chance.random() < 0.2:
            query, fresh = {"resourceVersion": "0"}, False
        path = kind.path(version, NAMESPACE, name, subresource)
        operation: Operation = {"method": "GET", "path": path, "query": query, "target": name}
        return {**operation, "fresh": True} if fresh or query else operation

    def _selecting(self, kind: Kind) -> tuple[Object, Object, str]:
        """Query parameters of selectors, labels that they select, and the name they ask for."""
        chance, query, labels, name = self.chance, {}, {}, ""
        if chance.random() < 0.45:
            query["labelSelector"], labels = chance.choice(_SELECTORS)
        if chance.random() < 0.3:
            text = chance.choice(kind.field_selectors).replace("$NS", NAMESPACE)
            chosen = self.names[kind.plural][chance.randrange(2)]
            if "metadata.name=$NAME" in text:
                name = chosen
            query["fieldSelector"] = text.replace("$NAME", chosen)
        return query, labels, name

    def list(self, kind: Kind) -> Operation:
        """LIST with selectors, limits and forms of resourceVersion."""
        chance, version = self.chance, self.version(kind)
        query, _, _ = self._selecting(kind)
        path = kind.path(version, NAMESPACE)
        if kind.namespaced and kind.plural not in ("leases", "configmaps") and chance.random() < 0.15:
            path = kind.path(version, "")
        operation: Operation = {"method": "GET", "path": path, "query": query, "many": True}
        if chance.random() < 0.35:
            query["limit"] = str(chance.choice((1, 1, 2, 100)))
        roll = chance.random()
        seen = [number for one, _, number in self.written if one == kind]
        if roll < 0.1:
            query["resourceVersion"], operation["fresh"] = "0", True
            if chance.random() < 0.4:
                query["resourceVersionMatch"] = "NotOlderThan"
        elif roll < 0.2 and seen:
            query["resourceVersion"], operation["fresh"] = f"${{rv:{chance.choice(seen)}}}", True
            query["resourceVersionMatch"] = "NotOlderThan"
        elif roll < 0.35 and seen:
            query["resourceVersion"] = f"${{rv:{chance.choice(seen)}}}"
            query["resourceVersionMatch"], operation["exactly"] = "Exact", True
        elif roll < 0.4 and seen:
            query["resourceVersion"], operation["fresh"] = f"${{rv:{chance.choice(seen)}}}", True
        elif roll < 0.42:
            query["resourceVersionMatch"] = chance.choice(("Exact", "NotOlderThan"))
        if "limit" in query:
            self.pages.append((len(self.operations), operation))
        return operation

    def list_continue(self, kind: Kind) -> Operation | None:
        """The next page of an earlier list; what was written in between must not show."""
        if not self.pages:
            return None
        number, page = self.pages.pop(self.chance.randrange(len(self.pages)))
        query = {key: value for key, value in page["query"].items() if not key.startswith("resourceVersion")}
        query["continue"] = f"${{continue:{number}}}"
        operation = {"method": "GET", "path": page["path"], "query": query, "many": True, "continues": number}
        self.pages.append((len(self.operations), operation))
        return operation

    def watch(self, kind: Kind) -> Operation:
        """A watch that lasts until the end of the sequence."""
        chance, version = self.chance, self.version(kind)
        query, labels, name = self._selecting(kind)
        query["watch"] = chance.choice(("true", "1"))
        fresh = False
        seen = [number for one, _, number in self.written if one == kind]
        roll = chance.random()
        if roll < 0.4 and seen:
            query["resourceVersion"] = f"${{rv:{chance.choice(seen)}}}"
        elif roll < 0.6:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
            if chance.random() < 0.8:
                query["allowWatchBookmarks"] = "true"
            fresh = True
        else:
            query |= {"resourceVersion": "0"} if chance.random() < 0.5 else {}
            fresh = True
        if chance.random() < 0.3:
            query["allowWatchBookmarks"] = "true"
        accept = chance.choices((JSON, TABLE, PARTIAL, PROTOBUF, PARTIAL_PROTOBUF), (6, 2, 1, 3, 1))[0]
        body = self._end_body(kind, name, query.get("fieldSelector", ""))
        mark = f"end-{self.tag}-{len(self.operations)}"
        end = {"mark": mark, "labels": labels, "body": body, "collection": kind.path("v1", NAMESPACE)}
        headers = {"Accept": accept}
        path = kind.path(version, NAMESPACE)
        operation = {"method": "GET", "path": path, "query": query, "headers": headers, "watch": end}
        return {**operation, "fresh": True} if fresh else operation

    def _end_body(self, kind: Kind, name: str, selector: str) -> Object:
        """An object which ends a watch: it has the name and the values that the selector asks for."""
        body = kind.make(random.Random(0), "end")
        spec = body.get("spec") or {}
        if kind.plural == "resourceslices":
            for key in ("nodeName", "nodeSelector", "allNodes"):
                spec.pop(key, None)
            spec["nodeName"] = "n1"
            spec["driver"] = "gpu.example.com"
        if kind.plural == "pods":
            for key in ("nodeName", "restartPolicy"):
                spec.pop(key, None)
            if "nodeName" in selector:
                spec["nodeName"] = "n1"
            if "restartPolicy" in selector:
                spec["restartPolicy"] = "Never"
        head = {"apiVersion": kind.api_version("v1"), "kind": kind.kind}
        return {**head, "metadata": {"name": name or "zz-end"}, **body}

    def _delete_options(self, kind: Kind) -> Object:
        chance = self.chance
        return some(
            propagationPolicy=maybe(
                chance, 0.35, lambda: chance.choice(("Orphan", "Foreground", "Background"))
            ),
            gracePeriodSeconds=maybe(chance, 0.3, lambda: chance.choice((0, 1, 10))),
        )

    def delete(self, kind: Kind) -> Operation:
        """DELETE with options in the query or in the body."""
        version, name = self.version(kind), self.name(kind)
        options = self._delete_options(kind)
        operation: Operation = {
            "method": "DELETE",
            "path": kind.path(version, NAMESPACE, name),
            "target": name,
        }
        if options and self.chance.random() < 0.5:
            return {**operation, "query": {key: str(value) for key, value in options.items()}}
        if not options and self.chance.random() < 0.1:
            options = {"orphanDependents": self.chance.random() < 0.5}
        if options or self.chance.random() < 0.3:
            operation["body"] = {"kind": "DeleteOptions", "apiVersion": "v1", **options}
        return operation

    def delete_precondition(self, kind: Kind) -> Operation | None:
        """DELETE with a uid or a resourceVersion, which may be wrong."""
        seen = [(name, number) for one, name, number in self.written if one == kind]
        if not seen:
            return None
        name, number = self.chance.choice(seen[-4:])
        wrong = self.chance.random() < 0.3
        uid = "5f1f4c3e-0000-4000-8000-00000000000f" if wrong else f"${{uid:{number}}}"
        preconditions = some(
            uid=maybe(self.chance, 0.6, lambda: uid),
            resourceVersion=maybe(self.chance, 0.6, lambda: f"${{rv:{number}}}"),
        )
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": preconditions}
        path = kind.path(self.version(kind), NAMESPACE, name)
        return {
            "method": "DELETE",
            "path": path,
            "body": {**body, **self._delete_options(kind)},
            "target": name,
        }

    def deletecollection(self, kind: Kind) -> Operation:
        """DELETE of a collection, with selectors."""
        query, _, _ = self._selecting(kind)
        if self.chance.random() < 0.3:
            query |= {key: str(value) for key, value in self._delete_options(kind).items()}
        for key in [key for key in self.alive if key[0] == kind.plural]:
            del self.alive[key]
        return {
            "method": "DELETE",
            "path": kind.path(self.version(kind), NAMESPACE),
            "query": query,
            "many": True,
        }

    def release(self, kind: Kind) -> Operation:
        """Take the finalizers off an object, which ends one that is being deleted."""
        names = self.names[kind.plural]
        path = kind.path(self.version(kind), NAMESPACE, self.chance.choice(names))
        return {"method": "PATCH", "path": path, "form": MERGE, "body": {"metadata": {"finalizers": None}}}


def _status_body(self: Sequence, kind: Kind, name: str, version: str) -> Object:
    status: Any = self.status(kind, name)
    if self.chance.random() < 0.2:
        status = dict.fromkeys(status)
    body: Object = {"status": status}
    if self.chance.random() < 0.2:
        body["metadata"] = {"labels": {"from": "status"}, "annotations": {"from": "status"}}
    return body


_DRAW: Final[dict[str, Callable[[Sequence, Kind], Operation | None]]] = {
    name: getattr(Sequence, name.replace("-", "_")) for name in _WEIGHTS
}


def draw(seed: int, number: int, length: int = 30) -> list[Operation]:
    """The operations of one sequence."""
    return copy.deepcopy(Sequence(seed, number, length).operations)


def text(operations: list[Operation]) -> str:
    """A sequence as a file that can be played again."""
    return "[\n" + ",\n".join(json.dumps(operation) for operation in operations) + "\n]\n"
