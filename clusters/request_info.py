"""What a request asks for: verb, group, resource and name from method, path, query (api-machinery 1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

_PREFIXES: Final = {"api", "apis"}
_VERBS: Final = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_SPECIAL_VERBS: Final = {"proxy", "watch"}
_NAMESPACE_SUBRESOURCES: Final = {"status", "finalize"}
_VERBS_WITH_SELECTORS: Final = {"list", "watch", "deletecollection"}


class FieldRequirement(NamedTuple):
    """One term of a field selector; `operator` is `=` or `!=`."""

    field: str
    operator: str
    value: str


@dataclass(frozen=True)
class RequestInfo:
    """The parts of a request that authorization and routing need.

    For a non-resource request `is_resource` is False, `verb` the lower-case HTTP method and everything but
    `path` empty. `name` is also set on list and watch with a field selector for one metadata.name.
    `parts` are the path segments from the resource on, `field_requirements` the terms of a parsable selector.
    """

    verb: str
    path: str
    is_resource: bool = False
    prefix: str = ""
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    parts: tuple[str, ...] = ()
    field_selector: str = ""
    label_selector: str = ""
    field_requirements: tuple[FieldRequirement, ...] = ()

    @property
    def full_resource(self) -> str:
        """`pods` or `pods/status`, the form that RBAC rules use."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def parse(method: str, path: str, query: Mapping[str, str]) -> RequestInfo:
    """Read a request: `path` percent-decoded, `query` with the first value of each parameter."""
    method = method.upper()
    plain = RequestInfo(verb=method.lower(), path=path)
    parts = path.strip("/").split("/") if path.strip("/") else []
    if len(parts) < 3 or parts[0] not in _PREFIXES:
        return plain
    prefix, parts = parts[0], parts[1:]
    group = ""
    if prefix == "apis":
        if len(parts) < 3:
            return plain
        group, parts = parts[0], parts[1:]
    version, parts = parts[0], parts[1:]

    verb = _VERBS.get(method, "")
    by_prefix = parts[0] in _SPECIAL_VERBS
    if by_prefix:
        if len(parts) < 2:
            return plain
        verb, parts = parts[0], parts[1:]

    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
            parts = parts[2:]

    name = parts[1] if len(parts) > 1 else ""
    subresource = parts[2] if len(parts) > 2 and verb != "proxy" else ""
    selector = query.get("fieldSelector", "")
    requirements: tuple[FieldRequirement, ...] = ()
    if selector:
        try:
            requirements = parse_field_selector(selector)
        except ValueError:
            requirements = ()
    if not name and verb == "get":
        verb = "watch" if _is_true(query, "watch") else "list"
        name = _selected_name(requirements)
    if not name and verb == "delete":
        verb = "deletecollection"
    selectable = verb in _VERBS_WITH_SELECTORS and not by_prefix
    return RequestInfo(
        verb=verb,
        path=path,
        is_resource=True,
        prefix=prefix,
        group=group,
        version=version,
        namespace=namespace,
        resource=parts[0],
        subresource=subresource,
        name=name,
        parts=tuple(parts),
        field_selector=selector if selectable else "",
        label_selector=query.get("labelSelector", "") if selectable else "",
        field_requirements=requirements if selectable else (),
    )


def parse_field_selector(text: str) -> tuple[FieldRequirement, ...]:
    """The terms of `a=b,c!=d` (`==` is `=`, a backslash escapes `,`, `=` and itself); else ValueError."""
    return tuple(_requirement(term) for term in _split_terms(text) if term)


def _split_terms(text: str) -> list[str]:
    terms, current, escaped = [], "", False
    for character in text:
        if escaped:
            current += character
            escaped = False
        elif character == ",":
            terms.append(current)
            current = ""
        else:
            escaped = character == "\\"
            current += character
    return [*terms, current]


def _requirement(term: str) -> FieldRequirement:
    escaped = False
    for position, character in enumerate(term):
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        else:
            for operator in ("!=", "==", "="):
                if term.startswith(operator, position):
                    value = _unescape(term[position + len(operator) :], term)
                    return FieldRequirement(term[:position], "!=" if operator == "!=" else "=", value)
    raise ValueError(f"invalid selector: {term!r}; can't understand {term!r}")


def _unescape(value: str, term: str) -> str:
    result, escaped = "", False
    for character in value:
        if escaped:
            if character not in "\\,=":
                raise ValueError(f"invalid field selector {term!r}: invalid escape sequence \\{character}")
            result += character
            escaped = False
        elif character == "\\":
            escaped = True
        elif character in ",=":
            raise ValueError(f"invalid field selector {term!r}: unescaped {character} in the value")
        else:
            result += character
    if escaped:
        raise ValueError(f"invalid field selector {term!r}: ends in a backslash")
    return result


def _is_true(query: Mapping[str, str], key: str) -> bool:
    return key in query and query[key].lower() not in ("false", "0")


def _selected_name(requirements: tuple[FieldRequirement, ...]) -> str:
    for requirement in requirements:
        if requirement.field == "metadata.name" and requirement.operator == "=":
            value = requirement.value
            # A value that cannot be a path segment names no object.
            usable = value not in (".", "..") and not set(value) & {"/", "%"}
            return value if usable else ""
    return ""
