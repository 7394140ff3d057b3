from __future__ import annotations

import re

from conformance import catalogue
from conformance.model import Level


def test_every_requirement_has_a_test_and_every_test_a_requirement() -> None:
    assert set(catalogue.tests()) == set(catalogue.requirements())


def test_every_file_of_records_belongs_to_an_area() -> None:
    for suite, areas in catalogue.SUITES.items():
        assert {path.stem for path in (catalogue.ROOT / suite).glob("*.yaml")} == set(areas)


def test_ids_follow_subject_area_number() -> None:
    for requirement_id in catalogue.requirements():
        assert re.fullmatch(r"[A-Z]{3}-[A-Z]{2,5}-\d{2}", requirement_id)


def test_rules_are_single_sentences_with_a_source() -> None:
    for requirement in catalogue.requirements().values():
        assert requirement.rule.endswith(".") and requirement.rule[0].isupper(), requirement.id
        assert requirement.source, requirement.id


def test_the_catalogue_holds_the_requirements_of_the_driver_contract() -> None:
    musts = [r for r in catalogue.requirements().values() if r.level is Level.MUST and r.subject == "driver"]
    assert len(musts) >= 35


def test_hooks_named_by_requirements_exist_in_descriptors() -> None:
    from clusters.descriptor import HOOKS

    for requirement in catalogue.requirements().values():
        assert set(requirement.hooks) <= set(HOOKS), requirement.id


def test_the_reference_page_is_current() -> None:
    from tools import reference

    assert reference.TARGET.read_text(encoding="utf-8") == reference.render(), "run python -m tools.reference"


def test_every_field_fault_that_is_cited_is_explained() -> None:
    page = (catalogue.ROOT.parent / "docs" / "sources.md").read_text(encoding="utf-8")
    explained = set(re.findall(r"^\| (\d+) \|", page, re.MULTILINE))
    sources = " ".join(word for r in catalogue.requirements().values() for word in r.source)
    assert set(re.findall(r"field fault (\d+)", sources)) == explained


def test_every_word_of_needs_is_explained_and_used_by_a_tier() -> None:
    from clusters.embedded.cluster import EmbeddedCluster

    words = set(catalogue.tier_capabilities())
    for requirement in catalogue.requirements().values():
        assert set(requirement.needs) <= words, requirement.id
    assert words >= EmbeddedCluster.CAPABILITIES


def test_gates_exist_in_every_version_that_a_requirement_is_for_or_the_newest() -> None:
    from clusters.gates import GATES, LATEST

    for requirement in catalogue.requirements().values():
        assert set(requirement.gates) <= set(GATES[LATEST]), requirement.id
