"""JSON bodies, read so that Go's rules on duplicates and numbers can be followed afterwards."""

from __future__ import annotations

import json
from typing import Any, Final, NoReturn

from .json_syntax import syntax_error
from .problems import DecodeError

# A YAML answer takes about three of Python's 1000 stack frames for each level; Go allows 10,000 levels.
_MAX_KEPT_DEPTH: Final = 200
_FAILED: Final = "couldn't get version/kind; json parse error: "


class Repeated(dict[str, Any]):
    """An object in which a name stands more than once; as a dict it holds the last value of each name."""

    pairs: list[tuple[str, Any]]
    """All members in document order."""


class RawFloat(float):
    """A number that is no plain integer, with its spelling (quantities and error texts need it)."""

    text: str

    def __new__(cls, text: str) -> RawFloat:
        """From JSON text such as `1.50`."""
        self = super().__new__(cls, text)
        self.text = text
        return self


def parse_json(data: bytes) -> Any:
    """The document; objects with repeated names are `Repeated`, fractional numbers `RawFloat`.

    Raises DecodeError with the text of a real server.
    """
    text = data.decode("utf-8", "replace")
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError):
        raise DecodeError(_FAILED + syntax_error(data)) from None
    return _without_surrogates(value) if "\\ud" in text or "\\uD" in text else value


def decode_json(data: bytes) -> tuple[Any, list[str]]:
    """The document and its duplicates, such as `duplicate field "data.a"`; the last one wins.

    The duplicates inside opaque parts of an object are listed too; `decode_object` finds those which a server
    reports in the value itself.
    """
    value = parse_json(data)
    found: list[str] = []
    _collect(value, "", found)
    return value, found


def plain(value: Any, depth: int = 0) -> Any:
    """A parsed value without the marks of the parser, for parts that are kept as they are.

    Raises DecodeError for deep nesting: what is kept must be printable in every form.
    """
    if depth > _MAX_KEPT_DEPTH:
        raise DecodeError("exceeded max depth")
    if isinstance(value, dict):
        return {name: plain(item, depth + 1) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item, depth + 1) for item in value]
    return float(value) if type(value) is RawFloat else value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) == len(pairs):
        return result
    repeated = Repeated(result)
    repeated.pairs = pairs
    return repeated


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object, parse_float=RawFloat, parse_constant=_refuse)


def _without_surrogates(value: Any) -> Any:
    """Half surrogate pairs become the replacement character, as in Go."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        pairs = value.pairs if isinstance(value, Repeated) else value.items()
        return _object([(_without_surrogates(name), _without_surrogates(item)) for name, item in pairs])
    return value


def _collect(value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, list):
        for index, item in enumerate(value):
            _collect(item, f"{path}[{index}]", found)
    elif isinstance(value, dict):
        seen: set[str] = set()
        prefix = f"{path}." if path else ""
        for name, item in value.pairs if isinstance(value, Repeated) else value.items():
            if name in seen:
                found.append(f'duplicate field "{prefix}{name}"')
            seen.add(name)
            _collect(item, prefix + name, found)
