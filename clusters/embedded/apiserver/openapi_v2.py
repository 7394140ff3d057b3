"""The OpenAPI v2 document: the schemas of all kinds, as kubectl reads them for lists and for versions not served.

kubectl trusts the server's own validation where the v3 documents say that it has one. What they do not tell about (a
`List`, a version that is not served) it validates itself, by this document in its protobuf form; without it such a
command ends before anything is sent. There are no paths in it: kubectl reads these from the v3 documents.

Field numbers: gnostic-models, openapiv2/OpenAPIv2.proto.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from dra_api.wire.encode import delimited, tag

ACCEPTED: Final = (
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
)
"""Names of the protobuf form in requests; the second is no legal media type, and answers have the first."""
_BYTES: Final = 2
_V3_PREFIX, _V2_PREFIX = "#/components/schemas/", "#/definitions/"
Object = Mapping[str, Any]


def document(documents: Iterable[Object]) -> dict[str, Any]:
    """One v2 document of the schemas in several v3 documents."""
    definitions: dict[str, Any] = {}
    for each in documents:
        for name, schema in each["components"]["schemas"].items():
            # Types of another group come in several documents, and as kinds in one of them.
            if name not in definitions or "x-kubernetes-group-version-kind" in schema:
                definitions[name] = _schema(schema)
    info = {"title": "Kubernetes", "version": "v1.37.2"}
    return {"swagger": "2.0", "info": info, "paths": {}, "definitions": dict(sorted(definitions.items()))}


def _schema(schema: Object) -> dict[str, Any]:
    """A v3 schema in the words of v2: references stand alone, and the first of several types stands for all."""
    result: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "allOf":
            result["$ref"] = value[0]["$ref"].replace(_V3_PREFIX, _V2_PREFIX)
        elif key == "oneOf":
            # Quantities, and numbers that may be texts: upstream's v2 document calls both strings.
            result["type"] = "string"
        elif key == "properties":
            result[key] = {name: _schema(each) for name, each in value.items()}
        elif key in ("items", "additionalProperties"):
            result[key] = _schema(value)
        else:
            result[key] = value
    return result


def encode(found: Object) -> bytes:
    """The document in protobuf."""
    return b"".join(
        [
            _text(1, found["swagger"]),
            _message(2, _text(1, found["info"]["title"]) + _text(2, found["info"]["version"])),
            _message(8, b""),
            _message(9, _named(found["definitions"], _encode_schema)),
        ]
    )


def _encode_schema(schema: Object) -> bytes:
    parts: list[bytes] = []
    for key, number in (("$ref", 1), ("format", 2), ("description", 4)):
        if key in schema:
            parts.append(_text(number, schema[key]))
    parts += [_text(19, name) for name in schema.get("required", ())]
    parts += [_message(20, _any(value)) for value in schema.get("enum", ())]
    if "additionalProperties" in schema:
        parts.append(_message(21, _message(1, _encode_schema(schema["additionalProperties"]))))
    if "type" in schema:
        parts.append(_message(22, _text(1, schema["type"])))
    if "items" in schema:
        parts.append(_message(23, _message(1, _encode_schema(schema["items"]))))
    if "properties" in schema:
        parts.append(_message(25, _named(schema["properties"], _encode_schema)))
    for key, value in schema.items():
        if key.startswith("x-"):
            parts.append(_message(31, _text(1, key) + _message(2, _any(value))))
    return b"".join(parts)


def _named(entries: Object, content: Callable[[Any], bytes]) -> bytes:
    """The repeated entries of a map, as names with values."""
    return b"".join(
        _message(1, _text(1, name) + _message(2, content(value))) for name, value in entries.items()
    )


def _any(value: Any) -> bytes:
    """A value of any kind, which travels as YAML; JSON is YAML."""
    return _text(2, json.dumps(value))


def _text(number: int, text: str) -> bytes:
    return delimited(tag(number, _BYTES), text.encode())


def _message(number: int, content: bytes) -> bytes:
    return delimited(tag(number, _BYTES), content)
