"""Semantic versions (apiserver `pkg/cel/library/semverlib.go`)."""

from __future__ import annotations

from typing import Any, Final

from ...semver import Semver
from .. import types
from ..call_costs import UNIT_EQUALITY
from ..declarations import Function, Overload, library
from ..errors import EvalError
from ..values import SEMVER
from ..versions import version

UNIT_EQUALITY.add(Semver)
_SHORT: Final = "short version cannot contain PreRelease/Build meta data"
_DIGITS: Final = frozenset("0123456789")


def _normalised(text: str) -> str:
    parts = text.removeprefix("v").split(".", 2)
    for position, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[position] = stripped if stripped[:1] and stripped[0] in _DIGITS else "0" + stripped
    if len(parts) < 3:
        if any(char in "+-" for char in parts[-1]):
            raise EvalError(_SHORT)
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _parse(text: str, normalise: bool) -> Semver:
    return version(_normalised(text) if normalise else text)


def _is_semver(text: str, normalise: bool = False) -> bool:
    try:
        _parse(text, normalise)
    except EvalError:
        return False
    return True


def _member(name: str, id: str, result: types.Type, call: Any, *others: types.Type) -> Function:
    return Function(name, (Overload(id, (SEMVER, *others), result, member=True, call=call),))


def _number(number: int) -> int:
    # Upstream's conversion wraps numbers above 2**63-1.
    return number - 2**64 if number >= 2**63 else number


SEMVERS: Final = library(
    Function(
        "semver",
        (
            Overload("string_to_semver", (types.STRING,), SEMVER, call=version),
            Overload("string_bool_to_semver", (types.STRING, types.BOOL), SEMVER, call=_parse),
        ),
    ),
    Function(
        "isSemver",
        (
            Overload("is_semver_string", (types.STRING,), types.BOOL, call=_is_semver),
            Overload("is_semver_string_bool", (types.STRING, types.BOOL), types.BOOL, call=_is_semver),
        ),
    ),
    _member("isGreaterThan", "semver_is_greater_than", types.BOOL, lambda a, b: a.compare(b) > 0, SEMVER),
    _member("isLessThan", "semver_is_less_than", types.BOOL, lambda a, b: a.compare(b) < 0, SEMVER),
    _member("compareTo", "semver_compare_to", types.INT, lambda a, b: a.compare(b), SEMVER),
    _member("major", "semver_major", types.INT, lambda value: _number(value.major)),
    _member("minor", "semver_minor", types.INT, lambda value: _number(value.minor)),
    _member("patch", "semver_patch", types.INT, lambda value: _number(value.patch)),
)
"""Functions of versions."""
