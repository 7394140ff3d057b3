"""What manifests say about each other: classes, claims, Pods."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from dra_api.defaults_pod_level import qos_class
from drakit.offline.linting.devices import Devices
from drakit.offline.linting.model import Finding, Target
from drakit.offline.linting.pods import pod_spec, requests
from drakit.offline.linting.reading import Manifest

_DRIVER: Final = re.compile(r"device\.driver\s*==\s*(?:\"([^\"]*)\"|'([^']*)')")
_CLAIM_KINDS: Final = {
    "resourceClaimName": ("ResourceClaim", "claim"),
    "resourceClaimTemplateName": ("ResourceClaimTemplate", "template"),
}


def reference_findings(manifests: Sequence[Manifest], target: Target) -> Iterator[Finding]:
    """Everything about classes, claims and Pods together."""
    classes = {entry.name: entry for entry in manifests if entry.kind == "DeviceClass"}
    devices = Devices.of(manifests)
    drivers = set(devices.drivers) | set(_drivers_of_classes(classes.values()))
    for manifest in manifests:
        yield from _class_names(manifest, classes, drivers)
        yield from _driver_names(manifest, classes, devices)
        yield from _pod(manifest, manifests)
    for entry in classes.values():
        yield from _class(entry, devices)
    yield from _best_effort(manifests, classes, devices)


def selectors(owner: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Index and expression of each CEL selector."""
    for index, selector in enumerate(owner.get("selectors") or ()):
        expression = (selector.get("cel") or {}).get("expression")
        if expression:
            yield index, expression


def _drivers_of_classes(classes: Iterable[Manifest]) -> Iterator[str]:
    for entry in classes:
        for _, expression in selectors((entry.canonical or {}).get("spec") or {}):
            yield from (first or second for first, second in _DRIVER.findall(expression))


def _class_names(manifest: Manifest, classes: Mapping[str, Manifest], drivers: set[str]) -> Iterator[Finding]:
    """Classes that requests name."""
    for path, request in requests(manifest):
        name = request.get("deviceClassName") or ""
        if not name or name in classes:
            continue
        place = f"{path}.deviceClassName"
        if name in drivers:
            fitting = [other for other in classes if name in _drivers_of_classes([classes[other]])]
            text = f"{name} is the name of a driver; what a class contains is decided by its selectors"
            remedy = (
                f"write the name of a class, such as {fitting[0]}" if fitting else "write the name of a class"
            )
            yield manifest.finding("class-is-driver", place, text, remedy)
        elif classes:
            near = difflib.get_close_matches(name, classes, 1)
            remedy = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(classes))}"
            yield manifest.finding("class-unknown", place, f"there is no DeviceClass {name}", remedy)


def _driver_names(manifest: Manifest, classes: Mapping[str, Manifest], devices: Devices) -> Iterator[Finding]:
    """Drivers that selectors name."""
    if not devices.drivers:
        return
    owners = list(requests(manifest))
    if manifest.kind == "DeviceClass" and manifest.canonical is not None:
        owners.append(("spec", manifest.canonical.get("spec") or {}))
    for path, owner in owners:
        for index, expression in selectors(owner):
            for name in (first or second for first, second in _DRIVER.findall(expression)):
                if name in classes and name not in devices.drivers:
                    text = f"{name} is the name of a class; no slice is of a driver of that name"
                    remedy = f"compare with the name of a driver: {', '.join(devices.drivers)}"
                    yield manifest.finding(
                        "class-is-driver", f"{path}.selectors[{index}].cel.expression", text, remedy
                    )


def _class(entry: Manifest, devices: Devices) -> Iterator[Finding]:
    spec = (entry.canonical or {}).get("spec") or {}
    if not spec.get("selectors"):
        yield entry.finding(
            "class-selects-all",
            "spec",
            "a class without selectors matches every device of every driver",
            'add a selector such as device.driver == "gpu.example.com"',
        )
    elif len(devices) and not any(devices.matching(spec)):
        yield entry.finding(
            "selects-nothing",
            "spec.selectors",
            f"its selectors match none of the {len(devices)} devices that are given",
            "try them with drakit cel EXPRESSION -f FILE",
        )


def _pod(manifest: Manifest, manifests: Sequence[Manifest]) -> Iterator[Finding]:
    found = pod_spec(manifest)
    if found is None:
        return
    path, spec = found
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    used = {
        claim.get("name")
        for container in containers
        for claim in (container.get("resources") or {}).get("claims") or ()
    }
    for index, entry in enumerate(spec.get("resourceClaims") or ()):
        place = f"{path}.resourceClaims[{index}]"
        if entry.get("name") not in used:
            yield manifest.finding(
                "claim-unused",
                place,
                f"no container has {entry.get('name')} in resources.claims: its devices are prepared, and no container"
                " sees them",
                "name it in resources.claims of the containers that are to have it",
            )
        for key, (kind, word) in _CLAIM_KINDS.items():
            if entry.get(key):
                yield from _claim_name(manifest, manifests, f"{place}.{key}", kind, word, entry[key])


def _claim_name(
    manifest: Manifest, manifests: Sequence[Manifest], path: str, kind: str, word: str, name: str
) -> Iterator[Finding]:
    known = [entry for entry in manifests if entry.kind == kind]
    here = [entry.name for entry in known if entry.namespace == manifest.namespace]
    if name in here or not known:
        return
    other = next((entry.namespace for entry in known if entry.name == name), None)
    if other is not None:
        text = f"the {word} {name} is in namespace {other}, and Pods use those of their own, {manifest.namespace}"
        yield manifest.finding("claim-unknown", path, text, "put both into one namespace")
        return
    near = difflib.get_close_matches(name, here, 1)
    remedy = f"did you mean {near[0]}?" if near else f"make it, or name another {word}"
    yield manifest.finding("claim-unknown", path, f"there is no {word} {name}", remedy)


def _best_effort(
    manifests: Sequence[Manifest], classes: Mapping[str, Manifest], devices: Devices
) -> Iterator[Finding]:
    """Pods whose CPU or memory comes through claims alone."""
    claims = {
        (entry.kind, entry.namespace, entry.name): entry
        for entry in manifests
        if entry.kind in ("ResourceClaim", "ResourceClaimTemplate")
    }
    for manifest in manifests:
        found = pod_spec(manifest)
        if found is None or qos_class(dict(found[1])) != "BestEffort":
            continue
        path, spec = found
        for index, entry in enumerate(spec.get("resourceClaims") or ()):
            for key, (kind, _) in _CLAIM_KINDS.items():
                claim = claims.get((kind, manifest.namespace, entry.get(key) or ""))
                mapped = sorted(_mapped(claim, classes, devices)) if claim is not None else []
                if mapped:
                    yield manifest.finding(
                        "best-effort",
                        f"{path}.resourceClaims[{index}]",
                        f"the Pod takes {', '.join(mapped)} through its claim only, which QoS classes do not see: it is"
                        " BestEffort, and the first to be evicted",
                        "set requests for cpu and memory in its containers",
                    )


def _mapped(claim: Manifest, classes: Mapping[str, Manifest], devices: Devices) -> Iterator[str]:
    """The resources of nodes that devices of the claim stand for."""
    names = set()
    for _, request in requests(claim):
        owner = classes.get(request.get("deviceClassName") or "")
        if owner is None or owner.canonical is None:
            continue
        for device in devices.matching(owner.canonical.get("spec") or {}, request):
            for name, entry in (device.spec.get("nodeAllocatableResources") or {}).items():
                if entry.get("mapping"):
                    names.add(name)
    yield from names
