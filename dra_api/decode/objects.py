"""Typed decoding: a parsed body becomes the object as a server holds and prints it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..schema import GVK, Message, load
from . import values
from .json_text import Repeated
from .plans import JSONObject, Plan, Rule, complete, plan_of, zero_element, zero_object
from .problems import DecodeError, TypeMismatchError


@dataclass(frozen=True)
class Decoded:
    """A decoded object and what a strict reader holds against its body.

    `object` has its fields in the order in which a server prints them. `unknown` lists the fields that were
    dropped (`unknown field "spec.foo"`); `strict` lists these and the duplicates, in the order of a server's
    answer.
    """

    object: JSONObject
    gvk: GVK
    unknown: list[str] = field(default_factory=list)
    strict: list[str] = field(default_factory=list)


def decode_object(value: Any, gvk: GVK, *, duplicates: Iterable[str] = ()) -> Decoded:
    """The object of a kind from a parsed body.

    Null counts as absent, empty optional fields are dropped, fields that a server always prints are added,
    times and quantities get their canonical text. kind and apiVersion are those of `gvk`. Of the `duplicates`
    only those of a YAML body matter; those of a JSON body are found again in the value.

    Raises DecodeError: unknown kind, or a value of the wrong type.
    """
    message = load().kind(gvk)
    if message is None:
        raise DecodeError(cannot_be_handled(gvk, gvk.kind, not_registered(gvk)))
    walk = _Walk()
    try:
        body = walk.message({} if value is None else value, message, "", ())
    except DecodeError as error:
        raise DecodeError(cannot_be_handled(gvk, gvk.kind, error.message)) from None
    except TypeMismatchError as error:
        raise DecodeError(cannot_be_handled(gvk, gvk.kind, str(error))) from None
    if walk.first_mismatch:
        raise DecodeError(cannot_be_handled(gvk, gvk.kind, walk.first_mismatch))
    if "apiVersion" in message.fields:
        body = {"kind": gvk.kind, "apiVersion": gvk.api_version} | body
        body.update(kind=gvk.kind, apiVersion=gvk.api_version)
    strict = [text for text in duplicates if not text.startswith("duplicate field ")] + walk.problems
    unknown = [text for text in walk.problems if text.startswith("unknown field ")]
    return Decoded(body, gvk, unknown, strict)


def cannot_be_handled(gvk: GVK, expected: str, why: str) -> str:
    """A server's words for a body of that kind where it expected one of kind `expected`."""
    return f'{gvk.kind} in version "{gvk.version}" cannot be handled as a {expected}: {why}'


def not_registered(gvk: GVK) -> str:
    """A server's words for a kind that it does not know."""
    scheme = "pkg/api/legacyscheme/scheme.go:30"
    return f'no kind "{gvk.kind}" is registered for version "{gvk.api_version}" in scheme "{scheme}"'


class _Walk:
    """Decodes one body and notes what is unknown, repeated or of the wrong type.

    `path` is the place in the document as strict errors show it (`spec.containers[0].`), `stack` the names
    alone, with those of inlined structs, as type errors show them.
    """

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.first_mismatch = ""

    def message(self, value: Any, message: Message, path: str, stack: tuple[str, ...]) -> JSONObject:
        if not isinstance(value, dict):
            raise TypeMismatchError(values.kind_of(value), message.go_type)
        plan = plan_of(message)
        found: JSONObject = {}
        if isinstance(value, Repeated):
            self.repeated(value, plan, path, stack, found)
        else:
            for name, item in value.items():
                self.member(name, item, plan, path, stack, found)
        return complete(plan, found)

    def repeated(
        self, value: Repeated, plan: Plan, path: str, stack: tuple[str, ...], found: JSONObject
    ) -> None:
        seen: set[str] = set()
        for name, item in value.pairs:
            if name in seen and name in plan.rules:
                self.problems.append(f'duplicate field "{path}{name}"')
            seen.add(name)
            before = found.get(name)
            self.member(name, item, plan, path, stack, found)
            after = found.get(name)
            if isinstance(before, dict) and isinstance(after, dict) and after is not before:
                # Go reads the second object on top of the first.
                found[name] = before | {key: after[key] for key in item if key in after}

    def member(
        self, name: str, item: Any, plan: Plan, path: str, stack: tuple[str, ...], found: JSONObject
    ) -> None:
        rule = plan.rules.get(name)
        if rule is None:
            self.problems.append(f'unknown field "{path}{name}"')
            return
        if item is None:
            if rule.field.pointer or rule.field.shape != "one":
                found.pop(name, None)
            return
        try:
            found[name] = self.value(item, rule, path + name, stack)
        except TypeMismatchError as error:
            place = ".".join((plan.message.struct, *stack, *rule.go_names))
            text = f"json: cannot unmarshal {error.found} into Go struct field {place} of type {error.wanted}"
            if error.final:
                raise DecodeError(text) from None
            self.first_mismatch = self.first_mismatch or text

    def value(self, value: Any, rule: Rule, path: str, stack: tuple[str, ...]) -> Any:
        field = rule.field
        if field.shape == "one":
            if field.type == "message":
                return self.message(value, field.message, f"{path}.", stack + rule.go_names)
            return rule.scalar(value, rule.wanted)
        if field.shape == "list" and isinstance(value, list):
            return self.items(value, rule, path, stack)
        if field.shape == "map" and isinstance(value, dict):
            return self.entries(value, rule, path, stack)
        raise TypeMismatchError(values.kind_of(value), field.go_type)

    def items(self, value: list[Any], rule: Rule, path: str, stack: tuple[str, ...]) -> list[Any]:
        field = rule.field
        if field.type != "message":
            scalar, wanted = rule.scalar, rule.wanted
            return [zero_element(field) if item is None else scalar(item, wanted) for item in value]
        message = field.message
        inner = stack + rule.go_names
        return [
            zero_object(message) if item is None else self.message(item, message, f"{path}[{index}].", inner)
            for index, item in enumerate(value)
        ]

    def entries(self, value: JSONObject, rule: Rule, path: str, stack: tuple[str, ...]) -> JSONObject:
        field = rule.field
        if isinstance(value, Repeated):
            names = [name for name, _ in value.pairs]
            self.problems += [
                f'duplicate field "{path}.{name}"' for at, name in enumerate(names) if name in names[:at]
            ]
        inner = stack + rule.go_names
        result: JSONObject = {}
        for name, item in value.items():
            if item is None:
                result[name] = zero_element(field)
            elif field.type == "message":
                result[name] = self.message(item, field.message, f"{path}.{name}.", inner)
            else:
                result[name] = rule.scalar(item, rule.wanted)
        return dict(sorted(result.items()))
