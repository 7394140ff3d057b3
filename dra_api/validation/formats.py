"""Formats of DRA fields: driver, pool, attribute and class names, versions, opaque data."""

from __future__ import annotations

import json
from typing import Any

from . import limits
from .findings import Findings
from .names import (
    BYTES,
    byte_length,
    caseless_subdomain_problems,
    dns_label_problems,
    dns_subdomain_problems,
    driver_name_errors,
    identifier_problems,
    label_key_problems,
    label_value_problems,
    uuid_problems,
)

_NO_DOMAIN = "a fully qualified name must be a domain and a name separated by a slash"


def check_driver(found: Findings, path: str, name: str, *, declared: bool = False) -> None:
    """Driver name. The declarative rule counts characters and words the format differently."""
    if not declared:
        found.extend(driver_name_errors(name, path))
    elif not name:
        found.required(path, declared=True)
    else:
        found.invalid_each(path, name, caseless_subdomain_problems(name), declared=True)
        if len(name) > limits.DOMAIN_LENGTH:
            found.longer(path, limits.DOMAIN_LENGTH, "characters", declared=True)


def check_pool(found: Findings, path: str, name: str, *, declared: bool = False) -> None:
    """Pool name: parts separated by `/`, each a DNS subdomain; at most 253. One error for each bad part."""
    if not name:
        found.required(path, declared=declared)
        return
    if byte_length(name) > limits.POOL_NAME:
        found.longer(path, limits.POOL_NAME, declared=declared)
    for index, part in enumerate(name.split("/")):
        if not declared:
            found.invalid_each(path, part, dns_subdomain_problems(part))
        elif not part:
            found.invalid(path, name, f"segment {index}: must not be empty", declared=True)
        else:
            texts = [f"segment {index}: {text}" for text in dns_subdomain_problems(part, BYTES)]
            found.invalid_each(path, part, texts, declared=True)


def check_label(found: Findings, path: str, name: str) -> None:
    """Names of devices and requests: DNS labels. A missing one is Invalid, not Required."""
    found.invalid_each(path, name, dns_label_problems(name))


def check_required_label(found: Findings, path: str, name: str) -> None:
    """Names of counter sets: required DNS labels, by a declarative rule."""
    if name:
        found.invalid_each(path, name, dns_label_problems(name, BYTES), declared=True)
    else:
        found.required(path, declared=True)


def check_class_name(found: Findings, path: str, name: str, *, declared: bool) -> None:
    """Name of a device class: required DNS subdomain."""
    if not name:
        found.required(path, declared=declared)
    elif declared:
        found.invalid_each(path, name, dns_subdomain_problems(name, BYTES), declared=True)
    else:
        found.invalid_each(path, name, dns_subdomain_problems(name))


def check_label_key(found: Findings, path: str, key: str, *, declared: bool = False) -> None:
    """Label key, as used for taints and binding conditions."""
    found.invalid_each(path, key, label_key_problems(key), declared=declared)


def check_label_value(found: Findings, path: str, value: str) -> None:
    """Label value, as used for taints."""
    found.invalid_each(path, value, label_value_problems(value))


def check_qualified_name(found: Findings, path: str, name: str) -> None:
    """Key of an attribute or capacity: identifier, or driver domain and identifier.

    Names with two slashes or more are accepted unchecked, as the server does.
    """
    parts = name.split("/")
    if len(parts) == 1:
        _check_identifier(found, path, name)
    elif len(parts) == 2:
        domain, bare = parts
        if domain:
            check_driver(found, path, domain)
        else:
            found.invalid(path, "", "the domain must not be empty")
        if bare:
            _check_identifier(found, path, bare)
        else:
            found.invalid(path, "", "the name must not be empty")


def check_fully_qualified_name(found: Findings, path: str, name: str) -> None:
    """Name of an attribute with its domain (declarative rule)."""
    parts = name.split("/")
    if len(parts) == 1:
        _check_identifier(found, path, name, declared=True)
    elif len(parts) == 2:
        domain, bare = parts
        if domain:
            if byte_length(domain) > limits.DOMAIN_LENGTH:
                found.longer(path, limits.DOMAIN_LENGTH, declared=True)
            texts = [f"prefix: {text}" for text in dns_subdomain_problems(domain, BYTES)]
            found.invalid_each(path, domain, texts, declared=True)
        else:
            found.invalid(path, "", "prefix must not be empty", declared=True)
        if bare:
            _check_identifier(found, path, bare, declared=True)
        else:
            found.invalid(path, "", "name must not be empty", declared=True)
    if "/" not in name:
        found.invalid(path, name, _NO_DOMAIN, declared=True)


def is_fully_qualified(name: str) -> bool:
    """Whether a name would pass as the fully qualified name of an attribute."""
    found = Findings()
    check_qualified_name(found, "", name)
    return "/" in name and not found.errors()


def check_uuid(found: Findings, path: str, value: str) -> None:
    """Share id."""
    found.invalid_each(path, value, uuid_problems(value), declared=True)


def check_json_object(found: Findings, path: str, value: Any, limit: int, *, stored: bool = False) -> None:
    """Opaque parameters and data: a JSON object of limited size; `stored` values may exceed the limit."""
    if value is None:
        found.required(path)
        return
    encoded = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if not stored and byte_length(encoded) > limit:
        found.longer(path, limit)
    elif not isinstance(value, dict):
        found.invalid(path, "<value omitted>", "must be a valid JSON object")


def extended_resource_problems(name: str) -> list[str]:
    """Why a name is no extended resource name."""
    problems = []
    if "/" not in name:
        problems.append("a name must be a domain-prefixed path, such as 'example.com/my-prop'")
    elif "kubernetes.io/" in name:
        problems.append('must not have "kubernetes.io/" domain')
    if name.startswith("requests."):
        problems.append('must not have "requests." prefix')
    return problems + label_key_problems(f"requests.{name}")


def shortened(key: str, limit: int) -> str:
    """A map key as it stands in a path: cut in the middle when it is longer than allowed."""
    limit = max(limit, 16)
    if byte_length(key) <= limit:
        return key
    remaining = limit - len("...")
    raw = key.encode()
    head, tail = raw[: (remaining + 1) // 2], raw[len(raw) - remaining // 2 :]
    return f"{head.decode(errors='replace')}...{tail.decode(errors='replace')}"


def _check_identifier(found: Findings, path: str, name: str, *, declared: bool = False) -> None:
    if byte_length(name) > limits.IDENTIFIER_LENGTH:
        found.longer(path, limits.IDENTIFIER_LENGTH, declared=declared)
    found.invalid_each(path, name, identifier_problems(name), declared=declared)
