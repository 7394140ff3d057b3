"""Bytes worked out by hand.

A key is field number << 3 | wire type: 0x0a is field 1 with content, 0x10 field 2 with a varint.
"""

from __future__ import annotations

import pytest

from dra_api import wire
from dra_api.decode import DecodeError
from dra_api.schema import GVK, load
from dra_api.wire.encode import varint
from dra_api.wire.read import read_varint

CONFIG_MAP = GVK("", "v1", "ConfigMap")
# ObjectMeta of an unnamed object: name, generateName, namespace, selfLink, uid, resourceVersion as empty strings
# (0a 12 1a 22 2a 32), generation 0 (38), creationTimestamp as an empty message (42).
EMPTY_META = bytes.fromhex("0a00 1200 1a00 2200 2a00 3200 3800 4200")


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    """k8s, then Unknown{1: TypeMeta{1: apiVersion, 2: kind}, 2: raw, 3: "", 4: ""}; for lengths below 128."""
    version, name = api_version.encode(), kind.encode()
    types = bytes([0x0A, len(version)]) + version + bytes([0x12, len(name)]) + name
    head = b"k8s\x00" + bytes([0x0A, len(types)]) + types
    return head + bytes([0x12, len(raw)]) + raw + b"\x1a\x00\x22\x00"


def spec_message(name: str, value: dict[str, object]) -> bytes:
    return wire.encode_message(value, load().message(name))


@pytest.mark.parametrize(
    ("number", "encoded"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "8001"),  # 128 = 1 << 7: low seven bits 0 with the mark, then 1
        (300, "ac02"),  # 300 = 2 << 7 | 44: 0x2c | 0x80, then 2
        (-1, "ffffffffffffffffff01"),  # 64 ones: nine groups of seven, one bit left
        (2**63 - 1, "ffffffffffffffff7f"),
    ],
)
def test_varint(number: int, encoded: str) -> None:
    assert varint(number).hex() == encoded
    assert read_varint(bytes.fromhex(encoded), 0) == (number & (2**64 - 1), len(encoded) // 2)


def test_varint_of_more_than_ten_bytes_is_refused() -> None:
    with pytest.raises(DecodeError, match="integer overflow"):
        read_varint(b"\xff" * 10 + b"\x01", 0)


def test_config_map_with_one_entry() -> None:
    # data is field 2 (0x12): an entry {1: "a", 2: "b"} = 0a 01 61 12 01 62, six bytes.
    raw = b"\x0a" + bytes([len(EMPTY_META)]) + EMPTY_META + bytes.fromhex("1206 0a0161 120162")
    obj = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {}, "data": {"a": "b"}}
    assert wire.encode_object(obj) == envelope("v1", "ConfigMap", raw)
    assert wire.decode_object(envelope("v1", "ConfigMap", raw), CONFIG_MAP) == obj


def test_quantity_is_a_message_with_its_text() -> None:
    # DeviceCapacity.value is field 1: {1: "1Gi"} = 0a 03 31 47 69 behind 0a 05.
    assert spec_message("resource/v1.DeviceCapacity", {"value": "1Gi"}).hex() == "0a050a03314769"


@pytest.mark.parametrize(
    ("port", "encoded"),
    [
        (80, "0800 1050 1a00"),  # type 0, intVal 80, strVal ""
        ("web", "0801 1000 1a03776562"),  # type 1, intVal 0, strVal "web"
        (-1, "0800 10ffffffffffffffffff01 1a00"),
    ],
)
def test_number_or_name_holds_all_three_fields(port: int | str, encoded: str) -> None:
    content = bytes.fromhex(encoded)
    # TCPSocketAction: port is field 1, host field 2 and empty.
    expected = b"\x0a" + bytes([len(content)]) + content + b"\x12\x00"
    assert spec_message("core/v1.TCPSocketAction", {"port": port}) == expected
    assert wire.read_message(expected, load().message("core/v1.TCPSocketAction")) == {"port": port}


def test_times_are_seconds_and_nanoseconds() -> None:
    # 1970-01-01T00:05:00Z = 300 s = ac 02; Lease renewTime is field 4 (0x22), half a second = 500 000 000 ns
    # = 0x1dcd6500: groups of seven from below 00 4a 35 6e 01 -> 80 ca b5 ee 01.
    value = {"renewTime": "1970-01-01T00:05:00.500000Z"}
    assert spec_message("coordination/v1.LeaseSpec", value).hex() == "2209" + "08ac02" + "1080cab5ee01"


def test_time_drops_nanoseconds_and_reads_zero_as_unset() -> None:
    meta = load().message("meta/v1.ObjectMeta")
    # creationTimestamp is field 8 (0x42).
    assert wire.read_message(bytes.fromhex("4205 08ac02 1007"), meta) == {
        "creationTimestamp": "1970-01-01T00:05:00Z"
    }
    assert wire.read_message(bytes.fromhex("4200"), meta) == {}


def test_opaque_parameters_are_json_bytes() -> None:
    # OpaqueDeviceConfiguration {1: driver, 2: RawExtension{1: raw}}; {"a":1} has seven bytes.
    value = {"driver": "d", "parameters": {"a": 1}}
    expected = bytes.fromhex("0a0164 1209 0a07") + b'{"a":1}'
    assert spec_message("resource/v1.OpaqueDeviceConfiguration", value) == expected
    assert wire.read_message(expected, load().message("resource/v1.OpaqueDeviceConfiguration")) == value


def test_inlined_struct_is_a_message_of_its_own() -> None:
    # Volume {1: name, 2: VolumeSource{2: EmptyDirVolumeSource{1: medium ""}}}.
    value = {"name": "v", "emptyDir": {}}
    assert spec_message("core/v1.Volume", value).hex() == "0a0176" + "1204" + "1202" + "0a00"


def test_pointers_are_written_only_when_set() -> None:
    # SecurityContext.runAsUser is field 4 (0x20), runAsNonRoot field 5 (0x28).
    assert spec_message("core/v1.SecurityContext", {}) == b""
    assert (
        spec_message("core/v1.SecurityContext", {"runAsUser": 0, "runAsNonRoot": False}).hex() == "20002800"
    )


def test_numbers_are_read_packed_and_unpacked() -> None:
    # PodSecurityContext.supplementalGroups is field 4: unpacked 20 .., packed 22 LEN ..
    context = load().message("core/v1.PodSecurityContext")
    assert wire.read_message(bytes.fromhex("2001 20ac02"), context) == {"supplementalGroups": [1, 300]}
    assert wire.read_message(bytes.fromhex("2203 01ac02"), context) == {"supplementalGroups": [1, 300]}


def test_unknown_fields_of_every_wire_type_are_skipped() -> None:
    # Field 100: 100 << 3 = 800 = a0 06 as varint; a0 06 number, a1 06 eight bytes, a2 06 content, a3 06 to a4 06 a
    # group, a5 06 four bytes.
    unknown = "a00605 a1060102030405060708 a2060161 a306 0801 1201 61 a106 0102030405060708 a406 a50601020304"
    meta = load().message("meta/v1.ObjectMeta")
    assert wire.read_message(bytes.fromhex(unknown + "0a0161"), meta) == {"name": "a"}


def test_maps_come_out_sorted() -> None:
    data = bytes.fromhex("1206 0a0162 120131" + "1206 0a0161 120132")
    decoded = wire.read_message(data, load().message("core/v1.ConfigMap"))
    assert list(decoded["data"].items()) == [("a", "2"), ("b", "1")]


def test_kind_is_taken_from_the_default_when_the_envelope_has_none() -> None:
    # Only field 2 with an empty object, no trailing empty strings either.
    assert wire.decode_object(b"k8s\x00\x12\x00", CONFIG_MAP) == {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {},
    }


def test_watch_frame_holds_an_event_with_a_full_object() -> None:
    obj = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {}}
    inner = wire.encode_object(obj)
    # WatchEvent {1: "ADDED" = 0a 05 .., 2: RawExtension{1: object}}: 7 + 2 + 2 + len(object) bytes behind the length.
    size = len(inner)
    expected = (11 + size).to_bytes(4, "big") + b"\x0a\x05ADDED" + bytes([0x12, size + 2, 0x0A, size]) + inner
    assert size < 126
    frame = wire.encode_watch_frame("ADDED", obj)
    assert frame == expected
    frames, rest = wire.split_frames(frame + frame[:10])
    assert [wire.decode_watch_event(found) for found in frames] == [("ADDED", obj)]
    assert rest == frame[:10]


def test_status_needs_no_kind() -> None:
    # Status {1: ListMeta {1 selfLink, 2 resourceVersion, 3 continue}, 2 status, 3 message, 4 reason, 6 code}.
    raw = bytes.fromhex("0a06 0a00 1200 1a00 1201 46 1a00 2200 309403")  # 404 = 3 << 7 | 20: 94 03
    assert wire.encode_status({"status": "F", "code": 404}) == envelope("v1", "Status", raw)


@pytest.mark.parametrize("api_version", ["v1", "meta.k8s.io/v1", "resource.k8s.io/v1"])
def test_delete_options_of_any_version(api_version: str) -> None:
    # 1: gracePeriodSeconds 0, 4: propagationPolicy "Orphan".
    body = envelope(api_version, "DeleteOptions", bytes.fromhex("0800 2206") + b"Orphan")
    assert wire.decode_options(body) == {
        "kind": "DeleteOptions",
        "apiVersion": api_version,
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Orphan",
    }


def test_empty_delete_body_has_no_options() -> None:
    assert wire.decode_options(b"") == {}
    assert wire.decode_options(envelope("v1", "DeleteOptions", b"")) == {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
    }


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            b"{}",
            (
                "the object provided is unrecognized (must be of type ConfigMap): provided data does not appear to "
                "be a protobuf message, expected prefix [107 56 115 0] ({})"
            ),
        ),
        (b"", "the object provided is unrecognized (must be of type ConfigMap): empty data (<empty>)"),
        (
            b"k8s\x00",
            "the object provided is unrecognized (must be of type ConfigMap): empty body (6b387300)",
        ),
        (
            envelope("v1", "ConfigMap", b"\x0a\x05\x0a"),
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: unexpected EOF',
        ),
        (
            envelope("v1", "ConfigMap", b"\x08\x00"),
            (
                'ConfigMap in version "v1" cannot be handled as a ConfigMap: proto: wrong wireType = 0 '
                "for field Metadata"
            ),
        ),
        (
            envelope("v1", "Secret", b""),
            (
                'Secret in version "v1" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): '
                "unknown conversion"
            ),
        ),
        (
            envelope("v7", "ConfigMap", b""),
            (
                'ConfigMap in version "v7" cannot be handled as a ConfigMap: no kind "ConfigMap" is registered for '
                'version "v7" in scheme "pkg/api/legacyscheme/scheme.go:30"'
            ),
        ),
    ],
)
def test_bad_body_is_refused_in_words_of_the_server(data: bytes, message: str) -> None:
    with pytest.raises(DecodeError) as caught:
        wire.decode_body(data, CONFIG_MAP)
    assert caught.value.message == message


def test_kind_without_wire_form_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="no protobuf form for kind 'Nope' of 'v1'"):
        wire.encode_object({"kind": "Nope", "apiVersion": "v1"})
