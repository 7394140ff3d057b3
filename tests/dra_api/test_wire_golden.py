"""Protobuf bytes that Go's generated code wrote for the bodies of wire_cases.json (tools/schemagen/golden)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dra_api import wire
from dra_api.schema import GVK

DATA = Path(__file__).parent / "data"
GOLDEN: list[dict[str, Any]] = [
    entry for entry in json.loads((DATA / "wire_golden.json").read_text()) if "wire" in entry
]
NO_KIND = GVK("", "", "")
# The object does not show what the bytes do: a name that stands twice, a nil byte slice in a map.
OTHER_BYTES = {"claim opaque duplicates stay", "binary data null"}


@pytest.mark.parametrize("entry", GOLDEN, ids=lambda entry: str(entry["name"]))
def test_real_bytes_are_read_as_the_real_object(entry: dict[str, Any]) -> None:
    decoded = wire.decode_object(bytes.fromhex(entry["wire"]), NO_KIND)
    assert decoded == entry["object"]
    assert json.dumps(decoded) == json.dumps(entry["object"]), "order of the fields"


@pytest.mark.parametrize("entry", GOLDEN, ids=lambda entry: str(entry["name"]))
def test_object_is_written_in_the_real_bytes(entry: dict[str, Any]) -> None:
    if entry["name"] in OTHER_BYTES:
        return
    assert wire.encode_object(entry["object"]).hex() == entry["wire"]
