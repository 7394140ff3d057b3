"""Strings from hardware and kernel as attributes that the API server accepts."""

from __future__ import annotations

import re
from typing import Any, Final

from dra_api.semver import is_valid

MAX_BYTES: Final = 64
"""Longest string or version of an attribute, in bytes of UTF-8 (api-validation: limits)."""

_LOOSE: Final = re.compile(
    r"[vV]?(\d{1,18})(?:\.(\d{1,18}))?(?:\.(\d{1,18}))?(?:[.+-]([0-9A-Za-z.+-]+))?\Z", re.ASCII
)


def cut(text: str, limit: int = MAX_BYTES) -> str:
    """The longest beginning of a text that fits in `limit` bytes of UTF-8, without half a character."""
    return text.encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")


def string_attribute(text: str | None) -> dict[str, Any] | None:
    """A string attribute, cut to the limit; None (leave it out) when nothing is left."""
    value = cut((text or "").strip())
    return {"string": value} if value else None


def version_attribute(text: str | None) -> dict[str, Any] | None:
    """A version attribute, normalised to SemVer where that keeps the numbers; a string otherwise.

    "535.104.05" -> 535.104.5, "v1.2" -> 1.2.0, "6.19.14.314" -> 6.19.14+314 (further parts do not take part
    in comparisons). None when the text is empty.
    """
    value = (text or "").strip()
    if is_valid(value) and len(value.encode()) <= MAX_BYTES:
        return {"version": value}
    if match := _LOOSE.match(value):
        major, minor, patch, rest = match.groups()
        version = f"{int(major)}.{int(minor or 0)}.{int(patch or 0)}"
        build = re.sub(r"[^0-9A-Za-z-]+", ".", rest or "").strip(".")
        full = f"{version}+{build}" if build else version
        if is_valid(full) and len(full) <= MAX_BYTES:
            return {"version": full}
    return string_attribute(value)
