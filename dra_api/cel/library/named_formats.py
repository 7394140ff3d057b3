"""Named formats of strings (apiserver `pkg/cel/library/format.go`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final

from .. import types
from ..call_costs import UNIT_EQUALITY
from ..declarations import Function, Overload, library
from ..values import EQUALITY, GO_NAMES, NONE, RUNTIME_TYPES, UNHASHABLE, OptionalValue, StringList
from .uris import UrlError, check_request_uri

FORMAT_TYPE: Final = types.struct("kubernetes.NamedFormat")
_UUID: Final = r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}"
_BASE64: Final = r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"
_TIME: Final = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))")


@dataclass(frozen=True, slots=True)
class NamedFormat:
    """A format. `max_regex_size` is the length of a pattern by which a check costs."""

    name: str
    problems: Callable[[str], list[str]] = field(compare=False)
    max_regex_size: int = field(compare=False)

    def __str__(self) -> str:
        # Go shows where a function is, which differs from build to build.
        return f"{{{self.name} 0x0 {self.max_regex_size}}}"


RUNTIME_TYPES[NamedFormat] = FORMAT_TYPE
GO_NAMES[NamedFormat] = "cel.Format"
UNHASHABLE.add(NamedFormat)
EQUALITY[NamedFormat] = lambda left, right: left == right if type(right) is NamedFormat else None
UNIT_EQUALITY.add(NamedFormat)


def _name_rule(rule: str, *prefix: bool) -> Callable[[str], list[str]]:
    """A rule of the validation of names; looked up late, because validation uses this package."""

    def problems(text: str) -> list[str]:
        from ...validation import names

        found: list[str] = getattr(names, rule)(text, *prefix)
        return found

    return problems


def _pattern(pattern: str, problem: str, flags: int = 0) -> Callable[[str], list[str]]:
    compiled = re.compile(pattern, flags | re.ASCII)
    return lambda text: [] if compiled.fullmatch(text) else [problem]


def _uri(text: str) -> list[str]:
    try:
        check_request_uri(text)
    except UrlError as error:
        return [str(error)]
    return []


def _is_date(text: str) -> bool:
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text, re.ASCII):
        return False
    year, month, day = map(int, text.split("-"))
    try:
        # Go has a year 0, which is as long as the year 400.
        date(year or 400, month, day)
    except ValueError:
        return False
    return True


def _date(text: str) -> list[str]:
    return [] if _is_date(text) else ["invalid date"]


def _datetime(text: str) -> list[str]:
    parts = text.lower().split("t")
    if len(parts) >= 2 and _is_date(parts[0]):
        match = _TIME.fullmatch(parts[1])
        if match and match[1] <= "23" and match[2] <= "59" and match[3] <= "59":
            return []
    return ["invalid datetime"]


_DATETIME_SIZE: Final = 71
_FORMATS: Final = {
    "dns1123Label": NamedFormat("DNS1123Label", _name_rule("is_label", False), 30),
    "dns1123Subdomain": NamedFormat("DNS1123Subdomain", _name_rule("is_subdomain", False), 60),
    "dns1035Label": NamedFormat("DNS1035Label", _name_rule("is_dns1035_label", False), 30),
    "qualifiedName": NamedFormat("QualifiedName", _name_rule("label_key_problems"), 60),
    "dns1123LabelPrefix": NamedFormat("DNS1123LabelPrefix", _name_rule("is_label", True), 30),
    "dns1123SubdomainPrefix": NamedFormat("DNS1123SubdomainPrefix", _name_rule("is_subdomain", True), 60),
    "dns1035LabelPrefix": NamedFormat("DNS1035LabelPrefix", _name_rule("is_dns1035_label", True), 30),
    "labelValue": NamedFormat("LabelValue", _name_rule("label_value_problems"), 40),
    "uri": NamedFormat("URI", _uri, 1103),
    "uuid": NamedFormat("uuid", _pattern(_UUID, "does not match the UUID format", re.IGNORECASE), 70),
    "byte": NamedFormat("byte", _pattern(_BASE64, "invalid base64"), 84),
    "date": NamedFormat("date", _date, _DATETIME_SIZE),
    "datetime": NamedFormat("datetime", _datetime, _DATETIME_SIZE),
}


def _named(name: str) -> OptionalValue:
    found = _FORMATS.get(name)
    return NONE if found is None else OptionalValue(found)


def _validate(named: NamedFormat, text: str) -> OptionalValue:
    problems = named.problems(text)
    return OptionalValue(StringList(problems)) if problems else NONE


def _constant(named: NamedFormat) -> Callable[[], Any]:
    return lambda: named


_PROBLEMS: Final = types.optional_of(types.list_of(types.STRING))

FORMATS: Final = library(
    Function(
        "validate",
        (Overload("format-validate", (FORMAT_TYPE, types.STRING), _PROBLEMS, True, _validate),),
    ),
    Function(
        "format.named",
        (Overload("format-named", (types.STRING,), types.optional_of(FORMAT_TYPE), call=_named),),
    ),
    *(
        Function(f"format.{name}", (Overload(f"format.{name}", (), FORMAT_TYPE, call=_constant(named)),))
        for name, named in _FORMATS.items()
    ),
)
"""Named formats."""
