from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from node_api.cdi import (
    Container,
    HostNode,
    InjectionError,
    NotADeviceNodeError,
    apply,
    parse_spec,
    scan,
    start_problems,
    validate_directories,
    validate_request,
)
from node_api.cdi.container import ContainerDevice, ContainerMount, DeviceRule, host_nodes
from node_api.cdi.directory import UnresolvableError
from node_api.cdi.model import DeviceNode, Edits, Mount

HOST = {"/dev/g0": HostNode("c", 240, 5, 0o640)}


def look_up(path: str) -> HostNode:
    if path == "/dev/file":
        raise NotADeviceNodeError("not a device node")
    if path not in HOST:
        raise FileNotFoundError(2, "No such file or directory", path)
    return HOST[path]


def edits(**fields: Any) -> Edits:
    """Edits as a file gives them."""
    spec = {
        "cdiVersion": "1.1.0",
        "kind": "acme.com/gpu",
        "devices": [{"name": "d", "containerEdits": fields}],
    }
    return parse_spec(spec).devices[0].edits


def with_node(container: Container, **fields: Any) -> Container:
    apply(edits(deviceNodes=[{"path": "/dev/g0", **fields}]), container, look_up)
    return container


def write(path: Path, kind: str = "acme.com/gpu", own: Any = None, **devices: Any) -> None:
    content = {
        "cdiVersion": "1.1.0",
        "kind": kind,
        "containerEdits": own or {},
        "devices": [{"name": name, "containerEdits": value} for name, value in devices.items()],
    }
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))


def env(*values: str) -> dict[str, list[str]]:
    return {"env": list(values)}


def test_i1_a_node_takes_numbers_and_mode_from_the_host_but_no_owner() -> None:
    container = with_node(Container())
    # 0640 octal = 6*64 + 4*8 = 416
    assert container.devices == [ContainerDevice("/dev/g0", "c", 240, 5, 416, None, None)]
    assert container.device_rules == [DeviceRule("c", 240, 5, "rwm")]


def test_i2_the_owner_is_the_process() -> None:
    device = with_node(Container(uid=1000, gid=2000)).devices[0]
    assert (device.uid, device.gid) == (1000, 2000)


@pytest.mark.parametrize(
    ("host_path", "cause"),
    [("/dev/file", "not a device node"), ("/dev/absent", "no such file or directory")],
)
def test_i3_without_a_host_node_the_type_is_unknown(host_path: str, cause: str) -> None:
    container = Container()
    with pytest.raises(InjectionError) as caught:
        apply(edits(env=["A=1"], deviceNodes=[{"path": "/dev/x", "hostPath": host_path}]), container, look_up)
    assert str(caught.value) == (
        f'failed to inject devices: failed to stat CDI host device "{host_path}": {cause}'
    )
    # the environment came first
    assert container.env == ["A=1"]


@pytest.mark.parametrize("kind", ["link", "directory", "file"])
def test_i3_real_paths_are_not_followed(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "x"
    if kind == "link":
        target.symlink_to("/dev/null")
    elif kind == "directory":
        target.mkdir()
    else:
        target.write_text("")
    with pytest.raises(NotADeviceNodeError):
        host_nodes(tmp_path)("/x")


def test_real_nodes_are_read() -> None:
    assert host_nodes()("/dev/null").type == "c"
    assert (host_nodes()("/dev/null").major, host_nodes()("/dev/null").minor) == (1, 3)


def test_a_fifo_is_a_node_of_type_p(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x", 0o600)
    assert host_nodes(tmp_path)("/x") == HostNode("p", 0, 0, 0o600)


@pytest.mark.parametrize(
    ("case", "path", "given", "expected"),
    [
        ("I4", "/dev/absent", {"type": "c", "major": 9, "minor": 8}, ("c", 9, 8, None)),
        ("I7", "/dev/g0", {"type": "b", "major": 9, "minor": 8}, ("b", 9, 8, 0o640)),
        ("I8", "/dev/g0", {"type": "c", "minor": 8}, ("c", 240, 5, 0o640)),
        ("I9", "/dev/absent", {"type": "p"}, ("p", 0, 0, None)),
        ("I9", "/dev/file", {"type": "p"}, ("p", 0, 0, None)),
        ("major without type", "/dev/g0", {"major": 9, "minor": 8}, ("c", 9, 8, 0o640)),
        ("mode 0 is given", "/dev/g0", {"fileMode": 0}, ("c", 240, 5, 0)),
    ],
)
def test_numbers_and_mode(case: str, path: str, given: dict[str, Any], expected: tuple[Any, ...]) -> None:
    device = with_node(Container(), hostPath=path, **given).devices[0]
    assert (device.type, device.major, device.minor, device.file_mode) == expected


@pytest.mark.parametrize(
    ("path", "given", "text"),
    [
        ("/dev/absent", {"type": "c", "minor": 8}, "failed to stat"),  # I5
        ("/dev/g0", {"type": "b"}, 'CDI device ("/dev/g0", "/dev/g0"), host type mismatch (b, c)'),  # I6
        ("/dev/g0", {"type": "u"}, "host type mismatch (u, c)"),
    ],
)
def test_incomplete_or_contradicting_nodes_fail(path: str, given: dict[str, Any], text: str) -> None:
    with pytest.raises(InjectionError) as caught:
        with_node(Container(), hostPath=path, **given)
    assert text in str(caught.value)


def test_i9_fifos_get_no_rule() -> None:
    assert with_node(Container(), type="p").device_rules == []


def test_i10_permissions_none_make_an_empty_rule() -> None:
    container = with_node(Container(), permissions="none")
    assert container.device_rules == [DeviceRule("c", 240, 5, "")]
    assert start_problems(container) == ["device rule c 240:5: device access at 1 field cannot be empty"]


def test_a_node_with_the_same_path_is_replaced_but_rules_add_up() -> None:
    container = with_node(with_node(Container()), permissions="r")
    assert [device.path for device in container.devices] == ["/dev/g0"]
    assert [rule.access for rule in container.device_rules] == ["rwm", "r"]


def test_i11_unknown_ids_change_nothing_and_are_all_named(tmp_path: Path) -> None:
    write(tmp_path / "a.json", known=env("A=1"))
    ids = ["acme.com/gpu=known", "acme.com/gpu=no", "foo", "acme.com/gpu=no"]
    with pytest.raises(UnresolvableError) as caught:
        scan([tmp_path]).resolve(ids, deduplicate=False)
    assert str(caught.value) == "unresolvable CDI devices acme.com/gpu=no, foo, acme.com/gpu=no"
    # containerd removes repeated ids first
    with pytest.raises(UnresolvableError, match=r"devices acme\.com/gpu=no, foo$"):
        scan([tmp_path]).resolve(ids)
    assert [(f.severity, f.where) for f in validate_request(ids, scan([tmp_path]))] == [
        ("error", "acme.com/gpu=no"),
        ("error", "foo"),
        ("error", "acme.com/gpu=no"),
    ]


def test_i12_variables_are_replaced_in_place() -> None:
    container = Container(env=["A=pod", "S=pod", "A=pod2"])
    apply(edits(env=["S=acme", "A=d0"]), container)
    assert container.env == ["A=pod", "S=acme", "A=d0"]
    assert container.environment == {"A": "d0", "S": "acme"}


def test_i13_one_mount_per_destination_all_sorted_by_depth() -> None:
    container = Container(mounts=[ContainerMount("/p/q", "/0"), ContainerMount("/x", "/1")])
    mounts = [
        {"hostPath": "/2", "containerPath": "/x/y/z"},
        {"hostPath": "/3", "containerPath": "/x/y/z"},
        {"hostPath": "/4", "containerPath": "/x", "options": ["bind"]},
    ]
    apply(edits(mounts=mounts), container)
    assert [(mount.destination, mount.source) for mount in container.mounts] == [
        ("/x", "/4"),
        ("/p/q", "/0"),
        ("/x/y/z", "/3"),
    ]


def test_mounts_stay_in_place_without_a_cdi_mount() -> None:
    container = Container(mounts=[ContainerMount("/p/q", "/0"), ContainerMount("/x", "/1")])
    apply(edits(env=["A=1"]), container)
    assert [mount.destination for mount in container.mounts] == ["/p/q", "/x"]


def test_destinations_are_compared_literally() -> None:
    container = Container(mounts=[ContainerMount("/x/", "/0")])
    apply(edits(mounts=[{"hostPath": "/1", "containerPath": "/x"}]), container)
    assert [mount.destination for mount in container.mounts] == ["/x/", "/x"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (Mount("/h", "/c", ["bind"]), ("bind", "idmap")),
        (Mount("/h", "/c", ["rbind", "ro"]), ("rbind", "ro", "ridmap")),
        (Mount("/h", "/c", [], "bind"), ("idmap",)),
        (Mount("/h", "/c", ["bind", "idmap"]), ("bind", "idmap")),
        (Mount("/h", "/c", ["ro"], "tmpfs"), ("ro",)),
    ],
)
def test_mounts_of_an_id_mapped_container(given: Mount, expected: tuple[str, ...]) -> None:
    container = Container(id_mapped=True)
    apply(Edits(mounts=[given]), container)
    assert container.mounts[0].options == expected


def test_i14_the_last_rdt_class_replaces_all_of_the_earlier(tmp_path: Path) -> None:
    write(
        tmp_path / "a.json",
        own={"intelRdt": {"closID": "spec", "memBwSchema": "MB:0=10"}},
        d0={"intelRdt": {"closID": "zero"}},
        d1={"intelRdt": {"closID": "one"}},
    )
    container = Container()
    apply(scan([tmp_path]).resolve(["acme.com/gpu=d0", "acme.com/gpu=d1"]).edits, container)
    assert container.intel_rdt is not None
    assert (container.intel_rdt.clos_id, container.intel_rdt.mem_bw_schema) == ("one", "")


def test_i15_the_same_net_device_twice_is_an_error_that_changes_nothing(tmp_path: Path) -> None:
    write(
        tmp_path / "a.json",
        d0={"env": ["A=1"], "netDevices": [{"hostInterfaceName": "eth0", "name": "n"}]},
        d1={"netDevices": [{"hostInterfaceName": "eth1", "name": "n"}]},
    )
    container = Container()
    resolved = scan([tmp_path]).resolve(["acme.com/gpu=d0", "acme.com/gpu=d1"])
    with pytest.raises(InjectionError, match='duplicate Name "n"'):
        apply(resolved.edits, container)
    assert container == Container()
    apply(scan([tmp_path]).resolve(["acme.com/gpu=d0"]).edits, container)
    assert container.net_devices == {"eth0": "n"}


def test_i16_the_later_directory_wins_per_device_with_its_own_spec_edits(tmp_path: Path) -> None:
    low, high = tmp_path / "low", tmp_path / "high"
    write(low / "a.json", own=env("S=low"), d0=env("D=low"), d1=env("D=low1"))
    write(high / "a.json", own=env("S=high"), d0=env("D=high"))
    scanned = scan([low, high])
    first = scanned.resolve(["acme.com/gpu=d0"])
    assert first.edits.env == ["S=high", "D=high"]
    assert first.files == {"acme.com/gpu=d0": str(high / "a.json")}
    assert scanned.resolve(["acme.com/gpu=d1"]).edits.env == ["S=low", "D=low1"]
    assert scanned.errors == {}


def test_i17_a_conflict_in_one_directory_deletes_the_device_everywhere(tmp_path: Path) -> None:
    low, high = tmp_path / "low", tmp_path / "high"
    write(low / "a.json", d0=env("A=1"), only=env("A=1"))
    write(low / "b.json", d0=env("A=2"))
    write(high / "c.json", d0=env("A=3"))
    scanned = scan([low, high])
    assert set(scanned.devices) == {"acme.com/gpu=only"}
    text = f'conflicting device "acme.com/gpu=d0" (specs "{low / "b.json"}", "{low / "a.json"}")'
    assert scanned.errors == {str(low / "a.json"): [text], str(low / "b.json"): [text]}
    assert [finding.text for finding in validate_directories([low, high]) if finding.severity == "error"] == [
        text,
        text,
    ]


def test_i18_a_broken_file_does_not_harm_its_neighbours(tmp_path: Path) -> None:
    write(tmp_path / "a.json", d0=env("A=1"))
    (tmp_path / "b.json").write_text("{")
    (tmp_path / "c.json").symlink_to(tmp_path / "absent")
    (tmp_path / "d.json").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "e.json")
    scanned = scan([tmp_path])
    assert set(scanned.devices) == {"acme.com/gpu=d0"}
    assert sorted(Path(path).name for path in scanned.errors) == ["b.json", "c.json", "d.json", "e.json"]
    assert all(texts[0].startswith("failed to load CDI Spec ") for texts in scanned.errors.values())


def test_only_the_two_extensions_are_read_hidden_files_too(tmp_path: Path) -> None:
    names = ["a.json", ".b.yaml", ".json", "c.yml", "d.JSON", "e.json.tmp", "f.json~", "g"]
    for index, name in enumerate(names):
        write(tmp_path / name, **{f"d{index}": env("A=1")})
    (tmp_path / "h.json").mkdir()
    assert {key.rpartition("=")[2] for key in scan([tmp_path]).devices} == {"d0", "d1", "d2"}


def test_files_are_read_in_byte_order(tmp_path: Path) -> None:
    for name in ("b.json", "B.json", "a.yaml"):
        write(tmp_path / name, **{f"d{name[0]}": env("A=1")})
    assert [Path(file.path).name for file in scan([tmp_path]).files] == ["B.json", "a.yaml", "b.json"]


def test_a_missing_directory_is_skipped_and_a_file_in_its_place_ends_the_scan(tmp_path: Path) -> None:
    write(tmp_path / "low" / "a.json", d0=env("A=1"))
    write(tmp_path / "high" / "a.json", d1=env("A=1"))
    directories = [tmp_path / "low", tmp_path / "middle", tmp_path / "high"]
    assert len(scan(directories).devices) == 2
    (tmp_path / "middle").write_text("")
    scanned = scan(directories)
    assert set(scanned.devices) == {"acme.com/gpu=d0"}
    assert scanned.errors == {}
    (finding,) = [found for found in validate_directories(directories) if found.severity == "error"]
    assert finding.where == str(tmp_path / "middle")


def test_spec_edits_apply_once_per_file_before_its_first_device(tmp_path: Path) -> None:
    write(tmp_path / "a.json", own=env("SA=1"), d0=env("D0=1"), d1=env("D1=1"))
    write(tmp_path / "b.json", kind="other.com/x", own=env("SB=1"), n0=env("N0=1"))
    ids = ["acme.com/gpu=d1", "other.com/x=n0", "acme.com/gpu=d0", "acme.com/gpu=d1"]
    scanned = scan([tmp_path])
    assert scanned.resolve(ids).edits.env == ["SA=1", "D1=1", "SB=1", "N0=1", "D0=1"]
    # without de-duplication the repeated device comes again
    assert scanned.resolve(ids, deduplicate=False).edits.env[-2:] == ["D0=1", "D1=1"]
    assert scanned.resolve([]).edits.empty


def test_hooks_and_groups() -> None:
    hook = {"hookName": "poststop", "path": "/bin/x", "args": ["x"], "timeout": 3}
    container = Container(additional_gids=[7])
    apply(edits(hooks=[hook, hook], additionalGids=[0, 7, 9, 9]), container)
    assert [made.path for made in container.hooks["poststop"]] == ["/bin/x", "/bin/x"]
    assert container.additional_gids == [7, 9]


def test_what_an_oci_runtime_would_refuse_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    container = Container()
    apply(
        edits(
            mounts=[
                {"hostPath": "/there", "containerPath": "/a", "options": ["bind"]},
                {"hostPath": "/there", "containerPath": "/b", "type": "bind"},
                {"hostPath": "/gone", "containerPath": "/c", "options": ["rbind"]},
            ],
            hooks=[{"hookName": "prestart", "path": "/bin/absent"}, {"hookName": "prestart", "path": "x"}],
            netDevices=[{"hostInterfaceName": "eth9", "name": "n"}],
        ),
        container,
    )
    assert start_problems(container, tmp_path) == [
        "mount /b: no such device (no option bind or rbind)",
        "mount /c: source /gone does not exist",
        "hook prestart /bin/absent: not an executable file",
        "hook prestart x: the path is not absolute",
        "network device eth9: no such interface",
    ]


def test_null_nodes_never_reach_a_container() -> None:
    with pytest.raises(InjectionError, match="invalid"):
        apply(Edits(device_nodes=[None]), Container())
    apply(Edits(device_nodes=[DeviceNode(path="/dev/g0")]), Container(), look_up)
