"""Semantic versions (apiserver `pkg/cel/library/semverlib.go`)."""

from __future__ import annotations

from typing import Any, Final

from ...semver import Semver, SemverError
from .. import types
from ..call_costs import UNIT_EQUALITY
from ..declarations import Function, Overload, library
from ..errors import EvalError
from ..values import SEMVER

UNIT_EQUALITY.add(Semver)
_SHORT: Final = "short version cannot contain PreRelease/Build meta data"
_DIGITS: Final = frozenset("0123456789")
_LETTERS: Final = frozenset("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-")


def problem(text: str) -> str:
    """Why a string is no version, in the words of the parser that Kubernetes uses; empty when it is one."""
    if not text:
        return "Version string empty"
    parts = text.split(".", 2)
    if len(parts) != 3:
        return "No Major.Minor.Patch elements found"
    for name, part in (("major", parts[0]), ("minor", parts[1])):
        if not _DIGITS.issuperset(part):
            return f"Invalid character(s) found in {name} number {_quoted(part)}"
        if len(part) > 1 and part[0] == "0":
            return f"{name.capitalize()} number must not contain leading zeroes {_quoted(part)}"
        if (found := _unsigned(part)) is not None:
            return found
    return _patch_problem(parts[2])


def _patch_problem(text: str) -> str:
    patch, builds, prerelease = text, None, None
    if "+" in patch:
        patch, _, build_text = patch.partition("+")
        builds = build_text.split(".")
    if "-" in patch:
        patch, _, pre_text = patch.partition("-")
        prerelease = pre_text.split(".")
    if not _DIGITS.issuperset(patch):
        return f"Invalid character(s) found in patch number {_quoted(patch)}"
    if len(patch) > 1 and patch[0] == "0":
        return f"Patch number must not contain leading zeroes {_quoted(patch)}"
    if (found := _unsigned(patch)) is not None:
        return found
    for part in prerelease or ():
        if not part:
            return "Prerelease is empty"
        if _DIGITS.issuperset(part):
            if len(part) > 1 and part[0] == "0":
                return f"Numeric PreRelease version must not contain leading zeroes {_quoted(part)}"
            if (found := _unsigned(part)) is not None:
                return found
        elif not _LETTERS.issuperset(part):
            return f"Invalid character(s) found in prerelease {_quoted(part)}"
    for part in builds or ():
        if not part:
            return "Build meta data is empty"
        if not _LETTERS.issuperset(part):
            return f"Invalid character(s) found in build meta data {_quoted(part)}"
    return ""


def _unsigned(part: str) -> str | None:
    """What Go says about a number that is no uint64."""
    if not part:
        return 'strconv.ParseUint: parsing "": invalid syntax'
    if len(part) > 20 or int(part) >= 2**64:
        return f"strconv.ParseUint: parsing {_quoted(part)}: value out of range"
    return None


def _quoted(text: str) -> str:
    from .formatting import quote

    return quote(text)


def parse(text: str) -> Semver:
    """The version. Raises EvalError."""
    found = problem(text)
    if found:
        raise EvalError(found)
    try:
        return Semver.parse(text)
    except SemverError as error:
        raise EvalError(str(error)) from None


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
    return parse(_normalised(text) if normalise else text)


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
            Overload("string_to_semver", (types.STRING,), SEMVER, call=parse),
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
