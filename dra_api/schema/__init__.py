"""What the Kubernetes API types look like: fields, wire numbers, types, list and patch rules.

The facts lie in the JSON files beside this module, one an API group, written by tools/schemagen from the Go
types of Kubernetes 1.37. A group is read when one of its types is asked for first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

Shape = Literal["one", "list", "map"]

_DATA: Final = Path(__file__).parent
_ANY_GROUP: Final = frozenset(
    f"{verb}Options" for verb in ("Apply", "Create", "Delete", "Get", "List", "Patch", "Update")
) | {"WatchEvent"}


class GVK(NamedTuple):
    """Group, version and kind; the core group is the empty string."""

    group: str
    version: str
    kind: str

    @classmethod
    def of(cls, api_version: str, kind: str) -> GVK:
        """From the two fields of an object: `resource.k8s.io/v1` or `v1`, and the kind."""
        group, slash, version = api_version.rpartition("/")
        return cls(group, version, kind) if slash else cls("", api_version, kind)

    @property
    def api_version(self) -> str:
        """The apiVersion field: `GROUP/VERSION`, or the version alone for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.api_version}, Kind={self.kind}"


@dataclass(frozen=True)
class Field:
    """One field of a message.

    `type` is string, bool, int32, int64, bytes (base64 in JSON), quantity, time, microtime, intorstring, raw
    (any JSON), fieldsv1 (a JSON object), strings (a list of strings that is a message on the wire) or message
    (see `message`). `shape` says whether it is one such value, a list, or a map with string keys. `number` is
    the wire number, 0 for what the wire does not hold (kind and apiVersion of an object).
    """

    name: str
    number: int
    type: str
    shape: Shape = "one"
    pointer: bool = False
    omitempty: bool = False
    omitzero: bool = False
    inline: bool = False
    """The members of this message stand in the outer JSON object; on the wire it is a message of its own."""
    message_name: str = ""
    go_type: str = ""
    """The name that Go's decoder prints in errors, such as v1.PullPolicy or map[string]string."""
    list_type: Literal["atomic", "set", "map"] | None = None
    list_keys: tuple[str, ...] = ()
    map_type: Literal["atomic", "granular"] | None = None
    """For maps and messages: whether server-side apply owns it as a whole."""
    patch_strategy: tuple[str, ...] = ()
    patch_merge_key: str = ""
    default: Any = None
    """The default of server-side apply's schema, which completes list-map keys."""

    @property
    def repeated(self) -> bool:
        """True for lists."""
        return self.shape == "list"

    @property
    def map(self) -> bool:
        """True for maps with string keys."""
        return self.shape == "map"

    @cached_property
    def message(self) -> Message:
        """The message of this field's value, item or map value; only for type message."""
        return load().message(self.message_name)


@dataclass(frozen=True)
class Message:
    """A struct type. `name` is such as core/v1.PodSpec."""

    name: str
    members: tuple[Field, ...]
    """The fields as the wire sees them: an inlined struct is one member."""
    atomic: bool = False
    """Server-side apply owns it as a whole, wherever it stands."""

    @cached_property
    def fields(self) -> dict[str, Field]:
        """All fields by JSON name, those of inlined structs included, in the order of the Go structs."""
        result: dict[str, Field] = {}
        for member in self.members:
            if member.inline:
                result.update(member.message.fields)
            else:
                result[member.name] = member
        return result

    @cached_property
    def by_number(self) -> dict[int, Field]:
        """The members that the wire holds."""
        return {member.number: member for member in self.members if member.number}

    @cached_property
    def struct(self) -> str:
        """The bare name of the Go struct, such as PodSpec."""
        return self.name.rpartition(".")[2]

    @cached_property
    def go_type(self) -> str:
        """The name that Go prints, such as v1.PodSpec."""
        return self.name.rpartition("/")[2]


class Schema:
    """All types; get the one instance by `load()`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._raw: dict[str, Mapping[str, Any]] = {}
        self._messages: dict[str, Message] = {}
        self._kinds: dict[GVK, Message | None] = {}

    def kind(self, gvk: GVK) -> Message | None:
        """The message of a kind or of its list kind; None for a kind that is not known."""
        if gvk not in self._kinds:
            self._kinds[gvk] = self._find(gvk)
        return self._kinds[gvk]

    def message(self, name: str) -> Message:
        """A message by its name, such as meta/v1.ObjectMeta. Raises KeyError."""
        found = self._messages.get(name)
        if found is None:
            raw = self._file(name.partition("/")[0])["messages"][name]
            members = tuple(_field(entry) for entry in raw["fields"])
            found = self._messages[name] = Message(name, members, raw.get("atomic", False))
        return found

    def kinds(self, group: str | None = None) -> Iterator[GVK]:
        """Every kind of one group, or of all groups, without list kinds."""
        stems = (
            [_stem(group)] if group is not None else sorted(p.stem for p in self._directory.glob("*.json"))
        )
        for stem in stems:
            for api_version, names in self._file(stem)["kinds"].items():
                yield from (GVK.of(api_version, name) for name in names)

    def _find(self, gvk: GVK) -> Message | None:
        if gvk.kind in _ANY_GROUP or gvk == ("", "v1", "Status"):
            return self.message(f"meta/v1.{gvk.kind}")
        names = self._file(_stem(gvk.group))["kinds"].get(gvk.api_version, {})
        if gvk.kind in names:
            return self.message(names[gvk.kind])
        item = names.get(gvk.kind.removesuffix("List"))
        if item is None:
            return None
        members = (
            Field("kind", 0, "string", omitempty=True),
            Field("apiVersion", 0, "string", omitempty=True),
            Field("metadata", 1, "message", omitempty=True, message_name="meta/v1.ListMeta"),
            Field("items", 2, "message", "list", message_name=item, list_type="atomic"),
        )
        return Message(f"{item}List", members)

    def _file(self, stem: str) -> Mapping[str, Any]:
        content = self._raw.get(stem)
        if content is None:
            path = self._directory / f"{stem}.json"
            empty: dict[str, Any] = {"kinds": {}, "messages": {}}
            content = json.loads(path.read_bytes()) if path.is_file() else empty
            self._raw[stem] = content
        return content


@cache
def load() -> Schema:
    """The schema of the Kubernetes version that this package knows."""
    return Schema(_DATA)


def _stem(group: str) -> str:
    return group.partition(".")[0] if group else "core"


def _field(entry: list[Any]) -> Field:
    name, number, text, flags = entry[:4]
    extras: Mapping[str, Any] = entry[4] if len(entry) > 4 else {}
    shape: Shape = "one"
    if text.startswith("[]"):
        shape, text = "list", text[2:]
    elif text.startswith("map:"):
        shape, text = "map", text[4:]
    is_message = "/" in text
    atomic = extras.get("mapType") == "atomic"
    granular: Literal["atomic", "granular"] | None = "granular" if shape == "map" else None
    return Field(
        name=name,
        number=number,
        type="message" if is_message else text,
        shape=shape,
        pointer="p" in flags,
        omitempty="e" in flags,
        omitzero="z" in flags,
        inline="i" in flags,
        message_name=text if is_message else "",
        go_type=extras.get("go") or _go_type(text, shape),
        list_type=extras.get("listType", "atomic") if shape == "list" else None,
        list_keys=tuple(extras.get("listKeys", ())),
        map_type="atomic" if atomic else granular,
        patch_strategy=tuple(extras["patchStrategy"].split(",")) if "patchStrategy" in extras else (),
        patch_merge_key=extras.get("patchMergeKey", ""),
        default=extras.get("default"),
    )


_GO_NAMES: Final = {
    "bytes": "[]uint8",
    "quantity": "resource.Quantity",
    "time": "v1.Time",
    "microtime": "v1.MicroTime",
    "intorstring": "intstr.IntOrString",
    "raw": "runtime.RawExtension",
    "fieldsv1": "v1.FieldsV1",
}


def _go_type(text: str, shape: Shape) -> str:
    name = text.rpartition("/")[2] if "/" in text else _GO_NAMES.get(text, text)
    return {"one": "", "list": "[]", "map": "map[string]"}[shape] + name
