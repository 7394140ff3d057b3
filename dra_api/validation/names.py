"""Formats of names, keys and values with the texts of a Kubernetes API server.

Every `*_problems` function returns the reasons why a value does not fit, none when it does. Lengths are
bytes of UTF-8. Handwritten rules say "characters" and declarative rules say "bytes" for the same limit;
`unit` selects the word, so that texts equal those of the server. Source: apimachinery `util/validation`,
`api/validate/content`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from ..errors import FieldError

DNS_LABEL_MAX: Final = 63
DNS_SUBDOMAIN_MAX: Final = 253
LABEL_MAX: Final = 63
DRIVER_NAME_MAX: Final = 63
IDENTIFIER_MAX: Final = 32
BYTES: Final = "bytes"
CHARACTERS: Final = "characters"

NameRule = Callable[[str, bool], list[str]]
"""Checks an object's name; the flag says that the name is a prefix (`generateName`)."""

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = _LABEL + r"(\." + _LABEL + ")*"
_DNS1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = f"({_KEY})?"
_IDENTIFIER: Final = "[A-Za-z_][A-Za-z0-9_]*"
_CONFIG_KEY: Final = "[-._a-zA-Z0-9]+"
_REASON: Final = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"

_LABEL_TEXT: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character"
)
_SUBDOMAIN_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character"
)
_CASELESS_TEXT: Final = (
    "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with "
    "an alphanumeric character"
)
_DNS1035_TEXT: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character"
)
_KEY_TEXT: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_VALUE_TEXT: Final = f"a valid label must be an empty string or {_KEY_TEXT.removeprefix('must ')}"
_IDENTIFIER_TEXT: Final = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric "
    "characters or '_'"
)
_CONFIG_KEY_TEXT: Final = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
_REASON_TEXT: Final = (
    "a condition reason must start with alphabetic character, optionally followed by a string of "
    "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'"
)
_UUID_TEXT: Final = "must be a lowercase UUID in 8-4-4-4-12 format"


def byte_length(text: str) -> int:
    """Length in bytes of UTF-8, the unit of all limits of the API."""
    return len(text.encode("utf-8", "surrogatepass"))


def pattern_text(text: str, pattern: str, *examples: str) -> str:
    """`text (e.g. 'a',  or 'b', regex used for validation is 'p')`, oddities included."""
    if not examples:
        return f"{text} (regex used for validation is '{pattern}')"
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{text} (e.g. {shown}regex used for validation is '{pattern}')"


def _too_long(limit: int, unit: str) -> str:
    return f"must be no more than {limit} {unit}"


def dns_label_problems(value: str, unit: str = CHARACTERS) -> list[str]:
    """RFC 1123 label: at most 63, lower case, digits and `-`."""
    problems = [_too_long(DNS_LABEL_MAX, unit)] if byte_length(value) > DNS_LABEL_MAX else []
    if not re.fullmatch(_LABEL, value):
        if re.fullmatch(_SUBDOMAIN, value):
            problems.append("must not contain dots")
        else:
            problems.append(pattern_text(_LABEL_TEXT, _LABEL, "my-name", "123-abc"))
    return problems


def dns_subdomain_problems(value: str, unit: str = CHARACTERS) -> list[str]:
    """RFC 1123 subdomain: labels joined by dots, at most 253."""
    problems = [_too_long(DNS_SUBDOMAIN_MAX, unit)] if byte_length(value) > DNS_SUBDOMAIN_MAX else []
    if not re.fullmatch(_SUBDOMAIN, value):
        problems.append(pattern_text(_SUBDOMAIN_TEXT, _SUBDOMAIN, "example.com"))
    return problems


def caseless_subdomain_problems(value: str) -> list[str]:
    """An RFC 1123 subdomain in which upper case is allowed, at most 253 bytes (declarative wording)."""
    problems = [_too_long(DNS_SUBDOMAIN_MAX, BYTES)] if byte_length(value) > DNS_SUBDOMAIN_MAX else []
    if not re.fullmatch(_SUBDOMAIN, value, re.IGNORECASE | re.ASCII):
        problems.append(pattern_text(_CASELESS_TEXT, _SUBDOMAIN, "Example.com"))
    return problems


def dns1035_label_problems(value: str) -> list[str]:
    """DNS-1035 label: like a DNS label that starts with a letter (names of services)."""
    problems = [_too_long(DNS_LABEL_MAX, CHARACTERS)] if byte_length(value) > DNS_LABEL_MAX else []
    if not re.fullmatch(_DNS1035, value):
        problems.append(pattern_text(_DNS1035_TEXT, _DNS1035, "my-name", "abc-123"))
    return problems


def label_key_problems(value: str) -> list[str]:
    """Label key, also called qualified name: `name` or `subdomain/name`, name at most 63."""
    parts = value.split("/")
    if len(parts) > 2:
        shape = pattern_text(_KEY_TEXT, _KEY, "MyName", "my.name", "123-abc")
        prefix = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {shape} {prefix}"]
    problems = []
    if len(parts) == 2:
        if not parts[0]:
            problems.append("prefix part must be non-empty")
        else:
            problems += [f"prefix part {problem}" for problem in dns_subdomain_problems(parts[0], BYTES)]
    name = parts[-1]
    if not name:
        problems.append("name part must be non-empty")
    elif byte_length(name) > LABEL_MAX:
        problems.append(f"name part {_too_long(LABEL_MAX, BYTES)}")
    if not re.fullmatch(_KEY, name):
        problems.append("name part " + pattern_text(_KEY_TEXT, _KEY, "MyName", "my.name", "123-abc"))
    return problems


def label_value_problems(value: str) -> list[str]:
    """Label value: empty, or at most 63 letters, digits, `-`, `_`, `.`."""
    problems = [_too_long(LABEL_MAX, BYTES)] if byte_length(value) > LABEL_MAX else []
    if not re.fullmatch(_VALUE, value):
        problems.append(pattern_text(_VALUE_TEXT, _VALUE, "MyValue", "my_value", "12345"))
    return problems


def identifier_problems(value: str) -> list[str]:
    """C identifier, of any length."""
    if re.fullmatch(_IDENTIFIER, value):
        return []
    return [pattern_text(_IDENTIFIER_TEXT, _IDENTIFIER, "my_name", "MY_NAME", "MyName")]


def config_key_problems(value: str) -> list[str]:
    """Key of a ConfigMap or Secret: letters, digits, `-`, `_`, `.`, at most 253, not `.`, `..` or `..*`."""
    problems = [_too_long(DNS_SUBDOMAIN_MAX, CHARACTERS)] if byte_length(value) > DNS_SUBDOMAIN_MAX else []
    if not re.fullmatch(_CONFIG_KEY, value):
        problems.append(pattern_text(_CONFIG_KEY_TEXT, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    if value in (".", ".."):
        problems.append(f"must not be '{value}'")
    elif value.startswith(".."):
        problems.append("must not start with '..'")
    return problems


def condition_reason_problems(value: str) -> list[str]:
    """Reason of a condition, of any length."""
    if re.fullmatch(_REASON, value):
        return []
    examples = ("my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB")
    return [pattern_text(_REASON_TEXT, _REASON, *examples)]


def path_segment_problems(value: str) -> list[str]:
    """Name that can stand in a URL path (RBAC objects): not `.` or `..`, without `/` and `%`."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{sign}'" for sign in "/%" if sign in value]


def uuid_problems(value: str) -> list[str]:
    """UUID in lower case with dashes, 36 characters."""
    if re.fullmatch("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", value):
        return []
    return [_UUID_TEXT]


def is_subdomain(name: str, prefix: bool) -> list[str]:
    """Name rule of most kinds."""
    return dns_subdomain_problems(_masked(name) if prefix else name)


def is_label(name: str, prefix: bool) -> list[str]:
    """Name rule of namespaces."""
    return dns_label_problems(_masked(name) if prefix else name)


def is_dns1035_label(name: str, prefix: bool) -> list[str]:
    """Name rule of services."""
    return dns1035_label_problems(_masked(name) if prefix else name)


def is_path_segment(name: str, prefix: bool) -> list[str]:
    """Name rule of RBAC objects."""
    return (
        [f"may not contain '{sign}'" for sign in "/%" if sign in name]
        if prefix
        else path_segment_problems(name)
    )


def _masked(name: str) -> str:
    """A prefix may end in `-`, because five more characters follow."""
    return name[:-2] + "a" if len(name) > 1 and name.endswith("-") else name


def driver_name_errors(name: str, path: str) -> list[FieldError]:
    """Driver name: required, at most 63, a DNS subdomain after lower-casing (handwritten wording)."""
    if not name:
        return [FieldError("Required", path)]
    errors = [too_long(path, DRIVER_NAME_MAX)] if byte_length(name) > DRIVER_NAME_MAX else []
    return errors + [FieldError("Invalid", path, text, name) for text in dns_subdomain_problems(name.lower())]


def too_long(path: str, limit: int, unit: str = BYTES) -> FieldError:
    """TooLong with its usual text."""
    return FieldError("TooLong", path, f"may not be more than {limit} {unit}")


def too_many(path: str, count: int, limit: int) -> FieldError:
    """TooMany with its usual text."""
    return FieldError("TooMany", path, f"must have at most {limit} item{'' if limit == 1 else 's'}", count)


def not_supported(path: str, value: object, allowed: tuple[str, ...]) -> FieldError:
    """NotSupported with the list of what is allowed."""
    shown = ", ".join(f'"{item}"' for item in allowed)
    return FieldError("NotSupported", path, f"supported values: {shown}", value)
