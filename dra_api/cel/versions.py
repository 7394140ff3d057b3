"""Reading semantic versions with the error texts of the parser that Kubernetes uses (blang/semver)."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from ..semver import Semver, SemverError
from .errors import EvalError
from .gotext import quote

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
            return f"Invalid character(s) found in {name} number {quote(part)}"
        if len(part) > 1 and part[0] == "0":
            return f"{name.capitalize()} number must not contain leading zeroes {quote(part)}"
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
        return f"Invalid character(s) found in patch number {quote(patch)}"
    if len(patch) > 1 and patch[0] == "0":
        return f"Patch number must not contain leading zeroes {quote(patch)}"
    if (found := _unsigned(patch)) is not None:
        return found
    for part in prerelease or ():
        if not part:
            return "Prerelease is empty"
        if _DIGITS.issuperset(part):
            if len(part) > 1 and part[0] == "0":
                return f"Numeric PreRelease version must not contain leading zeroes {quote(part)}"
            if (found := _unsigned(part)) is not None:
                return found
        elif not _LETTERS.issuperset(part):
            return f"Invalid character(s) found in prerelease {quote(part)}"
    for part in builds or ():
        if not part:
            return "Build meta data is empty"
        if not _LETTERS.issuperset(part):
            return f"Invalid character(s) found in build meta data {quote(part)}"
    return ""


def _unsigned(part: str) -> str | None:
    """What Go says about a number that is no uint64."""
    if not part:
        return 'strconv.ParseUint: parsing "": invalid syntax'
    if len(part) > 20 or int(part) >= 2**64:
        return f"strconv.ParseUint: parsing {quote(part)}: value out of range"
    return None


@lru_cache(maxsize=1024)
def version(text: str) -> Semver:
    """The version. Raises EvalError."""
    found = problem(text)
    if found:
        raise EvalError(found)
    try:
        return Semver.parse(text)
    except SemverError as error:
        raise EvalError(str(error)) from None
