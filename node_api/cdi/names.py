"""Names in CDI: vendor, class, device, fully qualified names, and the library's texts about them."""

from __future__ import annotations

import json

_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_ALPHANUMERIC = _LETTERS | frozenset("0123456789")
_IN_KIND = _ALPHANUMERIC | frozenset("_-.")
_IN_DEVICE = _IN_KIND | frozenset(":")


def quote(text: str) -> str:
    """Return the text in double quotes as the library's messages show it."""
    return json.dumps(text, ensure_ascii=False)


def split_kind(kind: str) -> tuple[str, str]:
    """Split "vendor/class" at the first slash; ("", kind) if a part is missing."""
    vendor, slash, class_name = kind.partition("/")
    return (vendor, class_name) if vendor and slash and class_name else ("", kind)


def _kind_part_problem(name: str) -> str | None:
    if not name:
        return "empty name"
    if name[0] not in _LETTERS:
        return f"{quote(name)}, should start with letter"
    for character in name[1:-1]:
        if character not in _IN_KIND:
            return f"invalid character '{character}' in name {quote(name)}"
    if name[-1] not in _ALPHANUMERIC:
        return f"{quote(name)}, should end with a letter or digit"
    return None


def vendor_problem(vendor: str) -> str | None:
    """Return what is wrong with the vendor, None if nothing."""
    problem = _kind_part_problem(vendor)
    return problem and f"invalid vendor. {problem}"


def class_problem(class_name: str) -> str | None:
    """Return what is wrong with the class, None if nothing."""
    problem = _kind_part_problem(class_name)
    return problem and f"invalid class. {problem}"


def device_name_problem(name: str) -> str | None:
    """Return what is wrong with the device name, None if nothing.

    The word "class" in the second text is how the library says it.
    """
    if not name:
        return "invalid (empty) device name"
    if name[0] not in _ALPHANUMERIC:
        return f"invalid class {quote(name)}, should start with a letter or digit"
    for character in name[1:-1]:
        if character not in _IN_DEVICE:
            return f"invalid character '{character}' in device name {quote(name)}"
    if name[-1] not in _ALPHANUMERIC:
        return f"invalid name {quote(name)}, should end with a letter or digit"
    return None


def qualified_name_problem(device_id: str) -> str | None:
    """Return what is wrong with a fully qualified name "vendor/class=name", None if nothing."""
    kind, _, name = device_id.partition("=")
    vendor, slash, class_name = kind.partition("/")
    if not (vendor and slash and class_name and name):
        return f"unqualified device {quote(device_id)}, missing vendor"
    problem = vendor_problem(vendor) or class_problem(class_name) or device_name_problem(name)
    return problem and f"invalid device {quote(device_id)}: {problem}"
