"""Which form a request body has and which one the answer takes (api-machinery section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from clusters.api_status import ApiError

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
MEDIA_TYPES: Final = (JSON, YAML, PROTOBUF)
_LIST_TEXT: Final = ", ".join(MEDIA_TYPES)
_META_VERSIONS: Final = ("v1", "v1beta1")


class Clause(NamedTuple):
    """One clause of an Accept header."""

    media_type: str
    parameters: Mapping[str, str]
    quality: float


@dataclass(frozen=True)
class Negotiated:
    """The form of an answer: media type, and the kind it is transformed to ("" or Table, Partial...)."""

    media_type: str
    transform: str = ""
    version: str = "v1"


class Allowed(NamedTuple):
    """What one endpoint can answer with."""

    transforms: tuple[str, ...] = ()
    stream: bool = False


OBJECT: Final = Allowed(("Table", "PartialObjectMetadata"))
LIST: Final = Allowed(("Table", "PartialObjectMetadataList"))
WATCH: Final = Allowed(("Table", "PartialObjectMetadata"), stream=True)
PLAIN: Final = Allowed()
NO_TABLE: Final = Allowed(("PartialObjectMetadata",))


def clauses(header: str) -> list[Clause]:
    """The clauses of an Accept header in the client's order of preference; malformed ones are left out."""
    found: list[Clause] = []
    for text in header.split(","):
        head, *rest = (part.strip() for part in text.split(";"))
        if not head:
            continue
        parameters: dict[str, str] = {}
        for part in rest:
            key, _, value = part.partition("=")
            parameters[key.strip().lower()] = value.strip().strip('"')
        try:
            quality = float(parameters.pop("q", "1"))
        except ValueError:
            quality = 0.0
        found.append(Clause(head.lower(), parameters, quality))
    return sorted(found, key=lambda clause: -clause.quality)


def not_acceptable(allowed: Allowed) -> ApiError:
    """406 with the list of forms that exist."""
    names = list(MEDIA_TYPES)
    if allowed.stream:
        names += [f"{name};stream=watch" for name in MEDIA_TYPES]
    text = ", ".join(names)
    message = f"406: Not Acceptable\n\nAvailable representations: {text}"
    return ApiError(406, "NotAcceptable", message, {})


def negotiate(header: str | None, allowed: Allowed = PLAIN) -> Negotiated:
    """The form of the answer for an Accept header; raises ApiError 406."""
    if not header or not header.strip():
        return Negotiated(JSON)
    refused_table = False
    for clause in clauses(header):
        if clause.quality <= 0:
            continue
        media_type = JSON if clause.media_type == "*/*" else clause.media_type
        if media_type not in MEDIA_TYPES:
            continue
        transform = clause.parameters.get("as", "")
        if not transform:
            return Negotiated(media_type)
        version = clause.parameters.get("v", "v1")
        if clause.parameters.get("g", "meta.k8s.io") != "meta.k8s.io" or version not in _META_VERSIONS:
            continue
        if transform == "Table" and ("Table" not in allowed.transforms or media_type == PROTOBUF):
            refused_table = True
            continue
        if transform not in allowed.transforms:
            continue
        return Negotiated(media_type, transform, version)
    if refused_table:
        message = f"only the following media types are accepted: {_LIST_TEXT}"
        raise ApiError(406, "NotAcceptable", message)
    raise not_acceptable(allowed)


def error_form(header: str | None) -> str:
    """The media type of an error: what the client prefers of clauses without `as`, else JSON."""
    try:
        return negotiate(header).media_type
    except ApiError:
        return JSON


def body_type(content_type: str | None) -> str:
    """The media type of a request body; no header means JSON. Raises ApiError 415."""
    if not content_type:
        return JSON
    media_type = content_type.split(";")[0].strip().lower()
    if media_type in MEDIA_TYPES:
        return media_type
    message = f"the body of the request was in an unknown format - accepted media types include: {_LIST_TEXT}"
    raise ApiError(415, "UnsupportedMediaType", message)
