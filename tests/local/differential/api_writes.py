"""Operations that write, drawn at random. Each drawing returns None when there is nothing to do it with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import api_values as values
from api_chance import Object, some
from api_play import Operation
from api_state import NAMESPACE, State
from api_values import Kind
from api_wire import JSON, PROTOBUF, YAML

MERGE: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
MANAGERS: Final = ("m1", "m2", "kubectl")


class Writes(State):
    """The writing operations."""

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
        reference = f"${{name:{number}}}"
        self.names[kind.plural].append(reference)
        # Drawn by the reference, as all later bodies of the object are.
        body = self.body(kind, version, reference, generateName=prefix)
        del body["metadata"]["name"]
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

        def body(self: State, kind: Kind, name: str, version: str) -> Object:
            change = self._change(kind, name, version)
            if self.chance.random() < 0.15:
                change["metadata"].update(some(resourceVersion=self.revision(kind, name)))
            return change

        return self._patch(kind, MERGE, body)

    def patch_strategic(self, kind: Kind) -> Operation:
        """A strategic merge patch with its directives."""

        def body(self: State, kind: Kind, name: str, version: str) -> Object:
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

        def body(self: State, kind: Kind, name: str, version: str) -> list[Object]:
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
                lambda: {"op": "remove", "path": "/metadata/managedFields"},
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
        query = {"fieldManager": chance.choice(MANAGERS)}
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

        def body(self: State, kind: Kind, name: str, version: str) -> list[Object]:
            return [{"op": "add", "path": "/status", "value": self.status(kind, name)}]

        return self._patch(kind, JSON_PATCH, body, "status")

    def status_apply(self, kind: Kind) -> Operation:
        """Server-side apply of /status."""
        return self._applied(kind, "status")


def _status_body(self: State, kind: Kind, name: str, version: str) -> Object:
    status: Any = self.status(kind, name)
    if self.chance.random() < 0.2:
        status = dict.fromkeys(status)
    body: Object = {"status": status}
    if self.chance.random() < 0.2:
        body["metadata"] = {"labels": {"from": "status"}, "annotations": {"from": "status"}}
    return body
