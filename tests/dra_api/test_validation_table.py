from __future__ import annotations

import copy
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dra_api.conversion import convert
from dra_api.defaults import apply_defaults
from dra_api.features import DEFAULTS_1_37
from dra_api.validation import validate_create, validate_status_update, validate_update

# Causes recorded from the validation code of kubernetes v1.37.2, with all gates of DRA on; each line was compared.
CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data" / "validation.json").read_text(encoding="utf-8")
)
GATES = frozenset(DEFAULTS_1_37)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def prepared(obj: dict[str, Any]) -> dict[str, Any]:
    result = copy.deepcopy(obj)
    apply_defaults(result, NOW)
    return convert(result, "resource.k8s.io/v1") if result["apiVersion"].endswith("/v1beta1") else result


@pytest.mark.parametrize("operation", ["create", "update", "status"])
def test_causes_are_those_of_a_server(operation: str) -> None:
    cases = [case for case in CASES if case["operation"] == operation]
    assert cases
    for case in cases:
        new = prepared(case["object"])
        if operation == "create":
            errors = validate_create(new, GATES, case["object"]["apiVersion"])
        else:
            validate = validate_update if operation == "update" else validate_status_update
            errors = validate(new, prepared(case["old"]), GATES)
        seen = [[error.reason, error.field, error.message] for error in errors]
        assert seen == case["causes"], case["object"]
