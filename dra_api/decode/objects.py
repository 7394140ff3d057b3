"""Typed decoding: a parsed body becomes the object as a server holds and prints it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from ..schema import GVK, Message, load
from . import values
from .json_text import Repeated
from .plans import JSONObject, Plan, Rule, complete, plan_of, zero_element
from .problems import DecodeError, Fault, TypeMismatchError


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

    Null counts as absent, optional fields at their zero value are dropped, fields that a server always prints are
    added, times and quantities get their canonical text. Explicit empty lists and maps stay, see
    `dra_api.decode.empties`. kind and apiVersion are those of `gvk`. Of the `duplicates`
    only those of a YAML body matter; those of a JSON body are found again in the value.

    Raises DecodeError: unknown kind, or a value of the wrong type.
    """
    message = load().kind(gvk)
    if message is None:
        raise DecodeError(cannot_be_handled(gvk, gvk.kind, not_registered(gvk)))
    walk = Walk()
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
    found = walk.strict()
    strict = [text for text in duplicates if not text.startswith("duplicate field ")] + found
    unknown = [text for text in found if text.startswith("unknown ")]
    # What is met twice, in a repeated field, is told once.
    return Decoded(body, gvk, list(dict.fromkeys(unknown)), list(dict.fromkeys(strict)))


def cannot_be_handled(gvk: GVK, expected: str, why: str) -> str:
    """A server's words for a body of that kind where it expected one of kind `expected`."""
    return f'{gvk.kind} in version "{gvk.version}" cannot be handled as a {expected}: {why}'


def not_registered(gvk: GVK) -> str:
    """A server's words for a kind that it does not know."""
    scheme = "pkg/api/legacyscheme/scheme.go:30"
    return f'no kind "{gvk.kind}" is registered for version "{gvk.api_version}" in scheme "{scheme}"'


class Walk:
    """Decodes one body and notes what is unknown, repeated or of the wrong type.

    `path` is the place in the document as strict errors show it (`spec.containers[0].`), `stack` the names
    alone, with those of inlined structs, as type errors show them. A walk that `collects` goes on where a server
    would give up.
    """

    def __init__(self, *, collects: bool = False) -> None:
        self.collects = collects
        self.faults: list[Fault] = []
        self.first_mismatch = ""

    def strict(self) -> list[str]:
        """Unknown and duplicate fields in the words of a server."""
        return [
            f'{fault.kind} field "{fault.path}"'
            for fault in self.faults
            if fault.kind in ("unknown", "duplicate")
        ]

    def message(self, value: Any, message: Message, path: str, stack: tuple[str, ...]) -> JSONObject:
        """A struct in canonical form. Raises TypeMismatchError for what is no object, and DecodeError."""
        if not isinstance(value, dict):
            raise TypeMismatchError(values.kind_of(value), message.go_type)
        plan = plan_of(message)
        found: JSONObject = {}
        if isinstance(value, Repeated):
            self._repeated(value, plan, path, stack, found)
        else:
            for name, item in value.items():
                self._member(name, item, plan, path, stack, found)
        return complete(plan, found)

    def _repeated(
        self, value: Repeated, plan: Plan, path: str, stack: tuple[str, ...], found: JSONObject
    ) -> None:
        seen: set[str] = set()
        for name, item in value.pairs:
            if name in seen and name in plan.rules:
                self.faults.append(Fault("duplicate", path + name, plan.message, name))
            seen.add(name)
            before = found.get(name)
            self._member(name, item, plan, path, stack, found)
            after = found.get(name)
            if isinstance(before, dict) and isinstance(after, dict) and after is not before:
                # Go reads the second object on top of the first.
                found[name] = before | {key: after[key] for key in item if key in after}

    def _member(
        self, name: str, item: Any, plan: Plan, path: str, stack: tuple[str, ...], found: JSONObject
    ) -> None:
        rule = plan.rules.get(name)
        if rule is None:
            self.faults.append(Fault("unknown", path + name, plan.message, name))
            return
        if item is None:
            if rule.field.pointer or rule.field.shape != "one":
                found.pop(name, None)
            return
        try:
            found[name] = self._value(item, rule, path + name, stack)
        except TypeMismatchError as error:
            self.faults.append(Fault("type", path + name + error.at, plan.message, name, error.found))
            place = ".".join((plan.message.struct, *stack, *rule.go_names))
            text = f"json: cannot unmarshal {error.found} into Go struct field {place} of type {error.wanted}"
            if error.final and not self.collects:
                raise DecodeError(text) from None
            self.first_mismatch = self.first_mismatch or text
        except DecodeError as error:
            if not self.collects:
                raise
            self.faults.append(Fault("value", path + name + error.at, plan.message, name, error.message))

    def _value(self, value: Any, rule: Rule, path: str, stack: tuple[str, ...]) -> Any:
        field = rule.field
        if field.shape == "one":
            if field.type == "message":
                return self.message(value, field.message, f"{path}.", stack + rule.go_names)
            return rule.scalar(value, rule.wanted)
        if field.shape == "list" and isinstance(value, list):
            return self._items(value, rule, path, stack)
        if field.shape == "map" and isinstance(value, dict):
            return self._entries(value, rule, path, stack)
        raise TypeMismatchError(values.kind_of(value), field.go_type)

    def _items(self, value: list[Any], rule: Rule, path: str, stack: tuple[str, ...]) -> list[Any]:
        field = rule.field
        inner = stack + rule.go_names
        result: list[Any] = []
        for index, item in enumerate(value):
            try:
                if item is None:
                    result.append(zero_element(field))
                elif field.type == "message":
                    result.append(self.message(item, field.message, f"{path}[{index}].", inner))
                else:
                    result.append(rule.scalar(item, rule.wanted))
            except (TypeMismatchError, DecodeError) as error:
                error.at = error.at or f"[{index}]"
                raise
        return result

    def _entries(self, value: JSONObject, rule: Rule, path: str, stack: tuple[str, ...]) -> JSONObject:
        field = rule.field
        if isinstance(value, Repeated):
            self._repeated_entries(value, rule, path)
        inner = stack + rule.go_names
        result: JSONObject = {}
        for name, item in value.items():
            try:
                if item is None:
                    result[name] = zero_element(field)
                elif field.type == "message":
                    result[name] = self.message(item, field.message, f"{path}.{name}.", inner)
                else:
                    result[name] = rule.scalar(item, rule.wanted)
            except (TypeMismatchError, DecodeError) as error:
                error.at = error.at or f".{name}"
                raise
        return dict(sorted(result.items()))

    def _repeated_entries(self, value: Repeated, rule: Rule, path: str) -> None:
        seen: set[str] = set()
        for name, _ in value.pairs:
            if name in seen:
                self.faults.append(Fault("duplicate", f"{path}.{name}", _NO_STRUCT, name))
            seen.add(name)


_NO_STRUCT: Final = Message("", ())
