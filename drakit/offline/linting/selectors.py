"""Selectors of classes, claims and templates: what they look up, and what they say about the devices that are given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from dra_api.cel import CelRuntimeError
from dra_api.cel.deep import with_room
from drakit.offline.linting.devices import Device, Devices, program
from drakit.offline.linting.model import Finding
from drakit.offline.linting.pods import requests
from drakit.offline.linting.reading import Manifest
from drakit.offline.linting.references import selectors
from drakit.offline.linting.syntax import Comparison, Lookup, comparisons, expression, unguarded

_LISTS: Final = ("ints", "bools", "strings", "versions")
_TYPES: Final[Mapping[type, str]] = {bool: "bool", int: "int", str: "string"}


def selector_findings(manifests: Sequence[Manifest]) -> Iterator[Finding]:
    """Everything about selectors that compile; about the others the API server has its say."""
    devices = Devices.of(manifests)
    classes = {entry.name: entry for entry in manifests if entry.kind == "DeviceClass"}
    for manifest in manifests:
        if manifest.kind == "DeviceClass" and manifest.canonical is not None:
            yield from _owner(manifest, "spec", manifest.canonical.get("spec") or {}, list(devices), devices)
        for path, request in requests(manifest):
            owner = classes.get(request.get("deviceClassName") or "")
            spec = ((owner.canonical if owner is not None else None) or {}).get("spec") or {}
            yield from _owner(manifest, path, request, list(devices.matching(spec)), devices)


def _owner(
    manifest: Manifest, path: str, owner: Mapping[str, Any], asked: list[Device], devices: Devices
) -> Iterator[Finding]:
    """The selectors of one owner; each is asked about the devices that those before it admit."""
    for index, text in selectors(owner):
        compiled = program(text)
        if compiled is None:
            return
        place = f"{path}.selectors[{index}].cel.expression"
        admitted, failed = [], dict[str, list[Device]]()
        for device in asked:
            try:
                if compiled.matches(device.input):
                    admitted.append(device)
            except CelRuntimeError as error:
                failed.setdefault(str(error), []).append(device)
        for words, some in failed.items():
            where = some[0].name + (f" and {len(some) - 1} more" if len(some) > 1 else "")
            yield manifest.finding(
                "selector-fails", place, f"on device {where}: {words}", _guard_remedy(text)
            )
        syntax = partial(_syntax, manifest, place, text, devices, failed=bool(failed))
        yield from with_room(syntax)
        asked = admitted


def _syntax(manifest: Manifest, place: str, text: str, devices: Devices, *, failed: bool) -> list[Finding]:
    return list(_about_syntax(manifest, place, text, devices, failed=failed))


def _about_syntax(
    manifest: Manifest, place: str, text: str, devices: Devices, *, failed: bool
) -> Iterator[Finding]:
    expr = expression(text)
    if expr is None:
        return
    if not failed:
        for lookup in unguarded(expr):
            if not _always_there(lookup, devices):
                yield manifest.finding(
                    "selector-unguarded",
                    place,
                    f"{lookup} fails for a device without {lookup.name}, which keeps the Pod from every node",
                    _guard(lookup),
                )
    for comparison in comparisons(expr):
        yield from _types(manifest, place, comparison, devices)


def _always_there(lookup: Lookup, devices: Devices) -> bool:
    """Whether every device that is given, of the driver that the domain names, has it."""
    known = [device for device in devices if device.driver == lookup.domain]
    if lookup.kind == "capacity":
        names = (lookup.name, f"{lookup.domain}/{lookup.name}")
        return bool(known) and all(
            any(name in (device.spec.get("capacity") or {}) for name in names) for device in known
        )
    return bool(known) and all(device.attribute(lookup.domain, lookup.name) is not None for device in known)


def _guard(lookup: Lookup) -> str:
    return f'guard it: "{lookup.name}" in device.{lookup.kind}["{lookup.domain}"] && ...'


def _guard_remedy(text: str) -> str:
    expr = expression(text)
    found = with_room(lambda: unguarded(expr)) if expr is not None else []
    return _guard(found[0]) if found else "try it with drakit cel EXPRESSION -f FILE"


def _types(manifest: Manifest, place: str, comparison: Comparison, devices: Devices) -> Iterator[Finding]:
    lookup = comparison.lookup
    kind = _TYPES.get(type(comparison.value))
    if lookup.kind != "attributes" or kind is None:
        return
    for device in devices:
        attribute = device.attribute(lookup.domain, lookup.name)
        found = next(iter(attribute), kind) if attribute else kind
        if found == kind:
            continue
        value = _literal(comparison.value)
        if found in _LISTS:
            yield manifest.finding(
                "attribute-list",
                place,
                f"{lookup} is a list on device {device.name}; {comparison.operator} {value} compares it with a single"
                " value",
                f"write includes({lookup}, {value}), which takes both",
            )
        else:
            remedy = f"semver({value})" if found == "version" else f"one of type {found}"
            yield manifest.finding(
                "attribute-type",
                place,
                f"{lookup} has type {found} on device {device.name}, and {value} has type {kind}",
                f"compare it with {remedy}",
            )
        return


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)
