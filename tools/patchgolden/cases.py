"""Make the golden table of the patch tests: random cases, answered by the libraries that a real API server uses.

    python tools/patchgolden/cases.py tests/clusters/data/patch_golden.json.gz [COUNT] [SEED]

The cases are the same on every run. Needs the Go toolchain; the tests that read the table do not.
"""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

from dra_api.schema import GVK, Field, Message, load

HERE = Path(__file__).parent
KINDS = (
    GVK("", "v1", "ConfigMap"),
    GVK("", "v1", "Pod"),
    GVK("", "v1", "Node"),
    GVK("resource.k8s.io", "v1", "ResourceClaim"),
    GVK("resource.k8s.io", "v1", "ResourceSlice"),
    GVK("resource.k8s.io", "v1", "ResourceClaimTemplate"),
    GVK("resource.k8s.io", "v1", "DeviceTaintRule"),
    GVK("coordination.k8s.io", "v1", "Lease"),
    GVK("rbac.authorization.k8s.io", "v1", "ClusterRole"),
    GVK("apps", "v1", "Deployment"),
)
WORDS = ("a", "b", "c")
SCALARS: dict[str, tuple[Any, ...]] = {
    "string": WORDS,
    "bytes": ("YQ==", "Yg=="),
    "bool": (True, False),
    "int32": (0, 1, 80),
    "int64": (0, 1, 80),
    "quantity": ("1", "500m", "2Gi"),
    "time": ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
    "microtime": ("2026-01-01T00:00:00.000001Z",),
    "duration": ("1s",),
    "intorstring": (80, "http"),
    "raw": ({"x": 1}, {"x": 1, "y": [1, 2]}, {"x": {"z": "a"}}),
    "strings": (["a"],),
}


class Objects:
    """Random objects of one kind that differ in a few fields only, so that writes meet."""

    def __init__(self, rng: random.Random, message: Message, breadth: int) -> None:
        self.rng = rng
        self.message = message
        self.breadth = breadth
        self.chosen: dict[str, list[Field]] = {}

    def fields_of(self, message: Message, depth: int) -> list[Field]:
        """The fields that this case uses of a message."""
        if message.name not in self.chosen:
            skipped = {"apiVersion", "kind", "managedFields", "uid", "name", "namespace", "selfLink"}
            if message.name != "meta/v1.ObjectMeta":
                skipped = {"apiVersion", "kind"}
            names = [entry for entry in message.fields.values() if entry.name not in skipped]
            wanted = [entry for entry in names if self._merges(entry)]
            picked = self.rng.sample(wanted, min(len(wanted), 2))
            rest = [entry for entry in names if entry not in picked]
            picked += self.rng.sample(rest, min(len(rest), max(1, self.breadth - depth // 2)))
            keys = {"name", "uid", "type", "driver", "pool", "device", "containerPort"}
            picked += [entry for entry in names if entry.name in keys and entry not in picked]
            if depth == 0:
                picked = names
            self.chosen[message.name] = picked
        return self.chosen[message.name]

    @staticmethod
    def _merges(entry: Field) -> bool:
        return entry.list_type in ("map", "set") or bool(entry.patch_merge_key)

    def make(self) -> dict[str, Any]:
        """A whole object."""
        return self._message(self.message, 0)

    def _message(self, message: Message, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for entry in self.fields_of(message, depth):
            sure = depth < 1 or entry.name in ("name", "uid", "type", "driver", "pool", "device", "key")
            if depth > 6 or not (sure or self.rng.random() < 0.55):
                continue
            result[entry.name] = self._field(entry, depth + 1)
        return result

    def _field(self, entry: Field, depth: int) -> Any:
        if entry.repeated:
            items = [self._value(entry, depth) for _ in range(self.rng.choice((0, 1, 1, 2, 2, 3)))]
            return items if self.rng.random() < 0.03 else self._unique(entry, items)
        if entry.map:
            return {word: self._value(entry, depth) for word in WORDS if self.rng.random() < 0.5}
        return self._value(entry, depth)

    def _unique(self, entry: Field, items: list[Any]) -> list[Any]:
        keys = entry.list_keys or ((entry.patch_merge_key,) if entry.patch_merge_key else ())
        result: list[Any] = []
        seen: set[str] = set()
        for item in items:
            text = json.dumps([item.get(key) for key in keys] if isinstance(item, dict) and keys else item)
            if text not in seen:
                seen.add(text)
                result.append(item)
        return result

    def _value(self, entry: Field, depth: int) -> Any:
        if entry.type == "message":
            return self._message(entry.message, depth)
        if entry.type == "fieldsv1":
            return {}
        return self.rng.choice(SCALARS[entry.type])


def identified(obj: dict[str, Any], gvk: GVK, *, uid: bool) -> dict[str, Any]:
    """The object with its type and name, and with the uid of a stored object."""
    metadata = {**obj.get("metadata", {}), "name": "n", **({"uid": "u"} if uid else {})}
    metadata.pop("deletionTimestamp", None)
    return {"apiVersion": gvk.api_version, "kind": gvk.kind, **obj, "metadata": metadata}


def fields_case(rng: random.Random, gvk: GVK, message: Message) -> dict[str, Any]:
    """A sequence of updates and applies to one object by several managers."""
    objects = Objects(rng, message, 3)
    writes: list[dict[str, Any]] = []
    for index in range(rng.randint(2, 5)):
        apply = rng.random() < 0.6
        write: dict[str, Any] = {
            "manager": rng.choice(("one", "two", "three", "kubectl")),
            "operation": "Apply" if apply else "Update",
            "object": identified(objects.make(), gvk, uid=index > 0 and not apply),
        }
        if apply and rng.random() < 0.5:
            write["force"] = True
        if "status" in message.fields and "spec" in message.fields:
            status = index > 0 and rng.random() < 0.4
            write["subresource"] = "status" if status else ""
            write["reset"] = ["spec"] if status else ["status"]
        if not apply and index > 1 and rng.random() < 0.1:
            write["object"]["metadata"]["managedFields"] = [{}]
        writes.append(write)
    return {"op": "fields", "apiVersion": gvk.api_version, "kind": gvk.kind, "writes": writes}


def special_cases() -> list[dict[str, Any]]:
    """Rules that random writes hardly meet."""
    gvk = GVK("", "v1", "ConfigMap")

    def write(manager: str, data: dict[str, str], **more: Any) -> dict[str, Any]:
        uid = more.pop("uid", True)
        metadata = {"annotations": more.pop("annotations", {}), **more.pop("metadata", {})}
        obj = identified({"metadata": metadata, "data": data}, gvk, uid=uid)
        return {"manager": manager, "operation": "Update", "object": obj, **more}

    names = [f"m{index:02}" for index in range(14)]
    many = [write(name, dict.fromkeys(names[: at + 1], "1"), uid=at > 0) for at, name in enumerate(names)]
    wiped = [
        write("one", {"a": "1"}, uid=False),
        write("two", {"a": "1", "b": "1"}, metadata={"managedFields": [{}]}),
        write("one", {"a": "2", "b": "1"}),
        write("three", {"c": "1"}, operation="Apply", uid=False),
        write("three", {"c": "2", "a": "2"}, operation="Apply", uid=False),
        write("three", {"b": "2"}, operation="Apply", uid=False, force=True),
    ]
    applied = identified({"data": {"a": "1", "b": "1", "<": "&"}}, gvk, uid=False)
    last = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(applied)}
    migrated = [
        write("kubectl-client-side-apply", {"a": "1", "b": "2", "<": "&"}, uid=False, annotations=last),
        write("kubectl", {"a": "2"}, operation="Apply", uid=False),
        write("kubectl", {"b": "3"}, operation="Apply", uid=False),
        write("other", {"<": "2"}, operation="Apply", uid=False),
        write("kubectl", {"a": "3", "<": "2"}, operation="Apply", uid=False, annotations={"x": "y"}),
    ]
    return [
        {"op": "fields", "apiVersion": gvk.api_version, "kind": gvk.kind, "writes": writes}
        for writes in (many, wiped, migrated)
    ]


def strategic_case(rng: random.Random, gvk: GVK, message: Message) -> dict[str, Any]:
    """An object and a patch with directives here and there."""
    objects = Objects(rng, message, 3)
    document = identified(objects.make(), gvk, uid=True)
    patch = objects.make()
    direct(rng, patch, document, message, rng.choice((0.0, 0.1, 0.3)))
    return {
        "op": "strategic",
        "apiVersion": gvk.api_version,
        "kind": gvk.kind,
        "document": document,
        "patch": patch,
    }


def direct(rng: random.Random, patch: Any, document: Any, message: Message, share: float) -> None:
    """Puts directives into a patch."""
    for name in list(patch):
        entry = message.fields[name]
        value = patch[name]
        before = document.get(name) if isinstance(document, dict) else None
        if rng.random() < share / 2:
            patch[name] = None
        elif entry.repeated and (entry.patch_merge_key or "merge" in entry.patch_strategy):
            key = entry.patch_merge_key
            if key and entry.type == "message":
                for item in value:
                    direct(rng, item, {}, entry.message, share / 2)
                    if rng.random() < share:
                        item["$patch"] = rng.choice(("delete", "delete", "replace", "merge", "bad"))
                    elif rng.random() < share / 4:
                        item.pop(key, None)
            if rng.random() < share:
                order_list(rng, patch, name, value, before, key)
            if not key and rng.random() < share:
                patch[f"$deleteFromPrimitiveList/{name}"] = rng.sample(WORDS, rng.randint(0, 2))
        elif entry.type == "message" and entry.shape == "one":
            direct(rng, value, before, entry.message, share)
            if rng.random() < share / 3:
                value["$patch"] = rng.choice(("delete", "replace", "merge"))
            elif "retainKeys" in entry.patch_strategy or rng.random() < share / 4:
                keys = [key for key in value if not key.startswith("$")]
                value["$retainKeys"] = keys if rng.random() < 0.8 else keys[1:]


def order_list(
    rng: random.Random, patch: dict[str, Any], name: str, value: Any, before: Any, key: str
) -> None:
    """Adds a `$setElementOrder`, mostly one that holds every item of the patch."""
    items = [*value, *(before if isinstance(before, list) else [])]
    keys = [{key: item[key]} if key else item for item in items if not key or key in item]
    unique = [item for index, item in enumerate(keys) if item not in keys[:index]]
    if rng.random() < 0.3:
        rng.shuffle(unique)
    patch[f"$setElementOrder/{name}"] = unique
    if rng.random() < 0.2:
        del patch[name]


def json_case(rng: random.Random) -> dict[str, Any]:
    """A JSON patch or merge patch on free JSON."""
    document = {"a": tree(rng, 3), "b": tree(rng, 3), "c": [tree(rng, 1) for _ in range(rng.randint(0, 3))]}
    if rng.random() < 0.3:
        patch = tree(rng, 3)
        return {
            "op": "merge",
            "document": document,
            "patch": patch if isinstance(patch, dict) else {"a": patch},
        }
    operations = []
    for _ in range(rng.randint(1, 4)):
        name = rng.choice(("add", "remove", "replace", "move", "copy", "test", "test"))
        operation: dict[str, Any] = {"op": name, "path": pointer(rng, document)}
        if name in ("move", "copy"):
            operation["from"] = pointer(rng, document)
        elif name != "remove" and rng.random() < 0.95:
            operation["value"] = tree(rng, 1)
            if name == "test" and rng.random() < 0.7:
                operation["value"] = at(document, operation["path"])
        operations.append(operation)
    return {"op": "json", "document": document, "patch": operations}


def tree(rng: random.Random, depth: int) -> Any:
    """Random JSON."""
    kind = rng.choice("dlsnbz" if depth else "snbz")
    if kind == "d":
        return {word: tree(rng, depth - 1) for word in WORDS if rng.random() < 0.6}
    if kind == "l":
        return [tree(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    return {"s": rng.choice(("", "x", "~/")), "n": rng.choice((0, 1, 2)), "b": rng.random() < 0.5, "z": None}[
        kind
    ]


def pointer(rng: random.Random, document: Any) -> str:
    """A pointer that mostly exists."""
    path, node = "", document
    while isinstance(node, dict | list) and (not path or rng.random() < 0.7):
        if isinstance(node, dict):
            step = rng.choice((*node, "a", "z")) if node else "a"
            node = node.get(step)
        else:
            step = rng.choice(("0", "1", "-", "-1", "7", "x"))
            node = node[int(step)] if step in ("0", "1") and int(step) < len(node) else None
        path += "/" + step
    return path if rng.random() < 0.97 else ""


def at(document: Any, path: str) -> Any:
    """The value at a pointer, or null."""
    node = document
    for step in path.split("/")[1:]:
        if isinstance(node, dict):
            node = node.get(step)
        elif isinstance(node, list) and step.isdigit() and int(step) < len(node):
            node = node[int(step)]
        else:
            return None
    return node


def without_times(value: Any) -> Any:
    """The write times of managedFields as the bare fact that there is one."""
    if isinstance(value, list):
        return [without_times(item) for item in value]
    if not isinstance(value, dict):
        return value
    is_entry = "fieldsType" in value and "time" in value
    return {key: "T" if is_entry and key == "time" else without_times(item) for key, item in value.items()}


def main(target: Path, count: int, seed: int) -> None:
    """Writes the table."""
    rng = random.Random(seed)
    cases = special_cases() + [json_case(rng) for _ in range(count)]
    for index in range(count):
        gvk = KINDS[index % len(KINDS)]
        message = load().kind(gvk)
        assert message is not None
        cases += [fields_case(rng, gvk, message), strategic_case(rng, gvk, message)]
    done = subprocess.run(
        ["go", "run", "."], cwd=HERE, input=json.dumps(cases), capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(done.stderr)
    results = [case for case in json.loads(done.stdout) if case["op"] == "fields" or "answer" in case]
    lines = ",\n".join(json.dumps(without_times(case), separators=(",", ":")) for case in results)
    target.write_bytes(gzip.compress(f"[\n{lines}\n]\n".encode(), mtime=0))
    print(f"{len(results)} cases in {target}")


if __name__ == "__main__":
    count, seed = (int(text) for text in (*sys.argv[2:4], "120", "1")[:2])
    main(Path(sys.argv[1]), count, seed)
