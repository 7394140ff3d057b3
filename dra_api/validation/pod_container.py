"""Rules for one container of a pod or pod template.

Source: kubernetes v1.37.2 `pkg/apis/core/validation`, `validateContainerCommon` and what it calls. Not judged:
security contexts, probes, lifecycle hooks, resize policies.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from ..quantity import Quantity
from .findings import Findings
from .formats import extended_resource_problems
from .names import byte_length, dns_label_problems, label_key_problems, not_supported
from .pod_paths import check_sub_paths

Object = Mapping[str, Any]

_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_STANDARD: Final = ("cpu", "memory", "ephemeral-storage")
_HUGE_PAGES: Final = "hugepages-"
_NEGATIVE: Final = "must be greater than or equal to 0"
_MILLI: Final = 1000
_PORT_MAX: Final = 65535
_PORT_NAME_MAX: Final = 15
_ENV_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def check_container(
    found: Findings, container: Object, path: str, claims: Collection[str], volumes: Collection[str]
) -> None:
    """One container; `claims` and `volumes` are the names that the pod defines."""
    name = container.get("name") or ""
    if name:
        found.invalid_each(f"{path}.name", name, dns_label_problems(name))
    else:
        found.required(f"{path}.name")
    if not container.get("image"):
        found.required(f"{path}.image")
    _check_choice(found, container, f"{path}.terminationMessagePolicy", _MESSAGE_POLICIES)
    _check_ports(found, container.get("ports") or [], f"{path}.ports")
    _check_environment(found, container.get("env") or [], f"{path}.env")
    _check_mounts(found, container.get("volumeMounts") or [], f"{path}.volumeMounts", volumes)
    _check_choice(found, container, f"{path}.imagePullPolicy", _PULL_POLICIES)
    resources = container.get("resources") or {}
    _check_resources(found, resources, f"{path}.resources")
    check_uses(found, resources.get("claims") or [], claims, f"{path}.resources.claims")


def _check_choice(found: Findings, container: Object, path: str, allowed: tuple[str, ...]) -> None:
    """A field with few values; defaults have filled in an absent one."""
    value = container.get(path.rpartition(".")[2]) or ""
    if value and value not in allowed:
        found.add(not_supported(path, value, allowed))


def _check_ports(found: Findings, ports: Sequence[Object], path: str) -> None:
    names: set[str] = set()
    for index, port in enumerate(ports):
        where = f"{path}[{index}]"
        name = port.get("name") or ""
        if name and (problems := port_name_problems(name)):
            found.invalid_each(f"{where}.name", name, problems)
        elif name and name in names:
            found.duplicate(f"{where}.name", name)
        names.add(name)
        if not port.get("containerPort"):
            found.required(f"{where}.containerPort")
        for field in ("containerPort", "hostPort"):
            number = port.get(field) or 0
            if number and not 1 <= number <= _PORT_MAX:
                found.invalid(f"{where}.{field}", number, f"must be between 1 and {_PORT_MAX}, inclusive")
        protocol = port.get("protocol") or ""
        if not protocol:
            found.required(f"{where}.protocol")
        elif protocol not in _PROTOCOLS:
            found.add(not_supported(f"{where}.protocol", protocol, _PROTOCOLS))


def port_name_problems(name: str) -> list[str]:
    """Why a text is no name of a port (IANA service name)."""
    problems = []
    if byte_length(name) > _PORT_NAME_MAX:
        problems.append(f"must be no more than {_PORT_NAME_MAX} characters")
    if not re.fullmatch("[-a-z0-9]+", name):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", name):
        problems.append("must contain at least one letter (a-z)")
    if "--" in name:
        problems.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        problems.append("must not begin or end with a hyphen")
    return problems


def _check_environment(found: Findings, variables: Sequence[Object], path: str) -> None:
    for index, variable in enumerate(variables):
        where = f"{path}[{index}]"
        name = variable.get("name") or ""
        if not name:
            found.required(f"{where}.name")
        elif any(char == "=" or not " " <= char <= "~" for char in name):
            text = "a valid environment variable name must consist only of printable ASCII characters other than '='"
            found.invalid(f"{where}.name", name, text)
        source = variable.get("valueFrom")
        if source is None:
            continue
        count = sum(source.get(field) is not None for field in _ENV_SOURCES)
        if count == 0:
            fields = ", ".join(f"`{field}`" for field in _ENV_SOURCES[:-1])
            text = f"must specify one of: {fields} or `{_ENV_SOURCES[-1]}`"
            found.invalid(f"{where}.valueFrom", "", text)
        elif variable.get("value"):
            found.invalid(f"{where}.valueFrom", "", "may not be specified when `value` is not empty")
        elif count > 1:
            text = "may not have more than one field specified at a time"
            found.invalid(f"{where}.valueFrom", "", text)


def _check_mounts(found: Findings, mounts: Sequence[Object], path: str, volumes: Collection[str]) -> None:
    places: set[str] = set()
    for index, mount in enumerate(mounts):
        where = f"{path}[{index}]"
        name, place = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            found.required(f"{where}.name")
        if name not in volumes:
            found.not_found(f"{where}.name", name)
        if not place:
            found.required(f"{where}.mountPath")
        if place in places:
            found.invalid(f"{where}.mountPath", place, "must be unique")
        places.add(place)
        check_sub_paths(found, mount, index, path)


def _check_resources(found: Findings, resources: Object, path: str) -> None:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name, text in amounts.items():
            where = f"{path}.{field}[{name}]"
            amount = Quantity.parse(str(text))
            found.invalid_each(where, name, _resource_problems(name))
            if amount.sign < 0:
                found.invalid(where, str(amount), _NEGATIVE)
            if "/" in name and _overcommits(name) is False and amount.milli_value() % _MILLI:
                found.invalid(where, str(amount), "must be an integer")
            if field == "requests":
                _check_request(found, name, amount, limits, path)


def _check_request(found: Findings, name: str, amount: Quantity, limits: Object, path: str) -> None:
    if name in limits:
        limit = Quantity.parse(str(limits[name]))
        if amount != limit and not _overcommits(name):
            found.invalid(f"{path}.requests", str(amount), f"must be equal to {name} limit of {limit}")
        elif amount > limit:
            text = f"must be less than or equal to {name} limit of {limit}"
            found.invalid(f"{path}.requests", str(amount), text)
    elif not _overcommits(name):
        found.required(f"{path}.limits", "Limit must be set for non overcommitable resources")


def _overcommits(name: str) -> bool:
    """Whether a limit may exceed the request: for what Kubernetes itself names, huge pages aside."""
    native = "/" not in name or "kubernetes.io/" in name
    return native and not name.startswith(_HUGE_PAGES)


def _resource_problems(name: str) -> list[str]:
    problems = label_key_problems(name)
    if "/" not in name:
        if name in _STANDARD or name.startswith(_HUGE_PAGES):
            return problems
        if not problems:
            problems.append("must be a standard resource type or fully qualified")
        return [*problems, "must be a standard resource for containers"]
    if "kubernetes.io/" not in name and extended_resource_problems(name):
        problems.append("doesn't follow extended resource name standard")
    return problems


def check_uses(found: Findings, uses: Sequence[Object], known: Collection[str], path: str) -> None:
    """A container uses a claim as a whole or single requests of it, each once."""
    seen: set[str] = set()
    for index, use in enumerate(uses):
        where = f"{path}[{index}]"
        name, request = use.get("name") or "", use.get("request") or ""
        if not name:
            found.required(where)
            continue
        if name in seen:
            found.duplicate(where, name)
        else:
            key = f"{name}/{request}" if request else name
            if request:
                found.invalid_each(f"{where}.request", request, dns_label_problems(request))
            if key in seen:
                found.duplicate(where, key)
            elif not request:
                for other in seen:
                    if other.partition("/")[0] == name:
                        found.duplicate(where, name)
            seen.add(key)
        if name not in known:
            names = f": {', '.join(sorted(known))}" if known else " which is empty"
            found.not_found(where, name, f"must be one of the names in pod.spec.resourceClaims{names}")
