"""The protobuf form of API objects, which Go clients prefer (api-machinery section 3).

Everything is written on the field numbers of `dra_api.schema`; there are no generated classes. Decoding yields the
canonical objects of `dra_api.decode`.
"""

from __future__ import annotations

from .encode import encode_message
from .envelope import (
    MEDIA_TYPE,
    PREFIX,
    decode_body,
    decode_object,
    decode_options,
    decode_watch_event,
    encode_list,
    encode_object,
    encode_status,
    encode_watch_frame,
    split_frames,
)
from .read import read_message

__all__ = [
    "MEDIA_TYPE",
    "PREFIX",
    "decode_body",
    "decode_object",
    "decode_options",
    "decode_watch_event",
    "encode_list",
    "encode_message",
    "encode_object",
    "encode_status",
    "encode_watch_frame",
    "read_message",
    "split_frames",
]
