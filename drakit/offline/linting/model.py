"""Rules, and what a finding says."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final


class Severity(enum.StrEnum):
    """Whether an API server or the scheduler refuses it, or it works otherwise than somebody may think."""

    FAULT = "fault"
    WARNING = "warning"


@dataclass(frozen=True)
class Rule:
    """One kind of mistake."""

    severity: Severity
    meaning: str


@dataclass(frozen=True)
class Target:
    """The cluster that manifests are for: its Kubernetes minor, and every gate."""

    version: str
    gates: Mapping[str, bool]

    @property
    def enabled(self) -> frozenset[str]:
        """The names of the gates that are on."""
        return frozenset(name for name, on in self.gates.items() if on)


@dataclass(frozen=True)
class Finding:
    """One mistake: where it stands, what it is, what mends it. `line` counts from 1, `path` may be empty."""

    rule: str
    file: str
    line: int
    subject: str
    path: str
    text: str
    remedy: str = ""

    @property
    def severity(self) -> Severity:
        """That of the rule."""
        return RULES[self.rule].severity

    def __str__(self) -> str:
        place = ": ".join(part for part in (f"{self.file}:{self.line}", self.subject, self.path) if part)
        remedy = f" -> {self.remedy}" if self.remedy else ""
        return f"{place}: {self.text} [{self.rule}]{remedy}"

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "rule": self.rule,
            "severity": str(self.severity),
            "file": self.file,
            "line": self.line,
            "object": self.subject,
            "field": self.path,
            "text": self.text,
            "remedy": self.remedy,
        }


_FAULT: Final = Severity.FAULT
_WARNING: Final = Severity.WARNING

RULES: Final[Mapping[str, Rule]] = {
    "syntax": Rule(_FAULT, "a document is no YAML or JSON"),
    "kind": Rule(_FAULT, "apiVersion and kind name something that does not exist"),
    "api-version": Rule(
        _WARNING, "the API version is deprecated, or served only by clusters that switch it on"
    ),
    "api-version-missing": Rule(_FAULT, "the Kubernetes version does not have the API version of the object"),
    "unknown-field": Rule(_FAULT, "the kind has no such field; API servers drop it, kubectl refuses it"),
    "wrong-nesting": Rule(_FAULT, "a field stands where another API version has it"),
    "wrong-place": Rule(_FAULT, "a field exists in the kind, but elsewhere"),
    "removed-field": Rule(_FAULT, "a field of an earlier Kubernetes that is gone"),
    "wrong-type": Rule(_FAULT, "a value has the wrong type"),
    "duplicate": Rule(_FAULT, "a field is set twice"),
    "name": Rule(_FAULT, "an object has no name"),
    "invalid": Rule(_FAULT, "API servers refuse the object"),
    "dropped": Rule(_FAULT, "API servers drop the field without a word, since its feature gate is off"),
    "server-warning": Rule(_WARNING, "API servers accept the object with a warning"),
    "class-is-driver": Rule(
        _WARNING, "the name of a driver stands where the name of a class belongs, or the reverse"
    ),
    "class-unknown": Rule(_WARNING, "classes are given, and the class that is asked for is not among them"),
    "class-selects-all": Rule(_WARNING, "a class without selectors matches every device of every driver"),
    "claim-unknown": Rule(
        _WARNING, "claims or templates are given, and the one that a Pod names is not among them"
    ),
    "claim-unused": Rule(_WARNING, "no container of a Pod uses a claim that it has"),
    "best-effort": Rule(
        _WARNING,
        "a Pod takes CPU or memory through a claim only: its QoS class is BestEffort, the first to be evicted",
    ),
    "selector-unguarded": Rule(
        _WARNING,
        "a selector fails for devices without an attribute, and Pods are not scheduled on any node then",
    ),
    "selector-fails": Rule(
        _FAULT, "a selector fails for a device that is given: Pods are not scheduled on any node"
    ),
    "selects-nothing": Rule(_WARNING, "the selectors of a class match none of the devices that are given"),
    "attribute-list": Rule(_WARNING, "a selector compares an attribute that is a list with a single value"),
    "attribute-type": Rule(_WARNING, "a selector compares an attribute with a value of another type"),
    "attribute-mixed": Rule(_WARNING, "devices of a driver publish an attribute with different types"),
    "attribute-changed": Rule(
        _WARNING, "an attribute changes its type, or is gone: selectors of users break"
    ),
}
