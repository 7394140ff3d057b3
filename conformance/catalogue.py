"""The requirement catalogue: records from YAML, tests from the modules beside them."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from clusters.document import Reader, load_yaml
from clusters.gates import VERSIONS
from conformance.model import Isolation, KnownGap, Level, Requirement

ROOT = Path(__file__).parent
SUITES: Mapping[str, tuple[str, ...]] = {
    "contract": (
        "registration",
        "prepare",
        "unprepare",
        "config",
        "cdi",
        "restart",
        "slices",
        "publishing",
        "permissions",
        "lifecycle",
    ),
    "allocation": (
        "sentinel",
        "claims",
        "selection",
        "selectors",
        "alternatives",
        "scheduling",
        "deallocation",
        "preparation",
        "containers",
        "kubelet",
        "updates",
    ),
}
"""The areas of each suite, in the order of the catalogue; an area is a file of records with a module of tests."""
_NEEDS_OF_SUITES: Mapping[str, tuple[str, ...]] = {"contract": ("bare_nodes",)}
"""What a kind of cluster must be able to do for any requirement of a suite."""
REGISTRATION = "DRV-REG-01"
"""The requirement without which nothing else can be asked of a driver."""
SUBJECTS = ("driver", "apiserver", "scheduler", "controller-manager", "kubelet", "runtime")

Test = Callable[[Any], None]
_TESTS: dict[str, Test] = {}


def requirement(requirement_id: str) -> Callable[[Test], Test]:
    """Declare a function as the test of a requirement."""

    def register(test: Test) -> Test:
        known = _TESTS.setdefault(requirement_id, test)
        if known is not test:
            raise ValueError(f"{requirement_id} has two tests: {known.__qualname__} and {test.__qualname__}")
        return test

    return register


@functools.cache
def tests() -> Mapping[str, Test]:
    """The test of every requirement, by id."""
    for suite in SUITES:
        for area in SUITES[suite]:
            importlib.import_module(f"conformance.{suite}.{area}")
    return dict(_TESTS)


@functools.cache
def requirements() -> Mapping[str, Requirement]:
    """Every requirement by id, in catalogue order. Raises DocumentError when a record is wrong."""
    result: dict[str, Requirement] = {}
    for suite in SUITES:
        for area in SUITES[suite]:
            path = ROOT / suite / f"{area}.yaml"
            reader = Reader({"requirements": load_yaml(path)}, str(path))
            for record in reader.children("requirements"):
                parsed = _requirement(record, suite, area)
                if parsed.id in result:
                    record.problem("id", f"{parsed.id} is used twice")
                result[parsed.id] = parsed
            reader.finish()
    return result


@functools.cache
def capabilities() -> Mapping[str, str]:
    """The capability vocabulary: word to meaning."""
    words: Mapping[str, str] = load_yaml(ROOT / "capabilities.yaml")
    return words


@functools.cache
def tier_capabilities() -> Mapping[str, str]:
    """The vocabulary of what kinds of clusters can do: word to meaning."""
    words: Mapping[str, str] = load_yaml(ROOT / "tiers.yaml")["capabilities"]
    return words


@functools.cache
def version() -> str:
    """Version of the catalogue."""
    return str(load_yaml(ROOT / "catalogue.yaml")["version"])


def _requirement(record: Reader, suite: str, area: str) -> Requirement:
    name = record.take("id", str, required=True)
    subject = record.choice("subject", SUBJECTS, "driver")
    registration = (REGISTRATION,) if subject == "driver" and name != REGISTRATION else ()
    result = Requirement(
        id=name,
        level=Level(record.choice("level", list(Level), "MUST", required=True) or "MUST"),
        rule=record.take("rule", str, required=True),
        subject=subject,
        source=tuple(record.strings("source", required=True)),
        area=area,
        # A gap that a released version has shows that the test can fail.
        mutants=tuple(record.strings("mutants", required=not record.has("known_gaps"))),
        isolation=Isolation(record.choice("isolation", list(Isolation), "parallel")),
        gates=tuple(record.strings("gates")),
        since=record.choice("since", VERSIONS, Requirement.since),
        until=record.choice("until", VERSIONS),
        capability=record.choice("capability", capabilities()),
        needs=(*_NEEDS_OF_SUITES.get(suite, ()), *record.strings("needs", allowed=tier_capabilities())),
        hooks=tuple(record.strings("hooks")),
        known_gaps=record.each("known_gaps", _known_gap),
        seconds=record.take("seconds", float, 1.0),
        skips_time=record.take("skips_time", bool),
        suite=suite,
        after=(*registration, *record.strings("after")),
    )
    record.end()
    return result


def _known_gap(record: Reader) -> KnownGap:
    gap = KnownGap(
        record.choice("component", SUBJECTS, required=True),
        tuple(record.strings("versions", required=True, allowed=VERSIONS)),
        record.take("issue", str, required=True),
    )
    record.end()
    return gap
