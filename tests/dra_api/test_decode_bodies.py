from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_api.decode import DecodeError, decode_body, decode_json, decode_yaml, zero_object
from dra_api.decode.json_syntax import syntax_error
from dra_api.decode.json_text import parse_json
from dra_api.schema import GVK, load

CONFIG_MAP = GVK("", "v1", "ConfigMap")
CLAIM = GVK("resource.k8s.io", "v1", "ResourceClaim")


def refusal(body: bytes, expected: GVK = CONFIG_MAP, *, yaml: bool = False) -> str:
    with pytest.raises(DecodeError) as caught:
        decode_body(body, expected, yaml=yaml)
    return caught.value.message


def test_wrong_type_names_the_struct_and_field() -> None:
    assert refusal(b'{"data":[]}') == (
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal array into Go struct '
        "field ConfigMap.data of type map[string]string"
    )


def test_empty_body_cannot_be_recognized() -> None:
    assert refusal(b"") == (
        "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse "
        "error: unexpected end of JSON input (<empty>)"
    )


def test_summary_of_a_long_body_is_cut_after_thirty_bytes() -> None:
    body = b'{"metadata":{"name":"abcdefghijklmnop'
    assert refusal(body).endswith('unexpected end of JSON input ({"metadata":{"name":"abcdefghi ...)')
    assert refusal(b"hello").endswith("looking for beginning of value (68656c6c6f)")


def test_other_kind_cannot_be_converted() -> None:
    assert refusal(b'{"apiVersion":"v1","kind":"Secret"}') == (
        'Secret in version "v1" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): '
        "unknown conversion"
    )


def test_other_version_of_the_kind_is_refused() -> None:
    body = b'{"apiVersion":"resource.k8s.io/v1beta1","kind":"ResourceClaim"}'
    assert refusal(body, CLAIM) == (
        "the API version in the data (resource.k8s.io/v1beta1) does not match the expected API version "
        "(resource.k8s.io/v1)"
    )


def test_unknown_kind_is_named_with_the_scheme() -> None:
    assert refusal(b'{"apiVersion":"apps/v1","kind":"X"}') == (
        'X in version "v1" cannot be handled as a ConfigMap: no kind "X" is registered for version "apps/v1" in '
        'scheme "pkg/api/legacyscheme/scheme.go:30"'
    )


def test_delete_options_may_come_in_any_version() -> None:
    body = b'{"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":0}'
    decoded = decode_body(body, GVK("meta.k8s.io", "v1", "DeleteOptions"))
    assert decoded.object == {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}


def test_kind_and_version_come_from_the_url_when_absent() -> None:
    decoded = decode_body(b'{"metadata":{"name":"c"}}', CLAIM)
    assert decoded.gvk == CLAIM
    assert list(decoded.object) == ["kind", "apiVersion", "metadata", "spec", "status"]


def test_unknown_and_duplicate_fields_in_document_order() -> None:
    body = b'{"metadata":{"nme":"a","name":"c"},"foo":1,"data":{"a":"1","a":"2"}}'
    decoded = decode_body(body, CONFIG_MAP)
    assert decoded.strict == [
        'unknown field "metadata.nme"',
        'unknown field "foo"',
        'duplicate field "data.a"',
    ]
    assert decoded.unknown == ['unknown field "metadata.nme"', 'unknown field "foo"']
    assert decoded.object["data"] == {"a": "2"}


def test_yaml_duplicates_come_first_and_carry_lines() -> None:
    body = b"metadata:\n  name: a\n  name: b\nfoo: 1\n"
    decoded = decode_body(body, CONFIG_MAP, yaml=True)
    assert decoded.strict == [
        'yaml: unmarshal errors:\n  line 3: key "name" already set in map',
        'unknown field "foo"',
    ]
    assert decoded.object["metadata"] == {"name": "b"}


def test_duplicates_of_a_json_text_are_listed_with_paths() -> None:
    value, duplicates = decode_json(b'{"a":1,"b":[{"c":1,"c":2}],"a":3}')
    assert value == {"a": 3, "b": [{"c": 2}]}
    assert duplicates == ['duplicate field "b[0].c"', 'duplicate field "a"']


def test_yaml_values_are_those_of_yaml_1_1() -> None:
    value, duplicates = decode_yaml(
        b"{a: y, b: 0777, c: 2026-01-02, d: 1e3, e: '1', f: off, g: 1:30, h: 0.5}"
    )
    assert value == {
        "a": True,
        "b": 511,
        "c": "2026-01-02",
        "d": 1000,
        "e": "1",
        "f": False,
        "g": "1:30",
        "h": 0.5,
    }
    assert duplicates == []


def test_anchor_that_contains_itself_is_refused() -> None:
    with pytest.raises(DecodeError, match="contains itself"):
        decode_yaml(b"a: &a\n  b: *a\n")


def test_half_surrogates_become_the_replacement_character() -> None:
    assert parse_json(b'{"a":"\\ud800x"}') == {"a": "\ufffdx"}
    assert parse_json(b'{"a":"\\ud83d\\ude00"}') == {"a": "\U0001f600"}


def test_deep_nesting_is_refused_not_crashed() -> None:
    assert "exceeded max depth" in refusal(b'{"a":' + b"[" * 100_000)


def test_zero_object_shows_what_a_server_always_prints() -> None:
    pod = load().kind(GVK("", "v1", "Pod"))
    assert pod is not None
    assert zero_object(pod) == {"metadata": {}, "spec": {"containers": None}, "status": {}}


@given(st.text(alphabet='{}[]":,0123456789.eE+-truefalsn \\u"\n\x01\x7fé', max_size=30))
def test_every_refused_text_has_a_reason_in_words_of_go(text: str) -> None:
    try:
        parse_json(text.encode())
    except DecodeError as error:
        assert "invalid character" in error.message or "unexpected end" in error.message
    else:
        assert syntax_error(text.encode()) == "invalid JSON document", (
            "our scanner refuses what the parser took"
        )
