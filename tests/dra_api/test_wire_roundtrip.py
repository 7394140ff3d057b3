"""Properties over every kind: what is written is read back as the same canonical object."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dra_api import wire
from dra_api.decode import DecodeError, as_stored, decode_object
from dra_api.schema import GVK, Field, Message, load

KINDS = [gvk for gvk in load().kinds() if gvk.kind != "WatchEvent"]
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
JSON = st.recursive(
    st.booleans() | st.integers(-5, 5) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
TIMES = st.datetimes().map(lambda moment: moment.isoformat(timespec="seconds") + "Z")
MICRO_TIMES = st.datetimes().map(lambda moment: moment.isoformat(timespec="microseconds") + "Z")
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": TEXT,
    "bool": st.booleans(),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "bytes": st.binary(max_size=4).map(lambda data: base64.b64encode(data).decode()),
    "quantity": st.sampled_from(["0", "1", "1500m", "2Gi", "-3k", "1e3"]),
    "time": TIMES,
    "microtime": MICRO_TIMES,
    "intorstring": TEXT | st.integers(-(2**31), 2**31 - 1),
    "raw": JSON,
    "fieldsv1": st.dictionaries(TEXT, st.just({}), max_size=2),
    "strings": st.lists(TEXT, max_size=2),
}


def bodies(message: Message, depth: int) -> st.SearchStrategy[dict[str, Any]]:
    """JSON objects of a struct type with a few of its fields; deeper structs stay empty."""
    if depth == 0:
        return st.just({})
    fields = {name: item for name, item in message.fields.items() if item.number}
    if not fields:
        return st.just({})
    some = st.lists(st.sampled_from(sorted(fields)), max_size=5, unique=True)
    return some.flatmap(
        lambda names: st.fixed_dictionaries({name: values(fields[name], depth) for name in names})
    )


def values(field: Field, depth: int) -> st.SearchStrategy[Any]:
    one = bodies(field.message, depth - 1) if field.type == "message" else SCALARS[field.type]
    if field.shape == "list":
        return st.lists(one, max_size=2)
    return st.dictionaries(TEXT, one, max_size=2) if field.shape == "map" else one


@pytest.mark.parametrize("gvk", KINDS, ids=str)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_every_kind_survives_the_wire(gvk: GVK, data: st.DataObject) -> None:
    message = load().kind(gvk)
    assert message is not None
    decoded = decode_object(data.draw(bodies(message, 3)), gvk)
    assert decoded.strict == []
    again = decode_object(decoded.object, gvk)
    assert again.object == decoded.object, "canonical form is stable"
    encoded = wire.encode_object(decoded.object)
    read = wire.decode_object(encoded, GVK("", "", ""))
    assert read == as_stored(decoded.object), "protobuf has no empty lists and maps"
    assert list(read) == list(as_stored(decoded.object))
    assert wire.encode_object(read) == encoded


@settings(max_examples=300, deadline=None)
@given(data=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for kind in (GVK("", "v1", "Pod"), GVK("resource.k8s.io", "v1", "ResourceClaim")):
        try:
            wire.decode_object(b"k8s\x00\x12" + bytes([len(data)]) + data, kind)
        except DecodeError:
            continue


def test_truncated_object_is_refused() -> None:
    body = {"kind": "Pod", "apiVersion": "v1", "spec": {"containers": [{"name": "a" * 200, "image": "i"}]}}
    encoded = wire.encode_object(body)
    # k8s (4), key and length (2), 0a 02 v1 (4), 12 03 Pod (5): after that the raw object may be absent.
    names_end = 4 + 2 + 4 + 5
    for cut in range(len(encoded) - 4):
        if cut == names_end:
            continue
        with pytest.raises(DecodeError):
            wire.decode_body(encoded[:cut], GVK("", "v1", "Pod"))
