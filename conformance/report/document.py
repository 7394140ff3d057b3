"""The JSON report: one versioned document with everything a reader or a machine needs (docs/report.md)."""

from __future__ import annotations

import collections
import json
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.model import Level, Result, Verdict

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Context:
    """What was tested, by what, where.

    `started` is RFC 3339, `gates` are those that differ from the defaults in some cluster of the run, `options` the
    words of the command line that choose the kind of cluster.
    """

    driver: str
    descriptor: str
    capabilities: Sequence[str]
    tier: str
    kubernetes: str
    kit: str
    catalogue: str
    started: str
    gates: Mapping[str, bool] = field(default_factory=dict)
    options: Sequence[str] = ()


def exit_code(results: Iterable[Result]) -> int:
    """The highest that applies: what could not be judged counts more than what failed.

    3 the kit broke, 2 the descriptor does not work, 1 a declared MUST failed, 0 all declared MUSTs hold; 4 nothing
    was tested.
    """
    everything = list(results)
    errors = [result for result in everything if result.verdict is Verdict.ERROR]
    if errors:
        return 2 if all(result.mistake for result in errors) else 3
    if any(
        result.verdict is Verdict.FAIL and result.requirement.level is Level.MUST for result in everything
    ):
        return 1
    return 0 if any(result.verdict.tested for result in everything) else 4


def reproduce(context: Context, result: Result) -> str:
    """The command that runs this one requirement again."""
    words = [context.descriptor, *context.options, "--focus", result.requirement.id]
    return f"drakit conformance {shlex.join(words)}"


def build(context: Context, results: Sequence[Result], seconds: float) -> dict[str, Any]:
    """The report document."""
    return {
        "schemaVersion": SCHEMA_VERSION,
        "kit": {"name": "drakit", "version": context.kit, "catalogueVersion": context.catalogue},
        "driver": {
            "name": context.driver,
            "descriptor": context.descriptor,
            "capabilities": sorted(context.capabilities),
        },
        "cluster": {"tier": context.tier, "kubernetes": context.kubernetes, "gates": dict(context.gates)},
        "started": context.started,
        "seconds": round(seconds, 3),
        "exitCode": exit_code(results),
        "summary": _summary(results),
        "features": _features(context, results),
        "results": [_result(context, result) for result in results],
    }


def _summary(results: Iterable[Result]) -> dict[str, dict[str, int]]:
    counts = {str(level): dict.fromkeys(map(str, Verdict), 0) for level in Level}
    for result in results:
        counts[str(result.requirement.level)][str(result.verdict)] += 1
    return counts


def _features(context: Context, results: Iterable[Result]) -> dict[str, str]:
    """One word per capability that a requirement asks about; "not declared" never counts as a pass."""
    verdicts: dict[str, list[Verdict]] = collections.defaultdict(list)
    for result in results:
        if result.requirement.capability:
            verdicts[result.requirement.capability].append(result.verdict)
    matrix: dict[str, str] = {}
    for capability, found in sorted(verdicts.items()):
        if capability not in context.capabilities:
            matrix[capability] = "not declared"
        elif any(verdict in (Verdict.FAIL, Verdict.ERROR) for verdict in found):
            matrix[capability] = "fail"
        elif any(verdict.tested for verdict in found):
            matrix[capability] = "pass"
        else:
            matrix[capability] = "not tested"
    return matrix


def _result(context: Context, result: Result) -> dict[str, Any]:
    requirement = result.requirement
    record: dict[str, Any] = {
        "id": requirement.id,
        "level": str(requirement.level),
        "area": requirement.area,
        "subject": requirement.subject,
        "rule": requirement.rule,
        "source": list(requirement.source),
        "verdict": str(result.verdict),
        "seconds": round(result.seconds, 3),
    }
    if result.reason:
        record["reason"] = result.reason
    if result.cause is not None:
        record["cause"] = str(result.cause)
    if result.verdict in (Verdict.FAIL, Verdict.KNOWN_GAP, Verdict.ERROR):
        if result.verdict is Verdict.ERROR:
            record["cause"] = "input" if result.mistake else "kit"
        record |= {"expected": result.expected, "seen": result.seen, "reproduce": reproduce(context, result)}
        record["evidence"] = [
            {"kind": item.kind, "title": item.title, "text": item.text} for item in result.evidence
        ]
    return record


def write(path: Path, text: str) -> None:
    """Write a report file so that a reader sees the old or the new one, never a half."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def to_json(document: Mapping[str, Any]) -> str:
    """The document as text, stable and readable."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
