"""Manifests that a user wrote: read strictly, with every problem said at once and where it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from ..nearest import nearest
from ..schema import GVK, Field, Message, load
from .json_text import plain
from .objects import Walk
from .problems import DecodeError, Fault, TypeMismatchError
from .yaml_text import Document, documents

_YAML_LINE: Final = re.compile(r"(?:yaml: )?line (\d+): (.*)", re.S)
_TYPE_WORDS: Final = {
    "string": "a string",
    "bool": "true or false",
    "int32": "a whole number that fits 32 bits",
    "int64": "a whole number that fits 64 bits",
    "bytes": "base64 text",
    "quantity": "a quantity such as 500m or 2Gi",
    "time": "a time such as 2026-01-02T03:04:05Z",
    "microtime": "a time such as 2026-01-02T03:04:05.000000Z",
    "intorstring": "a whole number or a string",
    "strings": "a list of strings",
    "message": "a map of fields",
}
_FOUND_WORDS: Final = {
    "string": "a string",
    "number": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a map",
}
_EXAMPLES: Final = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
_QUOTE: Final = {
    "number": "; put it in quotes",
    "bool": "; put it in quotes (YAML reads words such as y, n, yes, no, on, off as true or false)",
}


@dataclass(frozen=True)
class ManifestProblem:
    """One problem: in which file and line, in which document (from 1), at which field, and what."""

    source: str
    line: int
    document: int
    path: str
    text: str

    def __str__(self) -> str:
        place = f"{self.source}:{self.line}: document {self.document}"
        return f"{place}: {self.path}: {self.text}" if self.path else f"{place}: {self.text}"


class ManifestError(ValueError):
    """A text that holds no valid manifests; `problems` are all that were found, one a line in the message."""

    def __init__(self, problems: list[ManifestProblem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


def load_manifests(text: str, source: str, *, pass_over_foreign: bool = False) -> list[dict[str, Any]]:
    """The objects of a YAML or JSON text with one or several documents, as they were written.

    Empty documents are skipped, the items of a list stand for themselves. `source` names the text in errors.
    `pass_over_foreign` leaves out custom resources instead of refusing them. Raises ManifestError: syntax, unknown
    kinds and fields, fields set twice, values of the wrong type, objects without a name.
    """
    problems: list[ManifestProblem] = []
    objects: list[dict[str, Any]] = []
    number = 0
    try:
        for number, document in enumerate(documents(text), 1):
            problems += _document_problems(document, number, source, objects, pass_over_foreign)
    except DecodeError as error:
        found = _YAML_LINE.fullmatch(error.message)
        line, words = (int(found[1]), found[2]) if found else (1, error.message.removeprefix("yaml: "))
        problems.append(ManifestProblem(source, line, number + 1, "", f"this is no YAML: {words}"))
    if problems:
        raise ManifestError(problems)
    return objects


def suggest(field: str, message: Message) -> str | None:
    """The field of a struct that somebody may have meant by a name which it does not have."""
    return nearest(field, message.fields)


def _document_problems(
    document: Document, number: int, source: str, objects: list[dict[str, Any]], pass_over_foreign: bool
) -> Iterator[ManifestProblem]:
    for text in document.duplicates:
        found = _YAML_LINE.fullmatch(text)
        line, words = (int(found[1]), found[2]) if found else (document.line, text)
        yield ManifestProblem(source, line, number, "", words.replace("in map", "in this map; remove one"))
    if document.value is None:
        return
    for prefix, value in objects_in(document.value):
        if pass_over_foreign and _is_foreign(value):
            continue
        for path, text in _object_problems(value):
            place = _joined(prefix, path)
            yield ManifestProblem(source, document.line_of(place), number, place, text)
        objects.append(plain(value))


def objects_in(value: Any) -> Iterator[tuple[str, Any]]:
    """The objects of a document, each with its path in it: the items of a list, or the document itself.

    A list is a `kind: List`, or one as an API server answers, such as a NodeList, whose items need not name their kind.
    """
    of = _listed_kind(value)
    if of is None:
        yield "", value
        return
    for index, item in enumerate(value.get("items") or []):
        typed = {"apiVersion": value["apiVersion"], "kind": of} if of and isinstance(item, dict) else {}
        yield f"items[{index}]", {**typed, **item} if typed else item


def _listed_kind(value: Any) -> str | None:
    """The kind of the items of a list, "" where each names its own; None for what is no list."""
    if not isinstance(value, dict) or not all(isinstance(value.get(key), str) for key in _EXAMPLES):
        return None
    version, kind = value["apiVersion"], value["kind"]
    if not isinstance(value.get("items"), list | None) or not kind.endswith("List"):
        return None
    item = kind.removesuffix("List")
    if not item:
        return "" if version == "v1" else None
    return item if "items" in value and load().kind(GVK.of(version, item)) is not None else None


def _is_foreign(value: Any) -> bool:
    """Whether neither group nor kind of an object are Kubernetes' own."""
    if not isinstance(value, dict) or not all(isinstance(value.get(key), str) for key in _EXAMPLES):
        return False
    gvk = GVK.of(value["apiVersion"], value["kind"])
    return all(gvk.group != known.group and gvk.kind != known.kind for known in load().kinds())


def _joined(prefix: str, path: str) -> str:
    return f"{prefix}.{path}" if prefix and path else prefix or path


def _object_problems(value: Any) -> Iterator[tuple[str, str]]:
    if not isinstance(value, dict):
        yield "", f"must be a Kubernetes object with apiVersion and kind, not {_described(value)}"
        return
    missing = [name for name in ("apiVersion", "kind") if not isinstance(value.get(name), str)]
    if missing:
        yield from ((name, "required, a string such as " + _EXAMPLES[name]) for name in missing)
        return
    gvk = GVK.of(value["apiVersion"], value["kind"])
    message = load().kind(gvk)
    if message is None:
        yield "kind", unknown_kind(gvk)
        return
    walk = Walk(collects=True)
    try:
        walk.message(value, message, "", ())
    except TypeMismatchError:  # pragma: no cover - the value is a map
        return
    yield from ((fault.path, fault_text(fault)) for fault in walk.faults)
    metadata = value.get("metadata")
    if metadata is None or (isinstance(metadata, dict) and not _has_name(metadata)):
        yield "metadata.name", "required (or metadata.generateName)"


def _has_name(metadata: dict[str, Any]) -> bool:
    # A name of the wrong type has been reported as that.
    return any(metadata.get(name) not in (None, "") for name in ("name", "generateName"))


def unknown_kind(gvk: GVK) -> str:
    """What is wrong with a kind that does not exist, and which ones do."""
    known = list(load().kinds())
    versions = [other.api_version for other in known if other.kind == gvk.kind]
    text = f'there is no kind "{gvk.kind}" in "{gvk.api_version}"'
    if versions:
        return f"{text}; it exists in {', '.join(versions)}"
    near = nearest(gvk.kind, sorted({other.kind for other in known}))
    return f'{text}, did you mean "{near}"?' if near else text


def fault_text(fault: Fault) -> str:
    """A fault in words for somebody who writes manifests."""
    if fault.kind == "unknown":
        near = suggest(fault.name, fault.message)
        return f'unknown field, did you mean "{near}"?' if near else _unknown_field(fault.message)
    if fault.kind == "duplicate":
        return "set twice; remove one"
    if fault.kind == "value":
        return fault.detail
    return _wrong_type(fault)


def _unknown_field(message: Message) -> str:
    names = ", ".join(message.fields) or "none"
    return f"unknown field; allowed are: {names}"


def _wrong_type(fault: Fault) -> str:
    field = fault.message.fields[fault.name]
    at_item = fault.path.endswith("]") or not fault.path.endswith(fault.name)
    wanted = _shape_words(field) if field.shape != "one" and not at_item else _TYPE_WORDS[field.type]
    found = _FOUND_WORDS.get(fault.detail, f"the {fault.detail}")
    hint = _QUOTE.get(fault.detail, "") if field.type == "string" else ""
    return f"must be {wanted}, not {found}{hint}"


def _shape_words(field: Field) -> str:
    return "a list" if field.shape == "list" else "a map"


def _described(value: Any) -> str:
    if isinstance(value, list):
        return "a list"
    return "null" if value is None else f"the value {value!r}"
