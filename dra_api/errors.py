"""Field errors as the Kubernetes API words them (apimachinery field.Error; api-machinery section 12)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

OMIT: Final = object()
"""Marks an error that prints no value, such as Required or Forbidden."""

_REASONS: Final = {
    "Required": "FieldValueRequired",
    "Invalid": "FieldValueInvalid",
    "Duplicate": "FieldValueDuplicate",
    "NotSupported": "FieldValueNotSupported",
    "Forbidden": "FieldValueForbidden",
    "TooLong": "FieldValueTooLong",
    "TooMany": "FieldValueTooMany",
    "TooShort": "FieldValueTooShort",
    "NotFound": "FieldValueNotFound",
    "TypeInvalid": "FieldValueTypeInvalid",
    "Internal": "InternalError",
}
_WORDS: Final = {
    "Required": "Required value",
    "Invalid": "Invalid value",
    "Duplicate": "Duplicate value",
    "NotSupported": "Unsupported value",
    "Forbidden": "Forbidden",
    "TooLong": "Too long",
    "TooMany": "Too many",
    "TooShort": "Too short",
    "NotFound": "Not found",
    "TypeInvalid": "Invalid value",
    "Internal": "Internal error",
}
_WITHOUT_VALUE: Final = {"Required", "Forbidden", "TooLong", "TooShort", "Internal"}


@dataclass(frozen=True)
class FieldError:
    """One problem of one field.

    `type` is a key of the Kubernetes error vocabulary (Required, Invalid, Duplicate, NotSupported, Forbidden,
    TooLong, TooShort, TooMany, NotFound, TypeInvalid, Internal), `field` the path as `spec.devices[0].name`.
    """

    type: str
    field: str
    detail: str = ""
    value: Any = OMIT

    @property
    def reason(self) -> str:
        """The reason of the Status cause, such as FieldValueInvalid."""
        return _REASONS[self.type]

    @property
    def message(self) -> str:
        """The text of the Status cause, without the field."""
        text = _WORDS[self.type]
        if self.type not in _WITHOUT_VALUE and self.value is not OMIT:
            text += ": " + _shown(self.value)
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def _shown(value: Any) -> str:
    """A value as Go's JSON: a struct with what HTML would read escaped, a string without."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return escaped(text) if isinstance(value, dict | list) else text


def escaped(text: str) -> str:
    """JSON as Go writes it: what HTML would read is escaped."""
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def aggregate(errors: Iterable[FieldError]) -> str:
    """All errors in one line, in brackets when there are several."""
    texts = list(dict.fromkeys(str(error) for error in errors))
    return texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
