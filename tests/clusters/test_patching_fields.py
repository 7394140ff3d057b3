"""Field sets: their wire form, order and algebra (api-machinery section 8)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.embedded.apiserver.patching.fields import (
    Element,
    FieldsError,
    FieldSet,
    Path,
    field,
    keyed,
    member,
    path_text,
)

elements = st.one_of(
    st.sampled_from("abc").map(field),
    st.sampled_from([{"name": "a"}, {"name": "b"}, {"port": 80, "protocol": "TCP"}]).map(keyed),
    st.sampled_from(["x", 1, True]).map(member),
)
paths = st.lists(elements, min_size=1, max_size=3).map(tuple)
path_sets = st.frozensets(paths, max_size=8)


def test_wire_form_marks_members_that_have_children_by_a_dot() -> None:
    labels = (field("metadata"), field("labels"))
    item = (field("spec"), field("ports"), keyed({"protocol": "TCP", "containerPort": 80}))
    owned = FieldSet.of(labels, (*labels, field("a")), item, (field("spec"), field("set"), member("x")))
    assert json.dumps(owned.to_json()) == json.dumps(
        {
            "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
            "f:spec": {"f:ports": {'k:{"containerPort":80,"protocol":"TCP"}': {}}, "f:set": {'v:"x"': {}}},
        }
    )


def test_elements_are_ordered_fields_keys_values_indices() -> None:
    ordered = [
        field("Z"),
        field("a"),
        keyed({"name": "a"}),
        keyed({"name": "b"}),
        keyed({"name": "b", "port": 1}),
        member(2),
        member(10),
        member("a"),
        member(True),
        Element("i", 0),
    ]
    assert sorted(ordered[5:] + ordered[:5]) == ordered


def test_angle_brackets_are_escaped_on_the_wire_as_go_does() -> None:
    owned = FieldSet.of((member("<&>"),))
    assert owned.to_json() == {r'v:"\u003c\u0026\u003e"': {}}
    assert FieldSet.from_json(owned.to_json()) == owned


def test_paths_print_as_conflicts_show_them() -> None:
    path = (
        field("spec"),
        field("containers"),
        keyed({"name": "a"}),
        field("args"),
        member("x"),
        Element("i", 3),
    )
    assert path_text(path) == '.spec.containers[name="a"].args[="x"][3]'


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"f": {}}, "2 characters"),
        ({"f.a": {}}, "missing colon"),
        ({"k:[]": {}}, "expected an object"),
        ({"v:{": {}}, "as path element"),
        ({"i:x": {}}, "as path element"),
        ({"f:a": 1}, "objects"),
    ],
)
def test_unreadable_documents_are_refused(document: object, text: str) -> None:
    with pytest.raises(FieldsError, match=text):
        FieldSet.from_json(document)


def test_unknown_kinds_of_elements_are_dropped() -> None:
    assert FieldSet.from_json({"z:new": {"f:a": {}}, "f:a": {}}) == FieldSet.of((field("a"),))


def test_one_and_one_point_zero_select_the_same_item() -> None:
    assert keyed({"port": 1.0}) == keyed({"port": 1})
    assert member(True) != member(1)


@given(path_sets)
def test_wire_form_reads_back(chosen: frozenset[Path]) -> None:
    owned = FieldSet.of(*chosen)
    assert set(FieldSet.from_json(owned.to_json())) == chosen
    assert list(owned) == list(FieldSet.from_json(json.loads(json.dumps(owned.to_json()))))


@given(path_sets, path_sets)
def test_operations_are_those_of_sets_of_paths(left: frozenset[Path], right: frozenset[Path]) -> None:
    one, two = FieldSet.of(*left), FieldSet.of(*right)
    assert set(one.union(two)) == left | right
    assert set(one.intersection(two)) == left & right
    assert set(one.difference(two)) == left - right
    assert bool(one) == bool(left)
    assert (one == two) == (left == right)
    assert all(one.has(path) == (path in left) for path in left | right)
    above = {path for path in left if not any(path[:n] in right for n in range(1, len(path) + 1))}
    assert set(one.without(two)) == above
