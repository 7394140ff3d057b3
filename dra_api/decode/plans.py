"""What decoding needs to know about a message, worked out once per message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from ..schema import Field, Message
from . import values
from .json_text import plain
from .problems import TypeMismatchError

JSONObject = dict[str, Any]
Scalar = Callable[[Any, str], Any]

_STRUCTS: Final = frozenset(("quantity", "time", "microtime", "intorstring", "raw", "fieldsv1", "message"))
"""Types that omitempty never hides, because Go holds them in structs."""
_ZEROS: Final[dict[str, Any]] = {
    "string": "",
    "bool": False,
    "int32": 0,
    "int64": 0,
    "quantity": "0",
    "intorstring": 0,
}


class Rule(NamedTuple):
    """How one field is read and printed."""

    field: Field
    go_names: tuple[str, ...]
    """The name as Go's type errors show it, with the inlined structs on the way."""
    scalar: Scalar
    """Reads one value (or item, or map value) of a type other than message; takes the wanted Go type too."""
    wanted: str
    """The Go type of one value."""
    absent: Callable[[], Any] | None
    """What is printed when the field is not set; None: nothing."""
    hides_empty: bool
    """Whether JSON leaves out an empty value, as Go's omitempty says."""


class Plan(NamedTuple):
    """A message with its rules by JSON name, in the order of the Go struct."""

    message: Message
    rules: dict[str, Rule]


def plan_of(message: Message) -> Plan:
    """The plan of a message; cached by name."""
    found = _PLANS.get(message.name)
    if found is None:
        found = _PLANS[message.name] = Plan(message, _rules(message, ()))
    return found


def zero_object(message: Message) -> JSONObject:
    """A struct that nobody has set: what a server prints nevertheless, such as `{"containers": None}`."""
    return {name: rule.absent() for name, rule in plan_of(message).rules.items() if rule.absent is not None}


def zero_element(field: Field) -> Any:
    """What null is as an item of a list or as a map value."""
    if field.type == "message":
        return zero_object(field.message)
    return "" if field.type == "bytes" else _ZEROS.get(field.type)


def complete(plan: Plan, found: JSONObject) -> JSONObject:
    """The found values in Go's order, without optional zero ones, with what is always printed.

    Empty lists and maps stay as they are found.
    """
    result: JSONObject = {}
    for name, rule in plan.rules.items():
        if name not in found:
            if rule.absent is not None:
                result[name] = rule.absent()
            continue
        value = found[name]
        if value is None and not rule.field.pointer:
            # A zero time counts as not set.
            if rule.absent is not None:
                result[name] = None
        elif value or not rule.hides_empty or rule.field.shape != "one":
            result[name] = value
    return result


def _rules(message: Message, stack: tuple[str, ...]) -> dict[str, Rule]:
    result: dict[str, Rule] = {}
    for member in message.members:
        names = (*stack, member.name)
        if member.inline:
            result.update(_rules(member.message, names))
        else:
            result[member.name] = _rule(member, names)
    return result


def _rule(field: Field, go_names: tuple[str, ...]) -> Rule:
    one = field.shape == "one"
    held_as_struct = one and field.type in _STRUCTS and not field.pointer
    printed = not field.omitempty or (held_as_struct and not field.omitzero)
    wanted = field.go_type
    if not one:
        wanted = wanted[2:] if wanted.startswith("[]") else wanted.partition("]")[2]
    return Rule(
        field=field,
        go_names=go_names,
        scalar=_scalar(field),
        wanted=wanted,
        absent=_absent(field, one) if printed else None,
        hides_empty=field.omitempty and not held_as_struct and not (field.pointer and one),
    )


def _absent(field: Field, one: bool) -> Callable[[], Any]:
    if not one or field.pointer:
        return lambda: None
    if field.type == "message":
        return lambda: zero_object(field.message)
    zero = _ZEROS.get(field.type)
    return lambda: zero


def _string(value: Any, wanted: str) -> str:
    if not isinstance(value, str):
        raise TypeMismatchError(values.kind_of(value), wanted)
    return value


def _bool(value: Any, wanted: str) -> bool:
    if not isinstance(value, bool):
        raise TypeMismatchError(values.kind_of(value), wanted)
    return value


def _strings(value: Any, wanted: str) -> list[str]:
    if not isinstance(value, list):
        raise TypeMismatchError(values.kind_of(value), wanted)
    return ["" if item is None else _string(item, "string") for item in value]


def _scalar(field: Field) -> Scalar:
    if field.type == "quantity" and (field.pointer or field.repeated):
        return lambda value, wanted: values.quantity(value, lasting=True)
    return _SCALARS.get(field.type, _no_scalar)


def _no_scalar(value: Any, wanted: str) -> Any:
    raise TypeError("a message is read by the walk")


_SCALARS: Final[dict[str, Scalar]] = {
    "string": _string,
    "bool": _bool,
    "int32": lambda value, wanted: values.integer(value, 32, wanted),
    "int64": lambda value, wanted: values.integer(value, 64, wanted),
    "bytes": lambda value, wanted: values.base64_text(value),
    "quantity": lambda value, wanted: values.quantity(value),
    "time": lambda value, wanted: values.time(value),
    "microtime": lambda value, wanted: values.micro_time(value),
    "intorstring": lambda value, wanted: values.int_or_string(value),
    "raw": lambda value, wanted: plain(value),
    "fieldsv1": lambda value, wanted: plain(value),
    "strings": _strings,
}
_PLANS: Final[dict[str, Plan]] = {}
