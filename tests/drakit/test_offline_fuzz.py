"""Manifests with anything in them: a mistake of the user is told as one, and nothing else ever breaks."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from test_json_lines import damaged

from drakit.allocate import document
from drakit.explain import text
from drakit.offline import inventory, sources
from drakit.offline.explaining import explain_claim, explain_pod
from drakit.offline.linting import Target, lint
from drakit.offline.outlook import Outlook
from drakit.offline.settings import chosen_gates
from drakit.output import UserError

CASES = Path(__file__).with_name("explain")
GATES = chosen_gates("all")
WORLDS: list[list[Any]] = [
    list(yaml.load_all(path.read_text(), yaml.CSafeLoader)) for path in sorted(CASES.glob("*.yaml"))
]


@st.composite
def manifests(draw: st.DrawFn) -> str:
    """The manifests of one of the cases of drakit explain, with up to two values that do not belong there."""
    documents = list(draw(st.sampled_from(WORLDS)))
    for _ in range(draw(st.integers(1, 2))):
        index = draw(st.integers(0, len(documents) - 1))
        documents[index] = draw(damaged(documents[index]))
    return "\n---\n".join(map(json.dumps, documents))  # JSON is YAML


@settings(max_examples=150, deadline=None)
@given(manifests())
def test_damaged_manifests_are_refused_or_answered(found: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.yaml")
        path.write_text(found)
        try:
            world = sources.world([str(path)])
        except UserError as error:
            assert error.message.startswith(f"{path}:")
            return
    outlook = Outlook(world, GATES)
    for pod in outlook.pods():
        text(explain_pod(outlook, pod))
    for claim in list(outlook.all_claims.values()):
        text(explain_claim(outlook, claim))
    json.dumps(inventory.document(outlook, inventory.rows(outlook)))
    json.dumps(document(outlook.run()))


@settings(max_examples=150, deadline=None)
@given(st.one_of(manifests(), st.text(max_size=40)))
def test_anything_can_be_linted(found: str) -> None:
    for finding in lint([("x.yaml", found)], [("old.yaml", found)], Target("1.37", GATES)):
        assert str(finding)
        assert finding.line >= 1
