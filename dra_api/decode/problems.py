"""Why a body or a manifest cannot be read."""

from __future__ import annotations

from typing import Literal, NamedTuple

from ..schema import Message


class DecodeError(ValueError):
    """A body that is no API object; `message` is what the API server puts in its 400 answer."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        self.at = ""
        """The index or key inside a list or map, such as `[1]`, where the walk knows it."""


class TypeMismatchError(ValueError):
    """A JSON value of the wrong type. The walk adds where it stands (Go's UnmarshalTypeError).

    `found` names the value (`number`, `number 1.5`, `string`, `array`, ...), `wanted` the Go type. A `final`
    one ends the decoding at once, others are kept until the whole body has been read.
    """

    def __init__(self, found: str, wanted: str, *, final: bool = False) -> None:
        super().__init__(f"json: cannot unmarshal {found} into Go value of type {wanted}")
        self.found = found
        self.wanted = wanted
        self.final = final
        self.at = ""


class Fault(NamedTuple):
    """Something wrong at one place of a body, for readers who want all of it."""

    kind: Literal["unknown", "duplicate", "type", "value"]
    path: str
    """Such as `spec.containers[0].image`."""
    message: Message
    """The struct in which the field stands."""
    name: str
    detail: str = ""
    """For kind type the Go name of what was found, for kind value the reason."""
