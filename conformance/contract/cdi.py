"""Tests of the CDI specs that a driver writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conformance.catalogue import requirement
from conformance.contract.bench import Bench
from conformance.contract.claims import Config
from conformance.contract.plugin import Prepared
from conformance.model import Failed, NotTestable, check
from node_api import cdi


def definitions(bench: Bench) -> Mapping[str, cdi.Definition]:
    """Every CDI id that a runtime could resolve now."""
    return cdi.scan([bench.node.paths.cdi]).devices


def edits(definition: cdi.Definition | None) -> str:
    """What an id adds to a container, by its file and by its device."""
    return f"{definition.file.spec.edits} {definition.device.edits}" if definition else ""


def cdi_ids(answer: Prepared) -> list[str]:
    """The CDI ids of an answer. Raises NotTestable when there is none: a driver may do without CDI."""
    found = [cdi_id for device in answer.devices for cdi_id in device.cdi_ids]
    if not found:
        raise NotTestable(f"the driver answers no CDI id ({answer})")
    return found


def resolvable(bench: Bench, answer: Prepared) -> None:
    """Raise Failed unless a runtime could resolve every CDI id of an answer now."""
    known = definitions(bench)
    for cdi_id in cdi_ids(answer):
        check(
            cdi_id in known,
            f"a definition of {cdi_id}",
            f"the CDI directory defines {', '.join(known) or 'nothing'}",
        )


def check_no_new_files(bench: Bench, before: Mapping[str, bytes]) -> None:
    """Raise Failed when the CDI directory holds files that were not there before."""
    left = sorted(set(bench.cdi_files()) - set(before))
    check(not left, "the CDI directory as before the claim", f"new files {', '.join(left)}")


def check_same_files(bench: Bench, before: Mapping[str, bytes]) -> None:
    """Raise Failed when a CDI file that was there before has gone or has other content."""
    now = bench.cdi_files()
    changed = sorted(name for name, text in before.items() if now.get(name) != text)
    check(not changed, "the CDI files of the holder as before", f"changed: {', '.join(changed)}")


@requirement("DRV-CDI-01")
def ids_resolvable(bench: Bench) -> None:
    resolvable(bench, bench.prepare(bench.claim(*bench.devices(2, least=1))))


@requirement("DRV-CDI-02")
def files_valid(bench: Bench) -> None:
    bench.prepare(bench.claim(*bench.devices(2, least=1)))
    files = {
        name: content for name, content in bench.cdi_files().items() if name.endswith((".json", ".yaml"))
    }
    if not files:
        raise NotTestable("the driver writes no CDI file")
    for name, content in files.items():
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
    for configs in ((), _visible(bench), ()):
        claim = bench.claim(device, configs=configs)
        answer = bench.prepare(claim)
        known = definitions(bench)
        for cdi_id in cdi_ids(answer):
            content = edits(known.get(cdi_id))
            first = contents.setdefault(cdi_id, content)
            check(first == content, f"{cdi_id} as first defined: {first}", content or "no definition")
        bench.unprepare(claim)


def _visible(bench: Bench) -> Sequence[Config]:
    """A configuration that changes the edits, if the driver has one."""
    parameters = bench.descriptor.configs.visible
    return [Config(parameters)] if parameters and "opaque-config" in bench.descriptor.capabilities else []


@requirement("DRV-CDI-04")
def nothing_left(bench: Bench) -> None:
    devices = bench.devices(2, least=1)
    bench.warm_up(*devices)
    before = bench.cdi_files()
    claim = bench.claim(*devices)
    answer = bench.prepare(claim)
    bench.unprepare(claim)
    check_no_new_files(bench, before)
    traces = [
        name for name, text in bench.cdi_files().items() if claim.uid in name or claim.uid.encode() in text
    ]
    check(not traces, f"no trace of claim {claim.uid} ({answer})", f"{', '.join(traces)} still mentions it")
