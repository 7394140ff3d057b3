"""What the API server says about CEL in classes and claims."""

from __future__ import annotations

from typing import Any

from dra_api.features import ENABLED_1_37
from dra_api.validation import validate_create, validate_update

GATES = frozenset(ENABLED_1_37)


def _class(*expressions: str) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "c", "uid": "u", "resourceVersion": "1"},
        "spec": {"selectors": [{"cel": {"expression": expression}} for expression in expressions]},
    }


def _causes(expression: str, gates: frozenset[str] = GATES) -> list[str]:
    return [str(error) for error in validate_create(_class(expression), gates)]


def _claim(*attributes: tuple[str, str]) -> dict[str, Any]:
    derived = [{"name": name, "expression": expression} for name, expression in attributes]
    exactly = {
        "deviceClassName": "c",
        "allocationMode": "ExactCount",
        "count": 1,
        "derivedAttributes": derived,
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {
            "devices": {
                "requests": [{"name": "r", "exactly": exactly}],
                "constraints": [{"requests": ["r"], "matchAttribute": name} for name, _ in attributes],
            }
        },
    }


def test_good_expression_passes() -> None:
    assert _causes('device.attributes["d"].model == "A100"') == []


def test_empty_expression_is_a_syntax_error_without_a_place() -> None:
    assert _causes("") == [
        (
            'spec.selectors[0].cel.expression: Invalid value: "": compilation failed: ERROR: <input>:1:0: '
            "Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', "
            "'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
        )
    ]


def test_wrong_operands_are_shown_with_the_expression() -> None:
    expression = "device.driver == 1"
    assert _causes(expression) == [
        (
            'spec.selectors[0].cel.expression: Invalid value: "device.driver == 1": compilation failed: ERROR: '
            "<input>:1:15: found no matching overload for '_==_' applied to '(string, int)'\n"
            " | device.driver == 1\n"
            " | ..............^"
        )
    ]


def test_result_must_be_a_bool() -> None:
    assert _causes("1") == [
        (
            'spec.selectors[0].cel.expression: Invalid value: "1": '
            "must evaluate to bool or the unknown type, not int"
        )
    ]


def test_estimate_above_the_limit_is_forbidden() -> None:
    expression = "lists.range(2000000).all(x, x >= 0)"
    assert _causes(expression) == [
        "spec.selectors[0].cel.expression: Forbidden: too complex, exceeds cost limit"
    ]


def test_constant_that_cannot_be_converted_is_an_internal_error() -> None:
    assert _causes('int("x") == 1') == [
        (
            "spec.selectors[0].cel.expression: Internal error: program instantiation failed: "
            "type conversion error from 'string' to 'int'"
        )
    ]


def test_length_is_counted_in_bytes_and_long_expressions_are_not_compiled() -> None:
    # 10240 bytes are allowed: 2 for the quotes, the rest in characters of two bytes each.
    longest = '"' + "é" * 5112 + '" == "a"'
    assert len(longest.encode()) == 10233
    assert _causes(longest) == []
    assert _causes(longest + "        ") == [
        "spec.selectors[0].cel.expression: Too long: may not be more than 10240 bytes"
    ]


def test_gates_decide_what_new_expressions_may_use() -> None:
    expression = "device.allowMultipleAllocations"
    assert _causes(expression) == []
    (cause,) = _causes(expression, GATES - {"DRAConsumableCapacity"})
    assert "undefined field 'allowMultipleAllocations'" in cause


def test_unchanged_selectors_of_a_stored_class_are_not_judged_again() -> None:
    old = _class("nope")
    new = _class("nope")
    new["metadata"]["labels"] = {"a": "b"}
    assert validate_update(new, old, GATES) == []


def test_changed_selectors_are_judged_all() -> None:
    errors = validate_update(_class("nope", "true"), _class("nope"), GATES)
    assert [error.field for error in errors] == ["spec.selectors[0].cel.expression"]


def test_derived_attributes_share_a_cost_limit() -> None:
    # Each costs 1 + 10 for the list of 900000 numbers and 900000 for it: together above 1000000.
    costly = "lists.range(900000).size()"
    errors = validate_create(_claim(("d/a", costly), ("d/b", costly)), GATES | {"DRADerivedAttributes"})
    assert [str(error) for error in errors] == [
        (
            "spec.devices: Forbidden: too complex, total cost of derived attribute CEL expressions in the claim "
            "exceeds cost limit"
        )
    ]


def test_derived_attribute_must_be_a_scalar() -> None:
    errors = validate_create(_claim(("d/a", "device")), GATES | {"DRADerivedAttributes"})
    assert [str(error) for error in errors] == [
        (
            'spec.devices.requests[0].exactly.derivedAttributes[0].expression: Invalid value: "device": '
            "must evaluate to a primitive scalar (string, integer, boolean, semver), not kubernetes.DRADevice"
        )
    ]
