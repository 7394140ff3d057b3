"""Collects field errors in the order of the API server."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from ..conversion import flatten_request
from ..errors import OMIT, FieldError
from ..schema import Message
from .go_json import go_json, message_at
from .names import too_long, too_many
from .order import declared_order

Item = TypeVar("Item")

_EXACTLY = re.compile(r"(\.devices\.requests\[\d+\])\.exactly\.")
_REQUEST = re.compile(r"\.devices\.requests\[\d+\]$")
_DEVICE = re.compile(r"^(spec\.devices\[\d+\])\.(?!name\b)")


class Findings:
    """Errors of one object.

    The server reports handwritten rules first and declarative ones after them, and for objects sent as
    v1beta1 only the declarative ones carry v1beta1 paths. So every rule says which kind it is
    (`declared=True` for declarative).
    """

    def __init__(self) -> None:
        self._written: list[FieldError] = []
        self._declared: list[FieldError] = []
        self._ignores_written = False

    @contextmanager
    def only_declared(self) -> Iterator[None]:
        """Ignore handwritten rules inside: where those have given up already, the declarative ones go on."""
        before, self._ignores_written = self._ignores_written, True
        try:
            yield
        finally:
            self._ignores_written = before

    def add(self, error: FieldError, *, declared: bool = False) -> None:
        """Keep one error."""
        self.extend([error], declared=declared)

    def extend(self, errors: Iterable[FieldError], *, declared: bool = False) -> None:
        """Keep several errors."""
        if declared:
            self._declared.extend(errors)
        elif not self._ignores_written:
            self._written.extend(errors)

    @property
    def count(self) -> int:
        """How many errors were found so far."""
        return len(self._written) + len(self._declared)

    def required(self, path: str, detail: str = "", *, declared: bool = False) -> None:
        """A value is missing."""
        self.add(FieldError("Required", path, detail), declared=declared)

    def invalid(self, path: str, value: Any, detail: str, *, declared: bool = False) -> None:
        """A value breaks a rule."""
        self.add(FieldError("Invalid", path, detail, value), declared=declared)

    def invalid_each(self, path: str, value: Any, details: Iterable[str], *, declared: bool = False) -> None:
        """A value breaks several rules."""
        for detail in details:
            self.invalid(path, value, detail, declared=declared)

    def forbidden(self, path: str, detail: str = "", *, declared: bool = False) -> None:
        """A value may not be set here."""
        self.add(FieldError("Forbidden", path, detail), declared=declared)

    def duplicate(self, path: str, value: Any = OMIT, *, declared: bool = False) -> None:
        """A value occurs twice."""
        self.add(FieldError("Duplicate", path, "", value), declared=declared)

    def not_found(self, path: str, value: Any, detail: str = "") -> None:
        """A value names something that does not exist."""
        self.add(FieldError("NotFound", path, detail, value))

    def longer(self, path: str, limit: int, unit: str = "bytes", *, declared: bool = False) -> None:
        """A value is longer than allowed."""
        self.add(too_long(path, limit, unit), declared=declared)

    def errors(self, api_version: str = "", message: Message | None = None) -> list[FieldError]:
        """All errors.

        `api_version` is the version in which the client sent the object, `message` its type there,
        by which declarative errors are sorted.
        """
        declared = self._declared
        if api_version.endswith("/v1beta1"):
            declared = [_as_beta1(error) for error in declared]
        if message is not None:
            declared = [_as_go_prints(error, message) for error in declared]
            declared = sorted(declared, key=declared_order(message))
        # The server keeps only the first of handwritten errors with one text.
        written: dict[str, FieldError] = {}
        for error in self._written:
            written.setdefault(str(error), error)
        return [*written.values(), *declared]


def _as_beta1(error: FieldError) -> FieldError:
    path = _DEVICE.sub(r"\1.basic.", _EXACTLY.sub(r"\1.", error.field))
    value = error.value
    if error.type == "Duplicate" and _REQUEST.search(path):
        value = dict(value)
        flatten_request(value)
    return FieldError(error.type, path, error.detail, value)


def _as_go_prints(error: FieldError, message: Message) -> FieldError:
    if error.type != "Duplicate" or not isinstance(error.value, Mapping):
        return error
    found = message_at(message, error.field)
    value = error.value if found is None else go_json(error.value, found)
    return FieldError(error.type, error.field, error.detail, value)


def check_list(
    found: Findings,
    items: Sequence[Item],
    limit: int,
    path: str,
    check: Callable[[Item, str], None],
    *,
    declared: bool,
) -> bool:
    """Check every item; more than `limit` items are only reported as such (and False is returned).

    A limit that is no declarative rule does not keep declarative rules from the items.
    """
    if len(items) > limit:
        found.add(too_many(path, len(items), limit), declared=declared)
        if not declared:
            with found.only_declared():
                for index, item in enumerate(items):
                    check(item, f"{path}[{index}]")
        return False
    for index, item in enumerate(items):
        check(item, f"{path}[{index}]")
    return True


def check_set(
    found: Findings,
    items: Sequence[Item],
    limit: int,
    path: str,
    check: Callable[[Item, str], None],
    key: Callable[[Item], Hashable],
    shown: Callable[[Item], Any],
    *,
    declared: bool,
) -> None:
    """Check every item and that keys are unique, unless there are more than `limit` items.

    Limit and uniqueness are both `declared` or both handwritten; declared uniqueness comes before the items.
    """
    if len(items) > limit:
        check_list(found, items, limit, path, check, declared=declared)
        return
    if declared:
        check_unique(found, items, path, key, shown, declared=True)
    check_list(found, items, limit, path, check, declared=declared)
    if not declared:
        check_unique(found, items, path, key, shown, declared=False)


def check_unique(
    found: Findings,
    items: Sequence[Item],
    path: str,
    key: Callable[[Item], Hashable],
    shown: Callable[[Item], Any],
    *,
    declared: bool,
) -> None:
    """Report the second and later items with the same key; `shown` is what the message prints."""
    seen: set[Hashable] = set()
    for index, item in enumerate(items):
        if (identity := key(item)) in seen:
            found.duplicate(f"{path}[{index}]", shown(item), declared=declared)
        seen.add(identity)
