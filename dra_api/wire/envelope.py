"""What stands around messages: the envelope of objects, watch frames and delete options."""

from __future__ import annotations

import struct
from typing import Any, Final

from ..decode.bodies import check_kind, not_recognized
from ..decode.objects import Decoded, cannot_be_handled, not_registered
from ..decode.problems import DecodeError
from ..schema import GVK, Message, load
from .encode import JSONObject, delimited, encode_message
from .read import read_message, records

PREFIX: Final = b"k8s\x00"
"""The first bytes of every protobuf object."""

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"

_DELETE_OPTIONS: Final = GVK("meta.k8s.io", "v1", "DeleteOptions")
_STATUS: Final = GVK("", "v1", "Status")


def encode_object(obj: JSONObject) -> bytes:
    """An object or list of objects with its envelope. apiVersion and kind name its type.

    Raises ValueError for a kind without a wire form.
    """
    return _enveloped(obj, GVK.of(obj.get("apiVersion", ""), obj.get("kind", "")))


def encode_list(list_obj: JSONObject) -> bytes:
    """A list kind (`PodList`) with its envelope; its items need no kind of their own."""
    return encode_object(list_obj)


def encode_status(status: JSONObject) -> bytes:
    """A v1 Status with its envelope; kind and apiVersion may be absent."""
    return _enveloped(status, _STATUS)


def encode_watch_frame(event_type: str, obj: JSONObject) -> bytes:
    """One frame of a watch stream: length, then a WatchEvent whose object has an envelope of its own."""
    raw = delimited(b"\x0a", encode_object(obj))
    event = delimited(b"\x0a", event_type.encode()) + delimited(b"\x12", raw)
    return struct.pack(">I", len(event)) + event


def split_frames(buffer: bytes) -> tuple[list[bytes], bytes]:
    """The complete frames of a received piece of a watch stream without their lengths, and the unfinished rest."""
    frames = []
    at = 0
    while len(buffer) - at >= 4:
        (size,) = struct.unpack_from(">I", buffer, at)
        if len(buffer) - at - 4 < size:
            break
        frames.append(buffer[at + 4 : at + 4 + size])
        at += 4 + size
    return frames, buffer[at:]


def decode_watch_event(frame: bytes) -> tuple[str, JSONObject]:
    """Type and object of one frame without its length. Raises DecodeError."""
    event_type, raw = "", b""
    for number, _, _, content in records(frame):
        if number == 1:
            event_type = content.decode("utf-8", "replace")
        elif number == 2:
            raw = b"".join(part for field, _, _, part in records(content) if field == 1)
    return event_type, decode_object(raw, GVK("", "", ""))


def decode_object(data: bytes, default_gvk: GVK) -> JSONObject:
    """The object in an envelope, in the canonical form of `dra_api.decode`; its kind is completed from the default.

    Raises DecodeError, with the bare text of a real decoder.
    """
    gvk, raw = _opened(data, default_gvk)
    message = load().kind(gvk)
    if message is None:
        raise DecodeError(not_registered(gvk))
    return _typed(read_message(raw, message), gvk, message)


def decode_body(data: bytes, expected: GVK) -> Decoded:
    """The object of a protobuf request body; the counterpart of `dra_api.decode.decode_body`.

    Raises DecodeError with the message of the real server's 400 answer.
    """
    try:
        gvk, raw = _opened(data, expected)
    except DecodeError as error:
        raise not_recognized(error.message, expected, data) from None
    message = load().kind(gvk)
    if message is None:
        raise DecodeError(cannot_be_handled(gvk, expected.kind, not_registered(gvk)))
    try:
        body = read_message(raw, message)
    except DecodeError as error:
        raise DecodeError(cannot_be_handled(gvk, expected.kind, error.message)) from None
    check_kind(gvk, expected)
    return Decoded(_typed(body, gvk, message), gvk)


def decode_options(data: bytes) -> JSONObject:
    """Delete options of whatever API version; an empty body has none. Raises DecodeError."""
    return decode_object(data, _DELETE_OPTIONS) if data else {}


def _enveloped(obj: JSONObject, gvk: GVK) -> bytes:
    message = load().kind(gvk)
    if message is None:
        raise ValueError(f"no protobuf form for kind {gvk.kind!r} of {gvk.api_version!r}")
    names = delimited(b"\x0a", gvk.api_version.encode()) + delimited(b"\x12", gvk.kind.encode())
    raw = encode_message(obj, message)
    # Real servers end with two empty strings, content encoding and content type.
    return PREFIX + delimited(b"\x0a", names) + delimited(b"\x12", raw) + b"\x1a\x00\x22\x00"


def _opened(data: bytes, default: GVK) -> tuple[GVK, bytes]:
    if not data:
        raise DecodeError("empty data")
    if not data.startswith(PREFIX):
        shown = f"[{' '.join(str(byte) for byte in PREFIX)}]"
        text = "provided data does not appear to be a protobuf message, expected prefix"
        raise DecodeError(f"{text} {shown}")
    if len(data) == len(PREFIX):
        raise DecodeError("empty body")
    names = raw = b""
    for number, _, _, content in records(data[len(PREFIX) :]):
        if number == 1:
            names = content
        elif number == 2:
            raw = content
    found = {number: content.decode("utf-8", "replace") for number, _, _, content in records(names)}
    kind = found.get(2) or default.kind
    api_version = found.get(1, "")
    return GVK.of(api_version, kind) if api_version else GVK(default.group, default.version, kind), raw


def _typed(body: JSONObject, gvk: GVK, message: Message) -> JSONObject:
    if "apiVersion" not in message.fields:
        return body
    typed: dict[str, Any] = {"kind": gvk.kind, "apiVersion": gvk.api_version}
    return typed | body
