"""Values as Go's %v prints them, for errors that quote a patch."""

from __future__ import annotations

from typing import Any


def go_text(value: Any) -> str:
    """`map[a:1 b:[x y]]`: map keys sorted, strings bare, null as `<nil>`."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{go_text(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(go_text(item) for item in value) + "]"
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def go_type(value: Any) -> str:
    """The Go type of a decoded JSON value."""
    if isinstance(value, dict):
        return "map[string]interface {}"
    if isinstance(value, list):
        return "[]interface {}"
    if value is None:
        return "%!s(<nil>)"
    if isinstance(value, bool):
        return "bool"
    return "string" if isinstance(value, str) else "int64" if isinstance(value, int) else "float64"
