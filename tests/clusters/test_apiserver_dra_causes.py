"""What a client sees of the rules for DRA objects: each violation once, with paths of the version it sent."""

from __future__ import annotations

from typing import Any

from apiserver_harness import CLAIMS, SLICES, Http


def causes(answer: Any) -> list[tuple[str, str]]:
    assert answer.code == 422, answer.body
    return [(cause["field"], cause["reason"]) for cause in answer.json["details"]["causes"]]


def test_a_bad_name_is_one_cause(http: Http) -> None:
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "A"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "n1",
            "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 0},
        },
    }
    assert causes(http.post(SLICES, body)) == [
        ("metadata.name", "FieldValueInvalid"),
        ("spec.pool.resourceSliceCount", "FieldValueInvalid"),
    ]


def test_an_immutable_claim_is_one_cause(http: Http) -> None:
    body: dict[str, Any] = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "immutable"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
    }
    created = http.created(CLAIMS, body)
    assert created["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1
    created["spec"]["devices"]["requests"][0]["exactly"]["count"] = 2
    answer = http.put(f"{CLAIMS}/immutable", created)
    assert causes(answer) == [("spec", "FieldValueInvalid")]
    assert answer.json["details"]["causes"][0]["message"] == "Invalid value: null: field is immutable"
