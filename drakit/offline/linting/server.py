"""What an API server says to manifests: errors, warnings, and fields that it drops without a word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clusters import gates
from dra_api.decode import DecodeError
from drakit.offline.linting.model import Finding, Target
from drakit.offline.linting.reading import Manifest
from drakit.offline.world import Object
from drakit.offline.writing import UnknownFieldsError, UnknownKindError, Written, written


def server_findings(manifests: Sequence[Manifest], target: Target) -> Iterator[Finding]:
    """Write each object, as if nothing of that name were there yet."""
    namespaces = [entry.decoded for entry in manifests if entry.kind == "Namespace"]
    for manifest in manifests:
        obj = manifest.decoded
        found = _written(obj, target.enabled, namespaces)
        if found is None:
            continue
        for error in found.errors:
            yield manifest.finding("invalid", error.field, error.message)
        for text in found.warnings:
            yield manifest.finding("server-warning", text.partition(":")[0], text)
        for path in found.dropped:
            gate = _gate_for(path, obj, target, namespaces)
            why = f"feature gate {gate} is off" if gate else "it is not stored"
            remedy = (
                f"switch {gate} on in API server, scheduler and kubelets, or remove the field" if gate else ""
            )
            text = f"server dropped {path}: {why} in Kubernetes {target.version}"
            yield manifest.finding("dropped", path, text, remedy)


def _written(obj: Object, enabled: frozenset[str], namespaces: Sequence[Object]) -> Written | None:
    try:
        return written(obj, None, enabled, namespaces=namespaces)
    except (UnknownKindError, UnknownFieldsError, DecodeError):
        return None  # told already, or a kind that no rule is about


def _gate_for(path: str, obj: Object, target: Target, namespaces: Sequence[Object]) -> str:
    """The gate that keeps the field when it is on; "" when there is none."""
    table = gates.known(target.version)
    for name, gate in table.items():
        if name in target.enabled:
            continue
        found = _written(obj, target.enabled | {name, *gate.needs}, namespaces)
        if found is not None and not any(_covers(dropped, path) for dropped in found.dropped):
            return name
    return ""


def _covers(dropped: str, path: str) -> bool:
    return path == dropped or path.startswith((f"{dropped}.", f"{dropped}["))
