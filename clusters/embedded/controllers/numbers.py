"""Numbers that may be percentages."""

from __future__ import annotations


def scaled(value: int | str | None, total: int, *, up: bool) -> int:
    """An IntOrString as a number of `total`: percentages are rounded up or down, absent is 0. Raises ValueError."""
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    percent = int(value.removesuffix("%"))
    return -(-percent * total // 100) if up else percent * total // 100
