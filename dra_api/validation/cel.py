"""Rules for CEL expressions of selectors and derived attributes."""

from __future__ import annotations

from ..errors import FieldError
from . import limits
from .names import byte_length, too_long

# What the parser expects at the start of an expression.
_EMPTY = (
    "compilation failed: ERROR: <input>:1:0: Syntax error: mismatched input '<EOF>' expecting "
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', "
    "NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | \n | ^"
)


def validate_cel(expression: str, path: str) -> list[FieldError]:
    """Check one expression: at most 10 KiB, not empty. Longer ones are not looked at further."""
    if byte_length(expression) > limits.EXPRESSION:
        return [too_long(path, limits.EXPRESSION)]
    if not expression.strip():
        return [FieldError("Invalid", path, _EMPTY, expression)]
    return []
