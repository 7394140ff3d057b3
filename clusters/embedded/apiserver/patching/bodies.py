"""Bodies of PATCH requests read, and results that the kind cannot hold refused (api-machinery sections 6 and 8)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

from clusters.embedded.apiserver.patching.errors import PatchError, bad_patch
from clusters.embedded.apiserver.patching.gotext import go_text
from clusters.embedded.apiserver.patching.json_patch import check_operations
from dra_api.decode import DecodeError, decode_json, decode_yaml
from dra_api.errors import escaped

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
PATCH_TYPES: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
"""The media types of PATCH; anything else is 415."""

_OPERATION_FIELDS: Final = frozenset(("op", "path", "from", "value"))


@dataclass(frozen=True)
class Body:
    """A patch as sent. `findings` are what strict decoding objects to, warnings otherwise."""

    value: Any
    findings: list[str] = field(default_factory=list)


def read_patch(media_type: str, body: bytes) -> Body:
    """Reads a body of one of PATCH_TYPES. Raises PatchError (400)."""
    if media_type == APPLY_PATCH:
        return _read_apply(body)
    try:
        value, duplicates = decode_json(body)
    except DecodeError as error:
        raise bad_patch("invalid JSON patch") from error
    value = _unmarked(value)
    if media_type != JSON_PATCH:
        return Body(value, duplicates)
    check_operations(value)
    unknown = [
        f'unknown field "[{index}].{name}"'
        for index, operation in enumerate(value or ())
        for name in operation or ()
        if name not in _OPERATION_FIELDS
    ]
    return Body(value, [f"json patch {finding}" for finding in [*unknown, *duplicates]])


def _unmarked(value: Any) -> Any:
    # The decoder marks maps with repeated names; the patched object must not report them once more.
    if isinstance(value, dict):
        return {name: _unmarked(item) for name, item in value.items()}
    return [_unmarked(item) for item in value] if isinstance(value, list) else value


def _read_apply(body: bytes) -> Body:
    try:
        value, duplicates = decode_yaml(body)
    except DecodeError as error:
        raise bad_patch(f"error encoding patch: {error}") from error
    if value is None:
        value = {}
    if not isinstance(value, dict):
        kind = "array" if isinstance(value, list) else "string" if isinstance(value, str) else "number"
        target = "map[string]interface {}"
        raise bad_patch(
            "error decoding patch: error unmarshaling JSON: while decoding JSON: "
            f"json: cannot unmarshal {kind} into Go value of type {target}"
        )
    return Body(value, duplicates)


def _merged_into(live: Any, patch: Any) -> Any:
    """A strategic patch after its merge: maps that were not there before went in as they are, less their nulls."""
    if not isinstance(patch, dict):
        return patch
    if isinstance(live, dict):
        return {key: _merged_into(live.get(key), value) for key, value in patch.items()}
    return {key: _merged_into(None, value) for key, value in patch.items() if value is not None}


def unfit(media_type: str, patch: Any, patched: Any, detail: str, live: Any = None) -> PatchError:
    """422: the patched object is none of its kind. It quotes the object, for a strategic patch the patch."""
    if media_type == STRATEGIC_PATCH:
        shown = go_text(_merged_into(live, patch))
    else:
        shown = escaped(json.dumps(patched, ensure_ascii=False, separators=(",", ":"), sort_keys=True))
    message = f"Invalid value: {json.dumps(shown, ensure_ascii=False)}: {detail}"
    cause = {"reason": "FieldValueInvalid", "message": message, "field": "patch"}
    return PatchError(422, "Invalid", f' "" is invalid: patch: {message}', {"causes": [cause]})


def strict_text(findings: list[str]) -> str:
    """What strict decoding of a YAML body says about repeated fields."""
    return "error converting YAML to JSON: yaml: unmarshal errors:\n" + "\n".join(
        f"  {text}" for text in findings
    )


def strict_detail(findings: list[str]) -> str:
    """What strict decoding says about unknown and repeated fields."""
    return "strict decoding error: " + ", ".join(findings)
