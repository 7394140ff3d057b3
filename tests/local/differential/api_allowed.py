"""Differences between the servers that are allowed, each with its reason. At most 20; one that never occurs must go."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

MOST: Final = 20


@dataclass(frozen=True)
class Allowed:
    """A difference at a path (a pattern) of the comparable answer; `real` and `embedded` are patterns of its values."""

    name: str
    path: str
    reason: str
    real: str = ""
    embedded: str = ""
    operation: str = ""

    def covers(self, operation: dict[str, Any], path: str, real: str, embedded: str) -> bool:
        """Whether this is such a difference."""
        return (
            re.fullmatch(self.path, path) is not None
            and re.search(self.operation, f"{operation['op']} {operation['kind']}") is not None
            and re.search(self.real, real) is not None
            and re.search(self.embedded, embedded) is not None
        )


ALLOWED: Final[tuple[Allowed, ...]] = (
    Allowed(
        "column descriptions",
        r".*\.columnDefinitions\[\d+\]\.description",
        "the documents of Kubernetes' types are not repeated; no client interprets these texts",
    ),
    Allowed(
        "quoted patches",
        r"\.body\.(message|details\.causes\[\d+\]\.message)",
        "the error of a strict patch quotes the object, or what is left of the patch, as its library orders the keys",
        real=r"patch: Invalid value|^\"Invalid value: \\\"(\{|map\[)",
    ),
)
