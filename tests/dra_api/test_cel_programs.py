"""Compiled selectors: devices, costs, limits, interruption, threads, the cache, derived attributes."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_api.cel import (
    CelRuntimeError,
    CompileError,
    DeviceInput,
    ProgramCache,
    compile_derived_attribute,
    compile_selector,
)

GPU = DeviceInput(
    "gpu.example.com",
    {
        "model": {"string": "A100"},
        "index": {"int": 3},
        "gpu.example.com/healthy": {"bool": True},
        "driverVersion": {"version": "1.2.3"},
        "vendor.example.com/links": {"strings": ["n0", "n1"]},
    },
    {"memory": {"value": "40Gi"}},
    allow_multiple_allocations=True,
)


def test_names_without_domain_belong_to_the_driver() -> None:
    own = 'device.attributes["gpu.example.com"]'
    assert compile_selector(f'{own}.model == "A100" && {own}.healthy').matches(GPU)
    assert compile_selector('"n1" in device.attributes["vendor.example.com"].links').matches(GPU)


def test_unknown_domain_is_an_empty_map_but_not_there() -> None:
    assert compile_selector('device.attributes["nope.example.com"].size() == 0').matches(GPU)
    assert not compile_selector('"nope.example.com" in device.attributes').matches(GPU)


def test_unknown_name_is_an_error_with_a_hint() -> None:
    program = compile_selector('device.attributes["gpu.example.com"].nope == 1')
    with pytest.raises(CelRuntimeError) as caught:
        program.matches(GPU)
    assert str(caught.value) == (
        "no such key: nope. consider using CEL optional chaining (.? followed by orValue()) "
        "or guarding the check with has() for optional fields"
    )


def test_attribute_without_value_is_an_error_for_every_expression() -> None:
    device = DeviceInput("d", {"a": {}}, {})
    with pytest.raises(CelRuntimeError, match=r"^attribute a: unsupported attribute value$"):
        compile_selector("true").matches(device)


def test_attribute_that_is_no_version_is_an_error() -> None:
    device = DeviceInput("d", {"a": {"version": "1.2"}}, {})
    text = "attribute a: parse semantic version: No Major.Minor.Patch elements found"
    with pytest.raises(CelRuntimeError) as caught:
        compile_selector("true").matches(device)
    assert str(caught.value) == text


def test_cost_counts_variables_fields_and_comparisons() -> None:
    # variable 1 + field 1 + comparison of min(15, 15) characters at 0.1 each, rounded up: 2
    evaluation = compile_selector('device.driver == "gpu.example.com"').evaluate(GPU)
    assert (evaluation.match, evaluation.cost) == (True, 4)


def test_cost_above_the_limit_ends_the_evaluation() -> None:
    program = compile_selector('device.driver == "gpu.example.com"')
    assert program.evaluate(GPU, limit=4).match
    with pytest.raises(CelRuntimeError, match=r"^operation cancelled: actual cost limit exceeded$"):
        program.evaluate(GPU, limit=3)


def test_expensive_expression_is_metered_also_when_only_the_match_is_asked_for() -> None:
    program = compile_selector("lists.range(1000).all(x, lists.range(200).all(y, x + y >= 0))")
    assert program.estimated_cost > 1_000_000
    with pytest.raises(CelRuntimeError, match=r"^operation cancelled: actual cost limit exceeded$"):
        program.matches(GPU)


def test_cancelled_evaluation_ends_after_a_hundred_steps() -> None:
    program = compile_selector("lists.range(1000).all(x, x >= 0)")
    calls = count()
    with pytest.raises(CelRuntimeError, match=r"^operation interrupted$"):
        program.matches(GPU, cancelled=lambda: next(calls) == 2)
    # Asked after 100, 200 and 300 steps, and not again.
    assert next(calls) == 3


def test_several_problems_are_reported_in_the_order_of_their_places() -> None:
    with pytest.raises(CompileError) as caught:
        compile_selector("nope == 1 &&\n device.nope")
    assert caught.value.message == (
        "compilation failed: ERROR: <input>:1:1: undeclared reference to 'nope' (in container '')\n"
        " | nope == 1 &&\n"
        " | ^\n"
        "ERROR: <input>:2:8: undefined field 'nope'\n"
        " |  device.nope\n"
        " | .......^"
    )


def test_new_expressions_see_what_gates_allow_and_stored_ones_everything() -> None:
    expression = "device.allowMultipleAllocations"
    assert compile_selector(expression, features=(), environment="stored").matches(GPU)
    with pytest.raises(CompileError, match="undefined field 'allowMultipleAllocations'"):
        compile_selector(expression, features=(), environment="new")


def test_threads_may_share_a_program() -> None:
    program = compile_selector(
        '[1, 2, 3].map(x, x * device.attributes["gpu.example.com"].index).exists(y, y == 9)'
    )
    devices = [DeviceInput("gpu.example.com", {"index": {"int": index}}, {}) for index in range(6)]

    def run(number: int) -> bool:
        index = number % len(devices)
        # 9 is 3 * 3 or 9 * 1: only the device with index 3 has it.
        return program.evaluate(devices[index]).match == (index == 3)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(run, range(800)))


def test_nesting_at_the_limit_is_evaluated_and_leaves_the_recursion_limit_alone() -> None:
    before = sys.getrecursionlimit()
    nested = "(" * 240 + "true" + ")" * 240
    assert compile_selector(nested).matches(GPU)
    deep = "false ? false : " * 240 + "true"
    assert compile_selector(" || ".join(["false"] * 3 + [f"({deep})"])).evaluate(GPU).match
    assert sys.getrecursionlimit() == before


def test_too_deep_nesting_is_refused() -> None:
    with pytest.raises(CompileError) as caught:
        compile_selector("(" * 260 + "true" + ")" * 260)
    assert caught.value.message == (
        "compilation failed: ERROR: <input>:-1:0: expression recursion limit exceeded: 250"
    )


@pytest.mark.parametrize("pattern", ["(a*)*b", "(a|a)*b", "(.*)(.*)(.*)(.*)(.*)b", "(a+)+$"])
def test_patterns_take_time_in_proportion_to_the_text(pattern: str) -> None:
    device = DeviceInput("d", {"text": {"string": "a" * 64 + "!"}}, {})
    assert not compile_selector(f'device.attributes["d"].text.matches("^{pattern}")').matches(device)


def test_cache_keeps_the_most_recently_used() -> None:
    cache = ProgramCache(2)
    first, second = cache.get("true"), cache.get("false")
    assert cache.get("true") is first
    cache.get("1 == 1")
    assert len(cache) == 2
    assert cache.get("true") is first
    assert cache.get("false") is not second


def test_cache_does_not_keep_refusals() -> None:
    cache = ProgramCache(2)
    with pytest.raises(CompileError):
        cache.get("nope")
    assert len(cache) == 0


@pytest.mark.parametrize(
    ("expression", "attribute"),
    [
        ('device.driver + "-x"', {"string": "gpu.example.com-x"}),
        ('device.attributes["gpu.example.com"].index * 2', {"int": 6}),
        ('device.attributes["gpu.example.com"].driverVersion', {"version": "1.2.3"}),
        ("1 == 1", {"bool": True}),
        ("[2, 1].sort()", {"ints": [1, 2]}),
        ("[]", {"strings": []}),
    ],
)
def test_derived_attribute_has_the_type_of_the_result(expression: str, attribute: dict[str, object]) -> None:
    assert compile_derived_attribute(expression).evaluate(GPU).attribute == attribute


@pytest.mark.parametrize(
    ("expression", "attribute"),
    [
        ("[dyn(1), dyn(optional.of(optional.of(2)))]", {"ints": [1, 2]}),
        ("[dyn(type(1)), dyn('x')]", {"strings": ["int", "x"]}),
        ("dyn(optional.of(type(true)))", {"string": "bool"}),
    ],
)
def test_derived_attribute_is_what_optionals_and_types_stand_for(
    expression: str, attribute: dict[str, object]
) -> None:
    assert compile_derived_attribute(expression).evaluate(GPU).attribute == attribute


@pytest.mark.parametrize(
    ("value", "native"),
    [
        ("ip('::1')", "netip.Addr"),
        ("cidr('10.0.0.0/8')", "netip.Prefix"),
        ("url('https://a/b')", "*url.URL"),
        ("format.dns1123Label()", "cel.Format"),
        ("quantity('1').add(1)", "*resource.Quantity"),
        ("optional.none()", "<nil>"),
        ("{'a': 1}", "map[ref.Val]ref.Val"),
        ("device", "map[string]interface {}"),
        ("device.attributes['gpu.example.com']", "map[string]interface {}"),
        ("device.attributes['no.example.com']", "map[string]interface {}"),
        ("device.capacity['gpu.example.com']", "map[string]cel.Quantity"),
        ("[1]", "[]ref.Val"),
        ("[1] + [2]", "[]interface {}"),
        ("[] + 'a-b'.split('-')", "[]string"),
        ("'a-b'.findAll('a')", "[]string"),
        ("url('https://a/b?x=1').getQuery()['x']", "[]string"),
        ("format.dns1123Label().validate('A').value()", "[]string"),
        ("device.attributes['gpu.example.com'].ints", "[]int64"),
        ("device.attributes['gpu.example.com'].versions + []", "[]cel.Semver"),
        ("device.attributes['gpu.example.com'].none", "[]cel.Semver"),
    ],
)
def test_what_cannot_be_an_attribute_is_named_as_upstream_holds_it(value: str, native: str) -> None:
    lists = {"ints": {"ints": [1]}, "versions": {"versions": ["1.0.0"]}, "none": {"versions": []}}
    device = DeviceInput("gpu.example.com", {**GPU.attributes, **lists}, GPU.capacity)
    with pytest.raises(CelRuntimeError) as caught:
        compile_derived_attribute(f"[dyn({value})]").evaluate(device)
    assert str(caught.value) == f"unsupported list element type: {native}"


def test_format_cannot_be_looked_for_in_constants() -> None:
    # Upstream makes a map of them, for whose keys Go has no hash of a format.
    with pytest.raises(CelRuntimeError) as caught:
        compile_selector("dyn(format.dns1123Label()) in [1, 2]").evaluate(GPU)
    assert str(caught.value) == "internal error: runtime error: hash of unhashable type cel.Format"


def test_derived_attribute_must_be_a_scalar_when_lists_are_not_allowed() -> None:
    with pytest.raises(CompileError) as caught:
        compile_derived_attribute("[1]", features=(), environment="new")
    assert caught.value.message == (
        "must evaluate to a primitive scalar (string, integer, boolean, semver), not list(int)"
    )


@given(st.text(alphabet="ab1\"'.,()[]{}?:!&|=<>+-*/% \n@é_", max_size=30))
def test_any_text_is_either_compiled_or_refused(text: str) -> None:
    try:
        compile_selector(text)
    except CompileError as error:
        assert error.message
