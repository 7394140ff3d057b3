"""Operations that read, watch and delete, drawn at random; see api_writes."""

from __future__ import annotations

import random
from typing import Final

from api_chance import Object, maybe, some
from api_play import Operation
from api_state import NAMESPACE, State
from api_values import Kind
from api_wire import JSON, PROTOBUF
from api_writes import MERGE

TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL: Final = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIALS: Final = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
PARTIAL_PROTOBUF: Final = f"{PROTOBUF};as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
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


class Reads(State):
    """The other operations."""

    def get(self, kind: Kind) -> Operation:
        """GET of an object, sometimes through its status, sometimes from the cache."""
        version = self.version(kind)
        subresource = "status" if kind.status and self.chance.random() < 0.15 else ""
        name = self.name(kind)
        query = {}
        roll = self.chance.random()
        if roll < 0.2:
            query = {"resourceVersion": "0"}
        elif roll < 0.3 and self.written:
            query = {"resourceVersion": f"${{rv:{self.written[-1][2]}}}"}
        path = kind.path(version, NAMESPACE, name, subresource)
        operation: Operation = {"method": "GET", "path": path, "query": query, "target": name}
        return {**operation, "fresh": True} if query else operation

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
            if chance.random() < 0.15:
                query |= {"sendInitialEvents": "false", "resourceVersionMatch": "NotOlderThan"}
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
