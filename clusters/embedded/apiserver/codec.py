"""Bodies of requests as objects, objects as bodies of answers (api-machinery sections 3, 5, 6)."""

from __future__ import annotations

import json
from typing import Any

import yaml

from clusters.api_status import bad_request
from clusters.embedded.apiserver import negotiation
from clusters.embedded.apiserver.changes import Change
from clusters.embedded.apiserver.storage import Object
from dra_api import decode, wire
from dra_api.schema import GVK


def dump_json(value: Any, *, pretty: bool = False) -> bytes:
    """JSON of an answer: one compact line, or indented by two."""
    if pretty:
        return json.dumps(value, ensure_ascii=False, indent=2).encode() + b"\n"
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def encode_changed(change: Change, obj: Object, api_version: str) -> bytes:
    """The JSON of an object of a change in one version, as encode gives it; made once for all who show it."""
    key = ("json", api_version, obj is change.object)
    data = change.encoded.get(key)
    if data is None:
        data = change.encoded[key] = dump_json(obj)
    return data


def encode(value: Object, media_type: str, *, pretty: bool = False) -> bytes:
    """An object, a list or a Status in the form of an answer."""
    if media_type == negotiation.PROTOBUF:
        kind = value.get("kind", "")
        if kind == "Status":
            return wire.encode_status(value)
        if kind.endswith("List") and "items" in value:
            return wire.encode_list(value)
        return wire.encode_object(value)
    if media_type == negotiation.YAML:
        return yaml.safe_dump(value, sort_keys=True, allow_unicode=True, default_flow_style=False).encode()
    return dump_json(value, pretty=pretty)


def _report(decoded: decode.Decoded, validation: str, warnings: list[str] | None) -> Object:
    """The object, after what a strict reader holds against it became an error or warnings."""
    findings, gvk = decoded.strict, decoded.gvk
    if findings and validation == "Strict":
        text = "strict decoding error: " + ", ".join(findings)
        raise bad_request(f'{gvk.kind} in version "{gvk.version}" cannot be handled as a {gvk.kind}: {text}')
    if findings and validation == "Warn" and warnings is not None:
        warnings.extend(findings)
    return decoded.object


def decode_body(
    data: bytes,
    media_type: str,
    expected: GVK,
    *,
    validation: str = "Warn",
    warnings: list[str] | None = None,
) -> Object:
    """A request body as an object of the expected kind, in canonical form; raises ApiError 400.

    `validation` is Strict, Warn or Ignore; with Warn the findings go to `warnings`.
    """
    try:
        if media_type == negotiation.PROTOBUF:
            return wire.decode_body(data, expected).object
        decoded = decode.decode_body(data, expected, yaml=media_type == negotiation.YAML)
    except decode.DecodeError as error:
        raise bad_request(error.message) from error
    return _report(decoded, validation, warnings)


def canonical(
    value: Any, expected: GVK, *, validation: str = "Warn", warnings: list[str] | None = None
) -> Object:
    """A JSON value as an object of the expected kind in canonical form; see decode_body."""
    try:
        decoded = decode.decode_object(value, expected)
    except decode.DecodeError as error:
        raise bad_request(error.message) from error
    return _report(decoded, validation, warnings)


def decode_options(data: bytes, media_type: str, expected: GVK) -> Object:
    """An options body, whose version may be that of any group; raises ApiError 400 for another kind."""
    try:
        if media_type == negotiation.PROTOBUF:
            return wire.decode_options(data)
        value, _ = decode.decode_yaml(data) if media_type == negotiation.YAML else decode.decode_json(data)
        given = decode.interpret(value, expected)
        if given.kind == expected.kind and isinstance(value, dict):
            value = {**value, "apiVersion": expected.api_version}
        return decode.decode_body(dump_json(value), expected).object
    except decode.DecodeError as error:
        raise bad_request(error.message) from error
