"""The spec texts whose acceptance was confirmed with the Go library 1.1.2, one row each."""

from __future__ import annotations

import json
from typing import Any

import pytest

from node_api.cdi import SpecError, parse_spec, validate

ENV = {"env": ["A=1"]}


def spec(version: str = "0.5.0", edits: Any = ENV, **changes: Any) -> dict[str, Any]:
    """A spec with one device d0; `changes` replace top-level keys, None removes one."""
    made = {
        "cdiVersion": version,
        "kind": "acme.com/gpu",
        "devices": [{"name": "d0", "containerEdits": edits}],
    }
    made.update(changes)
    return {key: value for key, value in made.items() if value is not None}


def device(name: Any, edits: Any = ENV, **more: Any) -> dict[str, Any]:
    return {"name": name, "containerEdits": edits, **more}


def node(**fields: Any) -> dict[str, Any]:
    return {"deviceNodes": [{"path": "/dev/null", **fields}]}


YAML = """\
cdiVersion: {version}
kind: acme.com/gpu
devices:
- name: d0
  containerEdits:
    {edits}
"""


def yaml_spec(version: str = "0.5.0", edits: str = "env: [A=1]") -> str:
    return YAML.format(version=version, edits=edits)


MINIMAL = json.dumps(spec())
MOUNT = {"hostPath": "/a", "containerPath": "/b"}
HOOK = {"hookName": "createRuntime", "path": "/bin/x"}
NET = {"hostInterfaceName": "eth0", "name": "net0"}
ANCHORS = """\
cdiVersion: 0.5.0
kind: acme.com/gpu
devices:
- name: d0
  containerEdits: &e
    env: [&v A=1, *v]
- name: d1
  containerEdits:
    <<: *e
- name: d2
  containerEdits: *e
"""

ACCEPTED: list[tuple[int, Any]] = [
    (1, spec("0.3.0")),
    (2, MINIMAL),
    (3, yaml_spec()),
    (4, json.dumps(spec(), indent="\t")),
    (5, MINIMAL.replace("]", ",]").replace("}", ",}")),
    (6, "# comment\n" + json.dumps(spec(), indent=1).replace("{\n", "{ # more\n", 1)),
    (14, f"---\n{yaml_spec()}---\n}} garbage: [\n"),
    (16, ANCHORS),
    (23, spec("0.8.0")),
    (24, spec("1.1.0")),
    (27, spec("v0.3.0")),
    (33, spec("0.3.0", devices=[device("ab9d3f70-0a5e-4b27-8e1c-6f1c2e2f7f10")])),
    (35, spec("0.3.0", annotations={})),
    (40, spec("0.7.0", {"intelRdt": {"enableMonitoring": False}})),
    (42, spec(kind="a/b")),
    (46, spec(kind="acme_x.Com/G_P-u")),
    (47, spec(kind="acme..com/gpu")),
    (48, spec(kind="v" * 300 + "/gpu")),
    (49, spec("0.5.0", devices=[device("0:1")])),
    (53, spec("0.5.0", devices=[device(0)])),
    (59, spec("0.7.0", {"additionalGids": [0]})),
    (60, spec("0.7.0", {"intelRdt": {}})),
    (61, spec(edits={"env": ["A="]})),
    (64, spec(edits={"env": ["a b=1"]})),
    (66, spec(edits={"deviceNodes": [{"path": "/dev/nope"}]})),
    (67, spec(edits={"deviceNodes": [{"path": "dev/null"}]})),
    (71, spec(edits=node(major=10.5))),
    (72, spec(edits=node(permissions="rr"))),
    (74, spec(edits=node(permissions="none"))),
    (76, yaml_spec(edits="deviceNodes: [{path: /dev/null, fileMode: 0660}]")),
    (79, spec(edits={"mounts": [{"hostPath": "a", "containerPath": "b"}]})),
    (81, spec(edits={"hooks": [{**HOOK, "hookName": "prestart"}]})),
    (83, spec(edits={"hooks": [{**HOOK, "path": "bin/x"}]})),
    (84, spec(edits={"hooks": [{**HOOK, "timeout": -5}]})),
    (86, spec("0.7.0", {"intelRdt": {"closID": "/"}})),
    (88, spec("1.1.0", devices=[device("d0", {"netDevices": [NET]}), device("d1", {"netDevices": [NET]})])),
    (89, spec("0.6.0", annotations={"a b": "x"})),
    (90, spec("0.6.0", annotations={"a": 5})),
]

REFUSED: list[tuple[int, Any, str]] = [
    (7, MINIMAL.replace("A=1", "A=\\/"), "found unknown escape character"),
    (8, MINIMAL.replace("A=1", "A=\\ud83d\\ude00"), "found invalid Unicode character escape code"),
    (9, "", "failed to unmarshal CDI Spec: EOF"),
    (9, "# only a comment\n", "failed to unmarshal CDI Spec: EOF"),
    (10, "null", 'failed to parse CDI Spec "/x.json", no Spec data'),
    (10, "---", "no Spec data"),
    (11, {}, 'invalid version ""'),
    (12, "[]", "cannot unmarshal !!seq into specs.Spec"),
    (13, MINIMAL[: len(MINIMAL) // 2], "failed to unmarshal CDI Spec: yaml: line 1"),
    (15, f"cdiVersion: 0.3.0\n{yaml_spec()}", 'mapping key "cdiVersion" already defined at line 1'),
    (17, spec(None, CDIVersion="0.5.0"), "field CDIVersion not found in type specs.Spec"),
    (18, spec(foo=1), "field foo not found in type specs.Spec"),
    (19, spec(edits=node(foo=1)), "field foo not found in type specs.DeviceNode"),
    (20, spec(containerEdits=[ENV]), "cannot unmarshal !!seq into specs.ContainerEdits"),
    (21, spec("0.7.0", {"additionalGIDs": [1]}), "field additionalGIDs not found"),
    (22, spec("0.2.0"), "the spec version must be at least v0.3.0"),
    (25, spec("1.2.0"), 'invalid version "1.2.0"'),
    (26, spec("1.0.1"), 'invalid version "1.0.1"'),
    (28, spec("0.3"), 'invalid version "0.3"'),
    (29, yaml_spec("1.1"), 'invalid version "1.1"'),
    (30, spec("0.3.0", {"mounts": [{**MOUNT, "type": "bind"}]}), "at least v0.4.0"),
    (31, spec("0.4.0", node(hostPath="/dev/zero")), "at least v0.5.0"),
    (32, spec("0.3.0", devices=[device("1b9d3f70-0a5e-4b27-8e1c-6f1c2e2f7f10")]), "at least v0.5.0"),
    (34, spec("0.5.0", annotations={"a": "b"}), "at least v0.6.0"),
    (36, spec("0.5.0", kind="acme.com/gpu.v1"), "at least v0.6.0"),
    (37, spec("0.6.0", {"intelRdt": {}}), "at least v0.7.0"),
    (38, spec("0.6.0", {"additionalGids": [7]}), "at least v0.7.0"),
    (39, spec("0.7.0", {"intelRdt": {"schemata": []}}), "at least v1.1.0"),
    (41, spec("1.0.0", {"netDevices": [NET]}), "at least v1.1.0"),
    (43, spec(kind="acme"), "invalid vendor. empty name"),
    (44, spec(kind="acme.com/gpu/x"), "invalid class. invalid character '/' in name \"gpu/x\""),
    (45, spec(kind="3d.example.com/claim"), 'invalid vendor. "3d.example.com", should start with letter'),
    (50, spec(devices=[device("a/b")]), "invalid character '/' in device name \"a/b\""),
    (51, spec(devices=[device("a-")]), 'invalid name "a-", should end with a letter or digit'),
    (52, spec(devices=[device("_a")]), 'invalid class "_a", should start with a letter or digit'),
    (54, spec(devices=[device("d0"), device("d0")]), 'invalid spec, multiple device "d0"'),
    (55, spec(devices=[]), "invalid spec, no devices"),
    (56, spec(edits={}), "invalid device, empty device edits"),
    (57, spec(containerEdits=ENV, devices=[{"name": "d0"}]), "invalid device, empty device edits"),
    (58, spec(edits={"env": [], "mounts": [], "hooks": []}), "invalid device, empty device edits"),
    (62, spec(edits={"env": ["A"]}), 'invalid container edits: invalid environment variable "A"'),
    (63, spec(edits={"env": ["=1"]}), 'invalid environment variable "=1"'),
    (65, spec(edits={"env": [5]}), 'invalid environment variable "5"'),
    (68, spec(edits=node(type="char")), 'device "/dev/null": invalid type "char"'),
    (69, spec(edits=node(major=-1)), "invalid (negative) device number"),
    (70, spec(edits=node(major="10")), "cannot unmarshal !!str `10` into int64"),
    (73, spec(edits=node(permissions="rx")), 'device "/dev/null": invalid permissions "rx"'),
    (75, spec(edits=node(fileMode="0660")), "cannot unmarshal !!str `0660` into uint32"),
    (78, spec(edits={"hooks": [None]}), "invalid (nil) hook"),
    (80, spec(edits={"mounts": [{"hostPath": "/a"}]}), "invalid mount, empty container path"),
    (82, spec(edits={"hooks": [{**HOOK, "hookName": "createruntime"}]}), 'invalid hook name "createruntime"'),
    (85, spec("0.7.0", {"intelRdt": {"closID": "a/b"}}), "invalid ClosID"),
    (87, spec("1.1.0", {"netDevices": [NET, {**NET, "name": "n"}]}), "duplicate HostInterfaceName"),
    (91, spec("0.6.0", annotations={"a": {}}), "cannot unmarshal !!map into string"),
    (92, spec("0.7.0", {"additionalGids": [-1]}), "cannot unmarshal !!int `-1` into uint32"),
]

CRASHING: list[tuple[int, Any]] = [
    (77, spec(edits={"deviceNodes": [None]})),
]


def text(content: Any) -> Any:
    return content if isinstance(content, str) else json.dumps(content)


def test_the_table_is_complete() -> None:
    rows = [row[0] for row in (*ACCEPTED, *REFUSED, *CRASHING)]
    assert sorted(set(rows)) == list(range(1, 93))


@pytest.mark.parametrize(("number", "content"), ACCEPTED, ids=[str(row[0]) for row in ACCEPTED])
def test_accepted(number: int, content: Any) -> None:
    parse_spec(text(content).encode())
    errors = [finding for finding in validate(text(content)) if finding.severity == "error"]
    # one-letter names crash older libraries, so the validator refuses them
    assert bool(errors) == (number == 42)


@pytest.mark.parametrize(("number", "content", "reason"), REFUSED, ids=[str(row[0]) for row in REFUSED])
def test_refused(number: int, content: Any, reason: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_spec(text(content).encode(), "/x.json")
    assert reason in str(caught.value)
    assert not caught.value.crash
    assert any(
        finding.severity == "error" and reason in finding.text
        for finding in validate(text(content), "/x.json")
    )


@pytest.mark.parametrize(("number", "content"), CRASHING, ids=[str(row[0]) for row in CRASHING])
def test_crashing(number: int, content: Any) -> None:
    with pytest.raises(SpecError) as caught:
        parse_spec(text(content))
    assert caught.value.crash
    assert next(iter(validate(content))).severity == "error"


def test_octal_and_float_numbers_keep_their_value() -> None:
    # case 76: 0660 octal = 6*64 + 6*8 = 432; case 71: 10.5 -> 10
    octal = parse_spec(yaml_spec(edits="deviceNodes: [{path: /dev/null, fileMode: 0660}]"))
    assert octal.devices[0].edits.device_nodes[0].file_mode == 432
    truncated = parse_spec(text(spec(edits=node(major=10.5))))
    assert truncated.devices[0].edits.device_nodes[0].major == 10


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("0o660", 432),
        ("0x1b0", 432),
        ("0b11", 3),
        ("1_000", 1000),
        ("+7", 7),
        ("08", 8),
        ("1e3", 1000),
        ("~", 0),
    ],
)
def test_integers_in_every_base(written: str, value: int) -> None:
    read = parse_spec(yaml_spec(edits=f"deviceNodes: [{{path: /dev/null, minor: {written}}}]"))
    assert read.devices[0].edits.device_nodes[0].minor == value


@pytest.mark.parametrize(
    "written", ["007", "0x10", "yes", "1e3", "12:30", "2001-01-01", "0o660", "true", "'null'"]
)
def test_text_fields_take_scalars_literally(written: str) -> None:
    read = parse_spec(yaml_spec("0.6.0").replace("kind:", f"annotations: {{a: {written}}}\nkind:"))
    assert read.annotations == {"a": written.strip("'")}


@pytest.mark.parametrize(
    ("written", "value"),
    [("true", True), ("yes", True), ("on", True), ("False", False), ("no", False), ("off", False)],
)
def test_words_for_truth_values(written: str, value: bool) -> None:
    read = parse_spec(yaml_spec("1.1.0", f"intelRdt: {{enableMonitoring: {written}}}"))
    assert read.devices[0].edits.intel_rdt.enable_monitoring is value


def test_a_quoted_truth_value_is_text() -> None:
    with pytest.raises(SpecError, match="cannot unmarshal !!str `true` into bool"):
        parse_spec(yaml_spec("1.1.0", "intelRdt: {enableMonitoring: 'true'}"))


def test_nulls_are_absent_or_dropped_from_plain_lists() -> None:
    read = parse_spec(yaml_spec(edits="env: [null, A=1, ~]").replace("kind:", "annotations: null\nkind:"))
    assert read.devices[0].edits.env == ["A=1"]
    assert read.annotations == {}


def test_a_single_text_is_not_a_list() -> None:
    with pytest.raises(SpecError, match=r"cannot unmarshal !!str `A=1` into \[\]string"):
        parse_spec(spec(edits={"env": "A=1"}))


def test_all_decoding_problems_are_reported_with_lines() -> None:
    with pytest.raises(SpecError) as caught:
        parse_spec(yaml_spec(edits="foo: 1\n    env: x\n    bar: 2"))
    assert str(caught.value).splitlines() == [
        "failed to unmarshal CDI Spec: yaml: unmarshal errors:",
        "  line 6: field foo not found in type specs.ContainerEdits",
        "  line 7: cannot unmarshal !!str `x` into []string",
        "  line 8: field bar not found in type specs.ContainerEdits",
    ]


def test_unknown_keys_win_over_the_version() -> None:
    with pytest.raises(SpecError, match="field foo not found"):
        parse_spec(spec("9.9.9", foo=1))


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe\xff",
        MINIMAL.replace("A=1", "A=\x7f").encode(),
        MINIMAL.replace("A=1", "A=").encode() + b"\xff",
        b"&a {devices: [*a]}",
        b"&a {containerEdits: {<<: *a}}",
        b"{<<: 5}",
        b"{" * 20000,
        b"[a]: b",
    ],
)
def test_hostile_texts_are_refused_as_spec_errors(content: bytes) -> None:
    with pytest.raises(SpecError):
        parse_spec(content)


def test_a_byte_order_mark_is_ignored() -> None:
    parse_spec(b"\xef\xbb\xbf" + MINIMAL.encode())


def test_raw_characters_beyond_the_bmp_are_fine() -> None:
    read = parse_spec(json.dumps(spec(edits={"env": ["A=\U0001f600"]}), ensure_ascii=False))
    assert read.devices[0].edits.env == ["A=\U0001f600"]


@pytest.mark.parametrize(
    ("version", "edits", "crash", "reason"),
    [
        # a device name with a digit needs 0.5.0, which is found before the mounts are looked at
        ("0.5.0", {"mounts": [None]}, False, "invalid (nil) mount"),
        # additionalGids need 0.7.0, which is found before the device nodes are looked at
        ("0.7.0", {"deviceNodes": [None], "additionalGids": [1]}, False, "invalid (nil) device node"),
    ],
)
def test_a_null_entry_crashes_only_if_the_version_search_reaches_it(
    version: str, edits: Any, crash: bool, reason: str
) -> None:
    with pytest.raises(SpecError) as caught:
        parse_spec(spec(version, devices=[device("0", edits)]))
    assert caught.value.crash is crash
    assert reason in str(caught.value)
    with pytest.raises(SpecError) as caught:
        parse_spec(spec("0.4.0", {"mounts": [None]}))
    assert caught.value.crash
