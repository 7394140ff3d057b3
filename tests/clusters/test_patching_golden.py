"""Patches and field management answer as the libraries of a real API server do (tools/patchgolden)."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from clusters.embedded.apiserver.patching import (
    PatchError,
    apply,
    json_patch,
    merge_patch,
    shape_of,
    strategic_merge,
    update_fields,
)
from clusters.embedded.apiserver.patching.fields import FieldSet
from dra_api.decode import as_json, decode_object
from dra_api.schema import GVK, Message, load

TABLE = Path(__file__).parent / "data" / "patch_golden.json.gz"
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CASES: list[dict[str, Any]] = json.loads(
    gzip.decompress(TABLE.read_bytes()).replace(b'"T"', b'"2026-01-02T03:04:05Z"')
)


def cases(*ops: str) -> list[Any]:
    """The cases of these kinds of patches, named by their place in the table."""
    chosen = [(index, case) for index, case in enumerate(CASES) if case["op"] in ops]
    return [pytest.param(case, id=f"{case['op']}-{index}") for index, case in chosen]


def message_of(case: dict[str, Any]) -> Message:
    found = load().kind(GVK.of(case["apiVersion"], case["kind"]))
    assert found is not None
    return found


def patched(case: dict[str, Any]) -> Any:
    if case["op"] == "json":
        return json_patch(case["document"], case["patch"])
    if case["op"] == "merge":
        return merge_patch(case["document"], case["patch"])
    return strategic_merge(shape_of(message_of(case)), case["document"], case["patch"])


@pytest.mark.parametrize("case", cases("json", "merge", "strategic"))
def test_patch_gives_the_upstream_document_or_error(case: dict[str, Any]) -> None:
    before = json.dumps([case["document"], case["patch"]])
    wanted = case["answer"]
    if "code" not in wanted:
        assert patched(case) == wanted["result"]
    else:
        with pytest.raises(PatchError) as caught:
            patched(case)
        assert caught.value.code == wanted["code"]
        if case["op"] == "strategic":
            assert caught.value.message == wanted["error"]
    assert json.dumps([case["document"], case["patch"]]) == before


def compared(obj: dict[str, Any], gvk: GVK) -> tuple[Any, Any]:
    """The object in canonical form without its uid and entries, and the entries."""
    metadata = {key: item for key, item in obj["metadata"].items() if key not in ("uid", "managedFields")}
    bare = as_json(decode_object({**obj, "metadata": metadata}, gvk).object)
    return bare, obj["metadata"].get("managedFields", [])


@pytest.mark.parametrize("case", cases("fields"))
def test_writes_leave_the_upstream_object_and_entries(case: dict[str, Any]) -> None:
    gvk = GVK.of(case["apiVersion"], case["kind"])
    for write in case["writes"]:
        wanted = write["answer"]
        reset = FieldSet.of_fields(*write["reset"]) if write.get("reset") else FieldSet()
        common: dict[str, Any] = {
            "gvk": gvk,
            "manager": write["manager"],
            "now": NOW,
            "subresource": write.get("subresource", ""),
            "reset": reset,
        }
        live = write.get("live")
        if write["operation"] == "Update":
            result = update_fields(live, write["object"], **common)
        elif "code" not in wanted:
            result = apply(live, write["object"], force=write.get("force", False), **common)
        else:
            with pytest.raises(PatchError) as caught:
                apply(live, write["object"], force=write.get("force", False), **common)
            # The order of several problems in one object is chance upstream.
            lines = sorted(caught.value.message.splitlines())
            assert (caught.value.code, lines) == (wanted["code"], sorted(wanted["error"].splitlines()))
            continue
        assert compared(result, gvk) == compared(wanted["result"], gvk)
