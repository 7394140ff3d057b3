"""The machine interface: whatever stands in a line, it has one answer, and the lines behind it have theirs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from cli_kit import Cli
from hypothesis import given, settings
from hypothesis import strategies as st

from drakit import allocate, lint
from drakit.json_lines import reply
from drakit.offline.expressions import Evaluator

Answer = Callable[[Mapping[str, Any]], Mapping[str, Any]]

NODE = {"metadata": {"name": "n1"}}
CLASS = {"metadata": {"name": "gpu"}, "spec": {}}
SLICE = {
    "metadata": {"name": "s1"},
    "spec": {
        "driver": "gpu.example.com",
        "nodeName": "n1",
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "a", "attributes": {"x": {"int": 1}}, "capacity": {"memory": {"value": "8Gi"}}}],
    },
}
REQUEST = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
CLAIM = {
    "metadata": {"name": "c", "namespace": "default"},
    "spec": {"devices": {"requests": [{"name": "r", "exactly": REQUEST}]}},
}
ALLOCATE = {
    "node": NODE,
    "claims": [CLAIM],
    "deviceClasses": [CLASS],
    "resourceSlices": [SLICE],
    "allocated": {"devices": ["gpu.example.com/n1/b"], "shared": [], "capacity": {}},
    "featureGates": {"DRAAdminAccess": True},
}
CEL = {
    "expression": 'device.attributes["gpu.example.com"].x == 1',
    "driver": "gpu.example.com",
    "attributes": {"x": {"int": 1}},
    "capacity": {"memory": {"value": "8Gi"}},
    "allowMultipleAllocations": False,
    "featureGates": {"DRAListTypeAttributes": False},
    "environment": "new",
}
LINT = {
    "object": {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **CLAIM},
    "old": None,
    "featureGates": {"DRADeviceTaints": False},
}
INTERFACES: dict[str, tuple[dict[str, Any], Answer, set[str]]] = {
    "allocate": (ALLOCATE, allocate.Answers().answer, {"results"}),
    "cel": (CEL, Evaluator().answer, {"match", "estimatedCost", "actualCost"}),
    "lint": (LINT, lint.answer, {"object", "errors"}),
}

leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.just([]),
    st.just({}),
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=4), inner, max_size=2)
    ),
    max_leaves=5,
)


@st.composite
def damaged(draw: st.DrawFn, line: dict[str, Any]) -> dict[str, Any]:
    """The line with another value, or none, at one of its places."""
    copy: Any = json.loads(json.dumps(line))
    at: Any = copy
    while True:
        keys = list(at) if isinstance(at, dict) else range(len(at))
        key = draw(st.sampled_from(list(keys)))
        inner = at[key]
        if isinstance(inner, dict | list) and inner and draw(st.integers(0, 3)):
            at = inner
            continue
        if draw(st.booleans()) and isinstance(at, dict):
            del at[key]
        else:
            at[key] = draw(values)
        return copy  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", INTERFACES)
def test_a_good_line_has_the_keys_of_the_interface(name: str) -> None:
    line, answer, keys = INTERFACES[name]
    assert set(reply(json.dumps(line).encode(), answer)) == keys


@pytest.mark.parametrize("name", INTERFACES)
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_a_damaged_line_has_an_answer_and_is_never_a_fault_of_the_kit(name: str, data: st.DataObject) -> None:
    line, answer, _ = INTERFACES[name]
    found = reply(json.dumps(data.draw(damaged(line))).encode(), answer)
    assert json.loads(json.dumps(found)) == found
    assert "the kit itself broke" not in str(found.get("error", "")), found


@pytest.mark.parametrize("name", INTERFACES)
@settings(max_examples=100, deadline=None)
@given(line=st.one_of(st.binary(max_size=30), values.map(lambda value: json.dumps(value).encode())))
def test_any_line_has_an_answer(name: str, line: bytes) -> None:
    found = reply(line, INTERFACES[name][1])
    assert set(found) == {"error"} or "{" in line.decode(errors="replace")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"", "no JSON"),
        (b"[]", "must be a JSON object, not a list"),
        (b'{"expression": NaN}', "NaN is no number"),
        (b"\xff", "no UTF-8"),
        (b'{"expresion": "true"}', 'unknown key "expresion", did you mean "expression"?'),
        (b'{"driver": "d"}', "expression: required"),
        (b'{"expression": 1}', "expression: must be a string, not a number"),
        (b'{"expression": "true", "environment": "old"}', 'must be "new" or "stored", not "old"'),
        (b'{"expression": "true", "featureGates": {"DRADeviceTaint": true}}', 'did you mean "DRADeviceTaints"?'),
        (b'{"expression": "true", "featureGates": {"DRADeviceTaints": 1}}', "must be true or false, not a number"),
        (b'{"expression": "true", "attributes": {"a": {"int": "1"}}}', "cannot unmarshal string"),
        (b'{"expression": "true", "attributes": {"a": {"it": 1}}}', 'unknown field "attributes.a.it"'),
        (b"[" * 100_000, "nested too deeply"),
    ],
)  # fmt: skip
def test_the_answer_says_what_is_wrong(line: bytes, words: str) -> None:
    found = reply(line, Evaluator().answer)
    assert words in found["error"] or (line.startswith(b"[[") and "JSON" in found["error"])


def test_keys_of_the_caller_are_ignored() -> None:
    assert "match" in reply(json.dumps({**CEL, "id": 7}).encode(), Evaluator().answer)


def test_texts_and_costs_are_those_of_the_api_server() -> None:
    answer = Evaluator().answer
    assert answer({"expression": "1"}) == {
        "compileError": "must evaluate to bool or the unknown type, not int"
    }
    failed = answer({"expression": 'device.attributes["d"].y == 1', "driver": "d"})
    assert failed["matchError"].startswith("no such key: y")
    assert (failed["estimatedCost"], failed["actualCost"]) == (5, 5)
    unread = answer({"expression": "true", "attributes": {"a": {}}})
    assert unread == {"matchError": "attribute a: unsupported attribute value", "estimatedCost": 0}
    lists = 'device.attributes["d"].x.exists(e, e == 1)'
    attributes = {"x": {"ints": [1]}}
    new = answer({"expression": lists, "driver": "d", "attributes": attributes, "environment": "new"})
    assert new["compileError"].startswith("compilation failed: ERROR: <input>:1:")
    stored = answer({"expression": lists, "driver": "d", "attributes": attributes, "environment": "stored"})
    assert stored["match"] is True


def test_allocation_answers_results_nothing_or_an_error_with_its_scope() -> None:
    answer = allocate.Answers().answer
    [result] = answer(ALLOCATE)["results"]
    assert result["devices"]["results"] == [
        {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "a"}
    ]
    taken = {"devices": ["gpu.example.com/n1/a"]}
    assert answer({**ALLOCATE, "allocated": taken}) == {"results": []}
    failed = answer({**ALLOCATE, "deviceClasses": []})
    assert failed["scope"] == "pod"
    assert "could not retrieve device class gpu" in failed["error"]


def test_lint_answers_the_object_and_its_errors() -> None:
    found = lint.answer(LINT)
    assert found["errors"] == []
    request = {"name": "r", "exactly": {"deviceClassName": "A_"}}
    body = {**LINT["object"], "spec": {"devices": {"requests": [request]}}}
    found = lint.answer({"object": body})
    exactly = found["object"]["spec"]["devices"]["requests"][0]["exactly"]
    assert exactly == {"deviceClassName": "A_", "allocationMode": "ExactCount", "count": 1}
    [error] = found["errors"]
    assert (error["field"], error["type"]) == (
        "spec.devices.requests[0].exactly.deviceClassName",
        "FieldValueInvalid",
    )
    changed = lint.answer({"object": body, "old": LINT["object"]})
    assert ("spec", "FieldValueInvalid") in [(error["field"], error["type"]) for error in changed["errors"]]


def test_lint_drops_the_fields_of_gates_that_are_off() -> None:
    device = {
        "name": "a",
        "taints": [{"key": "k", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}],
    }
    spec = {**SLICE["spec"], "devices": [device]}  # type: ignore[dict-item]
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": spec,
    }
    on, off = (
        lint.answer({"object": body}),
        lint.answer({"object": body, "featureGates": {"DRADeviceTaints": False}}),
    )
    assert on["object"]["spec"]["devices"] == [device]
    assert off["object"]["spec"]["devices"] == [{"name": "a"}]
    # An object that used the field before keeps it.
    kept = lint.answer({"object": body, "old": on["object"], "featureGates": {"DRADeviceTaints": False}})
    assert kept["object"]["spec"]["devices"] == [device]


@pytest.mark.process
@pytest.mark.parametrize("name", INTERFACES)
def test_the_command_answers_each_line_at_once(cli: Cli, name: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "drakit", name, "--jsonl"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=cli.environment(),
    )
    assert process.stdin is not None and process.stdout is not None
    good = json.dumps(INTERFACES[name][0])
    for line, expected in ((good, True), ("{", False), ("", False), (good, True)):
        print(line, file=process.stdin, flush=True)
        answer = json.loads(process.stdout.readline())
        assert (set(answer) == INTERFACES[name][2]) is expected
        assert ("error" in answer) is not expected
    done = cli.finish(process)
    assert (done.code, done.err) == (0, "")


@pytest.mark.process
@pytest.mark.parametrize("name", INTERFACES)
def test_a_reader_that_has_enough_ends_the_stream(cli: Cli, name: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "drakit", name, "--jsonl"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=cli.environment(),
    )
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    print("{", file=process.stdin, flush=True)
    assert "error" in json.loads(process.stdout.readline())
    process.stdout.close()
    print("{", file=process.stdin, flush=True)  # standard input stays open
    assert process.wait(60) == 0
    assert process.stderr.read() == ""
    process.stdin.close()
    process.stderr.close()


def test_a_search_that_takes_too_long_has_its_answer_and_the_next_line_too() -> None:
    good = INTERFACES["allocate"][0]
    answers = allocate.Answers(seconds=5, now=iter([0.0, 6.0, *[10.0] * 1000]).__next__)
    assert answers.answer(good) == {
        "error": "filter operation aborted: context deadline exceeded: no answer within 5 s; --timeout gives more time",
        "scope": "pod",
    }
    assert len(answers.answer(good)["results"]) == 1


@pytest.mark.process
@pytest.mark.parametrize("name", INTERFACES)
@pytest.mark.parametrize("json_too", [False, True])
def test_files_beside_json_lines_are_a_mistake(cli: Cli, name: str, json_too: bool) -> None:
    words = ("--jsonl", "x.yaml") if name == "lint" else ("--jsonl", "-f", "x.yaml")
    words = ("--jsonl", "--json") if json_too else words
    done = cli(name, *words)
    assert done.code == 2
    [line] = done.lines()
    assert line.startswith("drakit: --jsonl reads standard input alone")
