"""Tests of the CDI specs that a driver writes."""

from __future__ import annotations

import json
from collections.abc import Mapping

from conformance.catalogue import requirement
from conformance.contract.bench import Bench
from conformance.contract.plugin import Prepared
from conformance.model import Failed, check
from node_api import cdi


def definitions(bench: Bench) -> Mapping[str, cdi.Definition]:
    """Every CDI id that a runtime could resolve now."""
    return cdi.scan([bench.node.paths.cdi]).devices


def resolvable(bench: Bench, answer: Prepared) -> None:
    known = definitions(bench)
    for device in answer.devices:
        for cdi_id in device.cdi_ids:
            check(
                cdi_id in known,
                f"a definition of {cdi_id}",
                f"the CDI directory defines {', '.join(known) or 'nothing'}",
            )


@requirement("DRV-CDI-01")
def ids_resolvable(bench: Bench) -> None:
    answer = bench.prepare(bench.claim(*bench.devices(2)))
    resolvable(bench, answer)


@requirement("DRV-CDI-02")
def files_valid(bench: Bench) -> None:
    bench.prepare(bench.claim(*bench.devices(2)))
    for name, content in bench.cdi_files().items():
        if not name.endswith((".json", ".yaml")) or name.startswith("."):
            continue
        errors = [finding for finding in cdi.validate(content) if finding.severity == "error"]
        if errors:
            raise Failed(
                f"{name} is a valid CDI spec",
                "; ".join(f"{finding.where}: {finding.text}" for finding in errors),
            )


@requirement("DRV-CDI-03")
def ids_not_reused(bench: Bench) -> None:
    (device,) = bench.devices(1)
    contents: dict[str, str] = {}
    for _ in range(3):
        claim = bench.claim(device)
        answer = bench.prepare(claim)
        known = definitions(bench)
        for entry in answer.devices:
            for cdi_id in entry.cdi_ids:
                content = json.dumps(known.get(cdi_id), sort_keys=True, default=str)
                check(
                    contents.setdefault(cdi_id, content) == content,
                    f"{cdi_id} as first defined: {contents[cdi_id]}",
                    content,
                )
        bench.unprepare(claim)


@requirement("DRV-CDI-04")
def nothing_left(bench: Bench) -> None:
    # The first round lets the driver write what it keeps for good; the second one must leave nothing more.
    for first in (True, False):
        before = set(bench.cdi_files())
        claim = bench.claim(*bench.devices(2))
        answer = bench.prepare(claim)
        bench.unprepare(claim)
        leftover = set(bench.cdi_files()) - before
        if not first:
            check(
                not leftover,
                "the CDI directory as before the claim",
                f"new files {', '.join(sorted(leftover))}",
            )
        for path in (
            name
            for name, text in bench.cdi_files().items()
            if claim.uid.encode() in text or claim.uid in name
        ):
            raise Failed(f"no trace of claim {claim.uid} ({answer})", f"{path} still mentions it")
