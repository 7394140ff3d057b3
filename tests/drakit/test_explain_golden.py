"""What drakit explain says about small clusters: tests/drakit/explain/NAME.yaml gives NAME.txt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drakit.explain import text
from drakit.offline import sources
from drakit.offline.explaining import Document, explain_claim, explain_pod
from drakit.offline.outlook import Outlook
from drakit.offline.settings import chosen_gates

CASES = Path(__file__).with_name("explain")
NAMES = sorted(path.stem for path in CASES.glob("*.yaml"))


def explained(name: str) -> Document:
    path = CASES / f"{name}.yaml"
    _, _, _, kind, subject = path.read_text().splitlines()[0].split()
    outlook = Outlook(sources.world([str(path)]), chosen_gates(""))
    if kind == "pod":
        [pod] = [pod for pod in outlook.pods() if pod["metadata"]["name"] == subject]
        return explain_pod(outlook, pod)
    return explain_claim(outlook, outlook.all_claims["default", subject])


def test_there_are_enough_cases() -> None:
    assert len(NAMES) >= 15


@pytest.mark.parametrize("name", NAMES)
def test_the_text_is_as_it_was_read_and_found_right(name: str) -> None:
    assert text(explained(name)) == (CASES / f"{name}.txt").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_the_document_is_json_and_has_one_reason_for_each_node_that_cannot(name: str) -> None:
    document = json.loads(json.dumps(explained(name)))
    for node in document["nodes"]:
        assert node["possible"] is (node["blocking"] is None and node["refusedBy"] is None)
    if document["state"] == "impossible":
        assert document["message"] and not any(node["possible"] for node in document["nodes"])


def test_the_document_has_each_device_with_its_outcome() -> None:
    [node] = explained("counters")["nodes"]
    [request] = node["requests"]
    assert {device["device"]: device["outcome"] for device in request["devices"]} == {
        "gpu.example.com/n1/whole": "counters",
        "gpu.example.com/n1/half-0": "in-use",
        "gpu.example.com/n1/half-1": "free",
    }
    assert (request["wanted"], request["seen"], request["candidates"], request["free"]) == (2, 3, 3, 1)
    assert request["counts"] == {"in-use": 1, "counters": 1, "free": 1}
    assert (node["blocking"]["request"], node["blocking"]["reason"]) == ("r", "counters")
