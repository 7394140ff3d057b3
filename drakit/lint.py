"""`drakit lint`: mistakes in manifests, with the place and what mends them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from clusters import gates
from clusters.embedded.apiserver.gates import enabled_gates
from conformance.report.layout import clean
from dra_api.decode import DecodeError
from drakit import json_lines
from drakit.json_lines import LineError
from drakit.offline import sources
from drakit.offline.linting import RULES, Finding, Severity, Target, lint
from drakit.offline.settings import chosen_gates, json_option
from drakit.offline.writing import UnknownFieldsError, UnknownKindError, written
from drakit.output import UserError, counted, write_out

_SCHEMA_VERSION: Final = 1
_KEYS: Final = ("object", "old", "featureGates", "namespace")


@click.command("lint")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option(
    "--old",
    "old_files",
    multiple=True,
    metavar="FILE",
    help="Manifests as they are now: what changes in a way that breaks users is a warning. May be repeated.",
)
@click.option(
    "--kubernetes-version",
    type=click.Choice(gates.VERSIONS),
    default=gates.LATEST,
    show_default=True,
    help="Kubernetes for which the manifests are meant.",
)
@click.option(
    "--feature-gates",
    metavar="GATE=true,...",
    default="",
    help="Gates that differ from its defaults; all: every gate of DRA.",
)
@click.option("--strict", is_flag=True, help="Let warnings count as faults.")
@click.option("--list", "show_list", is_flag=True, help="Show every rule, and stop.")
@json_option
@click.option("--jsonl", is_flag=True, help="Answer JSON lines of standard input (docs/lint.md).")
def command(
    files: tuple[str, ...],
    old_files: tuple[str, ...],
    kubernetes_version: str,
    feature_gates: str,
    strict: bool,
    show_list: bool,
    as_json: bool,
    jsonl: bool,
) -> int:
    """Find mistakes in manifests of DRA: in FILEs, folders of them, or - for standard input.

    \b
    drakit lint claim.yaml pod.yaml
    drakit lint deploy/ --kubernetes-version 1.35
    drakit lint new/ --old current/                   what an upgrade of a driver breaks

    Each finding has file, line, field, and behind -> what mends it. All files are looked at together: give slices and
    classes as well, and more is found. Helm templates have to be rendered first.

    \b
    Exit codes: 0 no faults (there may be warnings), 1 faults, 2 wrong usage, or files that cannot be
    read or hold no manifests.
    """
    if show_list:
        write_out(_listing(as_json=as_json))
        return 0
    if jsonl:
        json_lines.refuse_options("lint")
        return json_lines.serve(answer)
    if not files:
        raise UserError("which files? for example: drakit lint claim.yaml; --list shows the rules")
    target = Target(kubernetes_version, chosen_gates(feature_gates, kubernetes_version))
    new, old = list(sources.texts(files)), list(sources.texts(old_files))
    findings = lint(new, old, target)
    if not findings and all(sources.is_blank(text) for _, text in new):
        raise UserError(sources.NO_MANIFESTS.format(", ".join(files)))
    faults = sum(strict or finding.severity is Severity.FAULT for finding in findings)
    write_out(_json(findings, int(bool(faults))) if as_json else _text(findings))
    return int(bool(faults))


def answer(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """The answer to one JSON line. Raises LineError."""
    json_lines.check_keys(request, _KEYS, required=("object",))
    obj = json_lines.typed(request, "object", dict, {})
    old = json_lines.typed(request, "old", dict, None)
    namespace = json_lines.typed(request, "namespace", dict, None)
    enabled = enabled_gates(json_lines.feature_gates(request))
    if namespace is not None and not isinstance((namespace.get("metadata") or {}).get("name"), str):
        raise LineError("namespace: must be a Namespace with a name")
    try:
        found = written(obj, old, enabled, namespaces=[] if namespace is None else [namespace])
    except (UnknownKindError, UnknownFieldsError) as error:
        raise LineError(f"object: {error}") from None
    except DecodeError as error:
        raise LineError(f"object: {error.message}") from None
    errors = [{"field": error.field, "type": error.reason, "detail": error.detail} for error in found.errors]
    return {"object": found.object, "errors": errors}


def _text(findings: Sequence[Finding]) -> str:
    lines = [clean(f"{finding.severity}: {finding}") for finding in findings]
    counts = [
        counted(count, word)
        for severity, word in ((Severity.FAULT, "fault"), (Severity.WARNING, "warning"))
        if (count := sum(finding.severity is severity for finding in findings))
    ]
    return "\n".join([*lines, f"{', '.join(counts)}." if counts else "Nothing found."]) + "\n"


def _json(findings: Sequence[Finding], code: int) -> str:
    document = {
        "schemaVersion": _SCHEMA_VERSION,
        "exitCode": code,
        "findings": [finding.as_dict() for finding in findings],
    }
    return json.dumps(document, indent=2) + "\n"


def _listing(*, as_json: bool) -> str:
    rows = [
        {"rule": name, "severity": str(rule.severity), "meaning": rule.meaning}
        for name, rule in RULES.items()
    ]
    if as_json:
        return json.dumps(rows, indent=2) + "\n"
    widths = [max(len(row[key]) for row in rows) for key in ("rule", "severity")]
    return "".join(
        f"{row['rule'].ljust(widths[0])}  {row['severity'].ljust(widths[1])}  {row['meaning']}\n"
        for row in rows
    )
