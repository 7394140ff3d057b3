"""Semantic versions 2.0.0 of DRA attributes and CEL: strict; build metadata do not count."""

from __future__ import annotations

from functools import total_ordering
from typing import Final

import semver

_MAX_NUMBER: Final = 2**64 - 1


class SemverError(ValueError):
    """A string that is no semantic version."""


def is_valid(text: str) -> bool:
    """Whether the API server accepts the string as a version (of any length and with numbers of any size)."""
    # The package's pattern lets a final newline and digits of other scripts pass.
    return text.isascii() and not text.endswith("\n") and semver.Version.is_valid(text)


@total_ordering
class Semver:
    """One version. Order and equality follow SemVer 2.0.0, so they ignore build metadata."""

    __slots__ = ("_version",)

    def __init__(self, version: semver.Version) -> None:
        self._version = version

    @classmethod
    def parse(cls, text: str) -> Semver:
        """Read a version such as `1.2.3-rc.1+build.5`.

        Raises SemverError for anything else, such as `v1.2.3`, `1.2` and `01.2.3`, and for numbers above
        2**64-1, which the API server accepts in an attribute but CEL cannot read.
        """
        if not is_valid(text):
            raise SemverError(
                f"{text!r} is no semantic version: write MAJOR.MINOR.PATCH without v and leading zeros"
            )
        version = semver.Version.parse(text)
        numbers = [version.major, version.minor, version.patch]
        numbers += [int(part) for part in (version.prerelease or "").split(".") if part.isdigit()]
        if max(numbers) > _MAX_NUMBER:
            raise SemverError(f"{text!r} has a number above {_MAX_NUMBER}")
        return cls(version)

    @classmethod
    def parse_relaxed(cls, text: str) -> Semver:
        """Read a version after CEL's normalisation: `v` removed, missing parts 0, leading zeros removed.

        Raises SemverError. A short version must not have a pre-release or build metadata.
        """
        parts = [_without_zeros(part) for part in text.removeprefix("v").split(".", 2)]
        if len(parts) < 3:
            if "+" in parts[-1] or "-" in parts[-1]:
                raise SemverError(f"{text!r}: a short version cannot contain pre-release or build metadata")
            parts += ["0"] * (3 - len(parts))
        return cls.parse(".".join(parts))

    @property
    def major(self) -> int:
        """First number."""
        return self._version.major

    @property
    def minor(self) -> int:
        """Second number."""
        return self._version.minor

    @property
    def patch(self) -> int:
        """Third number."""
        return self._version.patch

    def compare(self, other: Semver) -> int:
        """-1, 0 or 1 by precedence."""
        mine, theirs = self._version, other._version
        if mine.prerelease is None and theirs.prerelease is None:
            one, two = (mine.major, mine.minor, mine.patch), (theirs.major, theirs.minor, theirs.patch)
            return (one > two) - (one < two)
        return mine.compare(theirs)

    def __eq__(self, other: object) -> bool:
        return self.compare(other) == 0 if isinstance(other, Semver) else NotImplemented

    def __lt__(self, other: Semver) -> bool:
        return self.compare(other) < 0

    def __hash__(self) -> int:
        version = self._version
        return hash((version.major, version.minor, version.patch, version.prerelease))

    def __str__(self) -> str:
        return str(self._version)

    def __repr__(self) -> str:
        return f"Semver({str(self)!r})"


def _without_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    stripped = part.lstrip("0")
    return stripped if stripped[:1].isdigit() else "0" + stripped
