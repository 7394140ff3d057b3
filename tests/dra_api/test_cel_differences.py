"""What random comparisons with upstream's CEL once found to be different (tests/oracle)."""

from __future__ import annotations

import pytest

from dra_api.cel import CelRuntimeError, CompileError, DeviceInput, compile_selector

DEVICE = DeviceInput("d", {"n": {"int": 3}, "s": {"string": "x"}, "b": {"bool": True}}, {})


@pytest.mark.parametrize(
    ("value", "problem", "cost"),
    [
        ("device.attributes['d'].n", "types.Int is not traits.Lister: missing method Contains", 4),
        ("device.attributes['d'].s", "types.String is not traits.Lister: missing method Contains", 4),
        ("device.attributes['d'].b", "types.Bool is not traits.Lister: missing method Add", 4),
        ("dyn({'a': 1})", "*types.baseMap is not traits.Lister: missing method Add", 0),
        ("dyn(quantity('1'))", "cel.Quantity is not traits.Lister: missing method Add", 2),
    ],
)
def test_distinct_breaks_upstreams_cost_tracker_over_what_is_no_list(
    value: str, problem: str, cost: int
) -> None:
    with pytest.raises(CelRuntimeError) as caught:
        compile_selector(f"dyn({value}.distinct()) == 1").evaluate(DEVICE)
    assert str(caught.value) == f"internal error: interface conversion: {problem}"
    assert caught.value.cost == cost


@pytest.mark.parametrize(
    ("call", "shown"), [("flatten()", "int.flatten()"), ("flatten(2)", "int.flatten(int)")]
)
def test_flatten_is_refused_with_the_arguments_that_it_was_given(call: str, shown: str) -> None:
    with pytest.raises(CelRuntimeError) as caught:
        compile_selector(f"dyn(device.attributes['d'].n.{call}) == 1").evaluate(DEVICE)
    assert str(caught.value) == f"no such overload: {shown}"


@pytest.mark.parametrize(
    ("levels", "kind", "cost"),
    [
        ("device.attributes['d'].none", "*types.Err", 4),
        ("dyn('a')", "types.String", 0),
        ("dyn([1])", "*types.baseList", 0),
    ],
)
def test_flatten_breaks_upstreams_cost_tracker_over_what_is_no_number(
    levels: str, kind: str, cost: int
) -> None:
    with pytest.raises(CelRuntimeError) as caught:
        compile_selector(f"dyn([[1]].flatten({levels})) == 1").evaluate(DEVICE)
    assert str(caught.value) == f"internal error: interface conversion: ref.Val is {kind}, not types.Int"
    assert caught.value.cost == cost


@pytest.mark.parametrize(
    "expression", ["optional.none().or(dyn(1))", "optional.none().or(optional.of(1)).value()"]
)
def test_or_takes_what_it_falls_back_to_as_it_is(expression: str) -> None:
    assert compile_selector(f"dyn({expression}) == 1").evaluate(DEVICE).match


def test_costs_begin_again_beyond_64_bits() -> None:
    most = "9223372036854775807"
    with pytest.raises(CelRuntimeError, match="actual cost limit exceeded") as caught:
        compile_selector(f"dyn(lists.range(3).map(v, 'x').flatten([{most}].min())) == 1").evaluate(DEVICE)
    assert caught.value.cost is not None and caught.value.cost < 2**64


def test_format_looks_at_nothing_behind_a_receiver_that_fails() -> None:
    with pytest.raises(CelRuntimeError, match="no such key: none") as caught:
        compile_selector("device.attributes['d'].none.format([1]) == 'x'").evaluate(DEVICE)
    # Four for the attribute, one for the comparison.
    assert caught.value.cost == 5


def test_the_overload_of_lists_comes_first_where_the_checker_may_choose() -> None:
    # The keys of an empty map have no type yet; lastIndexOf makes them lists, which a map of strings is not equal to.
    with pytest.raises(CompileError, match=r"map\(string, int\), map\(list\(string\), int\)"):
        compile_selector("{'a': 1} == {}.transformMap(k, v, k.lastIndexOf('x'))")
