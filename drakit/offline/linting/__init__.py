"""Mistakes in manifests: rules as data, and what finds them."""

from __future__ import annotations

from collections.abc import Sequence

from .attributes import attribute_findings
from .model import RULES, Finding, Severity, Target
from .reading import Manifest, read
from .references import reference_findings
from .selectors import selector_findings
from .server import server_findings

__all__ = ["RULES", "Finding", "Severity", "Target", "lint"]


def lint(texts: Sequence[tuple[str, str]], old: Sequence[tuple[str, str]], target: Target) -> list[Finding]:
    """All findings about manifests, given as names of files and their texts, in the order of their places.

    `old` are the manifests that they replace.
    """
    findings: list[Finding] = []
    manifests: list[Manifest] = []
    for name, text in texts:
        manifests += read(name, text, target, findings)
    before: list[Manifest] = []
    for name, text in old:
        before += read(name, text, target, [])
    findings += server_findings(manifests, target)
    findings += reference_findings(manifests, target)
    findings += selector_findings(manifests)
    findings += attribute_findings(manifests, before)
    order = {name: index for index, (name, _) in enumerate(texts)}
    return sorted(dict.fromkeys(findings), key=lambda finding: (order.get(finding.file, 0), finding.line))
