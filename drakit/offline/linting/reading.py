"""From files to manifests, with what is wrong in their form."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from dra_api.conversion import GROUP, wrong_nesting
from dra_api.decode import DecodeError, decode_object, suggest
from dra_api.decode.json_text import plain
from dra_api.decode.manifests import fault_text, objects_in, unknown_kind
from dra_api.decode.objects import Walk
from dra_api.decode.problems import Fault, TypeMismatchError
from dra_api.decode.yaml_text import Document, documents
from dra_api.schema import GVK, Message, load
from drakit.offline.linting.model import Finding, Target
from drakit.offline.linting.places import elsewhere
from drakit.offline.linting.versions import version_findings
from drakit.offline.world import KINDS, Object, canonical

_LINE: Final = re.compile(r"(?:yaml: )?line (\d+): (.*)", re.S)
_CLAIM_SOURCE: Final = re.compile(r"resourceClaims\[\d+\]\.source$")
_KINDS_OF_FAULT: Final = {"duplicate": "duplicate", "type": "wrong-type", "value": "wrong-type"}
_OLD_FIELDS: Final = {
    (
        "ResourceClaim",
        "resourceClassName",
    ): "it named a class of Kubernetes before 1.31; requests name classes now"
    " (spec.devices.requests[0].exactly.deviceClassName)",
    ("ResourceSlice", "nodeAllocatableResourceMappings"): "it is of Kubernetes 1.36; since 1.37 the field is"
    " nodeAllocatableResources, with mapping and overhead for each resource",
}


@dataclass(frozen=True, eq=False)
class Manifest:
    """One object of a file.

    `object` is as it was written, `decoded` is without unknown fields, and `canonical` is what a server would hold in
    v1; None for kinds without a part in DRA.
    """

    file: str
    document: Document
    prefix: str
    object: Object
    decoded: Object
    canonical: Object | None

    @property
    def kind(self) -> str:
        """Its kind."""
        found = self.object.get("kind")
        return found if isinstance(found, str) else ""

    @property
    def name(self) -> str:
        """Its name, or the beginning of one that is generated."""
        metadata = self._metadata
        return str(metadata.get("name") or metadata.get("generateName") or "")

    @property
    def namespace(self) -> str:
        """Its namespace, `default` where none is named."""
        return str(self._metadata.get("namespace") or "default")

    @property
    def _metadata(self) -> Mapping[str, Any]:
        found = self.object.get("metadata")
        return found if isinstance(found, dict) else {}

    def finding(self, rule: str, path: str, text: str, remedy: str = "") -> Finding:
        """A finding about a field of it."""
        place = f"{self.prefix}.{path}" if self.prefix and path else self.prefix or path
        subject = f"{self.kind} {self.name}".strip()
        return Finding(rule, self.file, self.document.line_of(place), subject, path, text, remedy)


def read(file: str, text: str, target: Target, findings: list[Finding]) -> list[Manifest]:
    """The objects of a file as far as they can be read; what is wrong in their form goes to `findings`."""
    result = []
    try:
        for document in documents(text):
            for duplicate in document.duplicates:
                line, words = _place(duplicate, document.line)
                remedy = "remove one of them"
                findings.append(Finding("duplicate", file, line, "", "", words, remedy))
            if document.value is None:
                continue
            for prefix, value in objects_in(document.value):
                found = _manifest(file, document, prefix, plain(value), target, findings)
                if found is not None:
                    result.append(found)
    except DecodeError as error:
        line, words = _place(error.message, 1)
        remedy = "render the template first (helm template)" if "{{" in text else ""
        findings.append(Finding("syntax", file, line, "", "", f"this is no YAML: {words}", remedy))
    return result


def _place(text: str, line: int) -> tuple[int, str]:
    found = _LINE.fullmatch(text)
    return (int(found[1]), found[2]) if found else (line, text.removeprefix("yaml: "))


def _manifest(
    file: str, document: Document, prefix: str, value: Any, target: Target, findings: list[Finding]
) -> Manifest | None:
    if not isinstance(value, dict):
        line = document.line_of(prefix)
        findings.append(
            Finding(
                "kind", file, line, "", prefix, "this is no object", "write apiVersion, kind and metadata"
            )
        )
        return None
    bare = Manifest(file, document, prefix, value, {}, None)
    lacking = [name for name in ("apiVersion", "kind") if not isinstance(value.get(name), str)]
    if lacking:
        for name in lacking:
            text = f"{name} must be a string" if name in value else f"{name} is missing"
            findings.append(bare.finding("kind", name, text, f"set {name}"))
        return None
    gvk = GVK.of(value["apiVersion"], value["kind"])
    message = load().kind(gvk)
    if message is None:
        if gvk.group in ("", GROUP) or _is_known_group(gvk.group):
            findings.append(bare.finding("kind", "kind", unknown_kind(gvk), _newer(gvk)))
        return None  # other kinds, such as custom resources, are nobody's fault
    walk = Walk(collects=True)
    try:
        walk.message(value, message, "", ())
    except TypeMismatchError:  # pragma: no cover - the value is a map
        return None
    metadata = value.get("metadata")
    for fault in walk.faults:
        findings.append(_fault(bare, fault, message))
    if not isinstance(metadata, dict) or not (metadata.get("name") or metadata.get("generateName")):
        findings.append(bare.finding("name", "metadata.name", "the object has no name", "set metadata.name"))
        return None
    findings += version_findings(bare.finding, value["apiVersion"], value["kind"], target)
    if any(fault.kind in ("type", "value") for fault in walk.faults):
        return None
    known = gvk.kind in KINDS and gvk.group in ("", GROUP)
    decoded = decode_object(value, gvk).object
    return replace(bare, decoded=decoded, canonical=canonical(value, "default") if known else None)


def _is_known_group(group: str) -> bool:
    return any(known.group == group for known in load().kinds())


def _newer(gvk: GVK) -> str:
    if gvk.group == GROUP and any(
        known.kind == gvk.kind and known.group == GROUP for known in load().kinds()
    ):
        return f"write apiVersion: {GROUP}/v1 and the fields of that version"
    return ""


def _fault(manifest: Manifest, fault: Fault, message: Message) -> Finding:
    if fault.kind != "unknown":
        rule = _KINDS_OF_FAULT[fault.kind]
        remedy = "remove one of them" if rule == "duplicate" else ""
        return manifest.finding(rule, fault.path, fault_text(fault), remedy)
    return next(_unknown(manifest, fault, message))


def _unknown(manifest: Manifest, fault: Fault, message: Message) -> Iterator[Finding]:
    path = fault.path
    if _CLAIM_SOURCE.search(path):
        text = "source is gone since Kubernetes 1.31"
        remedy = "put resourceClaimName or resourceClaimTemplateName one level up, in its place"
        yield manifest.finding("removed-field", path, text, remedy)
    if (old := _OLD_FIELDS.get((manifest.kind.removesuffix("Template"), fault.name))) is not None:
        yield manifest.finding("removed-field", path, f"{fault.name} is gone", old)
    nesting = wrong_nesting(str(manifest.object["apiVersion"]), manifest.kind, path)
    if nesting is not None:
        words, _, remedy = nesting.partition("; ")
        yield manifest.finding("wrong-nesting", path, words, remedy)
    near = suggest(fault.name, fault.message)
    if near is not None:
        parent = path.rpartition(".")[0]
        right = f"{parent}.{near}" if parent else near
        yield manifest.finding(
            "unknown-field", path, f"{path} unknown; did you mean {right}", f"write {near}"
        )
    place = elsewhere(message, fault.name)
    if place is not None:
        yield manifest.finding(
            "wrong-place", path, f"{path} unknown; did you mean {place}", f"move it to {place}"
        )
    names = ", ".join(fault.message.fields) or "none"
    yield manifest.finding("unknown-field", path, "unknown field", f"allowed here are: {names}")
