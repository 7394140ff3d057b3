"""Request bodies: from bytes to the object, or to the message of the 400 answer."""

from __future__ import annotations

import re
from typing import Any, Final

from ..schema import GVK, load
from .json_text import parse_json
from .objects import Decoded, cannot_be_handled, decode_object, not_registered
from .problems import DecodeError
from .values import kind_of
from .yaml_text import decode_yaml

_HEAD: Final = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
_PARSE: Final = "couldn't get version/kind; json parse error: json: cannot unmarshal "
_SUMMARY: Final = 30
_HANDLED: Final = re.compile(r'.* in version ".*" cannot be handled as a \w+: ')
_SHARED_INTERNAL: Final = {"events": "core"}


def decode_body(data: bytes, expected: GVK, *, yaml: bool = False) -> Decoded:
    """The object of a JSON or YAML request body, where the URL asks for a kind.

    An absent apiVersion or kind is taken from `expected`. Raises DecodeError with the message of the real
    server's 400 answer: syntax, unknown kind, wrong type, another kind, another version of the same kind.
    """
    try:
        value, duplicates = decode_yaml(data) if yaml else (parse_json(data), [])
        gvk = interpret(value, expected)
    except DecodeError as error:
        raise not_recognized(error.message, expected, data) from None
    if load().kind(gvk) is None:
        raise DecodeError(cannot_be_handled(gvk, expected.kind, not_registered(gvk)))
    try:
        decoded = decode_object(value, gvk, duplicates=duplicates)
    except DecodeError as error:
        why = _HANDLED.sub("", error.message, count=1)
        raise DecodeError(cannot_be_handled(gvk, expected.kind, why)) from None
    check_kind(gvk, expected)
    return decoded


def not_recognized(why: str, expected: GVK, data: bytes) -> DecodeError:
    """The error for a body of which not even the kind can be read."""
    text = f"the object provided is unrecognized (must be of type {expected.kind}): {why}"
    return DecodeError(f"{text} ({_summary(data)})")


def check_kind(gvk: GVK, expected: GVK) -> None:
    """Raise DecodeError for another kind, or another version of it, than the URL asks for.

    Options may come in any version.
    """
    if gvk.kind != expected.kind:
        types = f"({gvk.version}.{gvk.kind}) to ({_internal(expected)}.{expected.kind})"
        why = f"converting {types}: unknown conversion"
        raise DecodeError(cannot_be_handled(gvk, expected.kind, why))
    if gvk != expected and not gvk.kind.endswith("Options"):
        raise DecodeError(
            f"the API version in the data ({gvk.api_version}) does not match the expected API version "
            f"({expected.api_version})"
        )


def interpret(value: Any, default: GVK) -> GVK:
    """The kind that a parsed body names, completed from `default`. Raises DecodeError."""
    if value is None:
        return default
    if not isinstance(value, dict):
        raise DecodeError(f"{_PARSE}{kind_of(value)} into Go value of type {_HEAD}")
    api_version, kind = value.get("apiVersion"), value.get("kind")
    for name, item in (("apiVersion", api_version), ("kind", kind)):
        if item is not None and not isinstance(item, str):
            raise DecodeError(f"{_PARSE}{kind_of(item)} into Go struct field .{name} of type string")
    if api_version and api_version.count("/") > 1:
        raise DecodeError(f"unexpected GroupVersion string: {api_version}")
    if not api_version or api_version == "/":
        return GVK(default.group, default.version, kind or default.kind)
    return GVK.of(api_version, kind or default.kind)


def _internal(gvk: GVK) -> str:
    """The package of the server's internal type."""
    stem = gvk.group.partition(".")[0] or "core"
    return _SHARED_INTERNAL.get(stem, stem)


def _summary(data: bytes) -> str:
    if not data:
        return "<empty>"
    shown = data[:_SUMMARY]
    text = shown.decode("utf-8", "replace") if data[:1] == b"{" else shown.hex()
    return f"{text} ..." if len(data) > _SUMMARY else text
