"""The bodies of wire_cases.json are decoded as Kubernetes 1.37 does (recorded by tools/schemagen/golden)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dra_api.decode import DecodeError, as_stored, decode_json, decode_object, decode_yaml, interpret
from dra_api.schema import GVK

DATA = Path(__file__).parent / "data"
CASES: list[dict[str, Any]] = json.loads((DATA / "wire_cases.json").read_text())
GOLDEN: dict[str, dict[str, Any]] = {
    entry["name"]: entry for entry in json.loads((DATA / "wire_golden.json").read_text())
}


def real_answer(case: dict[str, Any]) -> dict[str, Any]:
    """The golden record without the wire form; the scheme's name differs between client-go and the server."""
    record = {key: item for key, item in GOLDEN[case["name"]].items() if key in ("error", "object", "strict")}
    if "error" in record:
        record["error"] = record["error"].replace(
            "pkg/runtime/scheme.go:111", "pkg/api/legacyscheme/scheme.go:30"
        )
    return record


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_body_is_decoded_as_the_real_server_does(case: dict[str, Any]) -> None:
    default = GVK.of(case["apiVersion"], case["kind"])
    try:
        parse = decode_yaml if case.get("yaml") else decode_json
        value, duplicates = parse(case["body"].encode())
        gvk = interpret(value, default)
        decoded = decode_object(value, gvk, duplicates=duplicates)
    except DecodeError as error:
        prefix = f" cannot be handled as a {default.kind}: "
        before, found, after = error.message.partition(prefix)
        if not found:
            before, found, after = error.message.partition(" cannot be handled as a Nope: ")
        assert {"error": after if found else before} == real_answer(case)
        return
    answer: dict[str, Any] = {"object": as_stored(decoded.object)}
    if decoded.strict:
        answer["strict"] = decoded.strict
    expected = real_answer(case)
    assert answer == expected
    assert json.dumps(answer["object"]) == json.dumps(expected["object"]), "order of the fields"
