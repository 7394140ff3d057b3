"""The tree on disk: what Linux would show, made whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from fake_hw import machines, tree
from fake_hw.errors import TreeError
from fake_hw.layout import cpu_ranges

A30 = "sys/devices/pci0000:64/0000:64:02.0/0000:65:01.0"


@pytest.fixture
def a30(tmp_path: Path) -> Path:
    root = tmp_path / "host"
    tree.create(machines.get("a30-1"), root, mknod=False)
    return root


LINKS = {
    "sys/bus/pci/devices/0000:65:01.0": "../../../devices/pci0000:64/0000:64:02.0/0000:65:01.0",
    f"{A30}/driver": "../../../../bus/pci/drivers/fakegpu",
    f"{A30}/subsystem": "../../../../bus/pci",
    "sys/bus/pci/drivers/fakegpu/module": "../../../../module/fakegpu",
    "sys/bus/pci/drivers/fakegpu/0000:65:01.0": "../../../../devices/pci0000:64/0000:64:02.0/0000:65:01.0",
    "sys/devices/system/cpu/cpu3/node0": "../../node/node0",
    "sys/devices/system/node/node0/cpu3": "../../cpu/cpu3",
}


def test_links_are_relative_with_the_depth_of_linux(a30: Path) -> None:
    assert {path: str((a30 / path).readlink()) for path in LINKS} == LINKS
    dangling = [path for path in a30.rglob("*") if path.is_symlink() and not path.exists()]
    assert dangling == []


def test_files_have_the_formats_of_sysfs(a30: Path) -> None:
    device = a30 / A30
    read = {
        name: (device / name).read_text()
        for name in ("vendor", "device", "class", "numa_node", "local_cpulist")
    }
    assert read == {
        "vendor": "0x10de\n",
        "device": "0x20b7\n",
        "class": "0x030200\n",
        "numa_node": "0\n",
        "local_cpulist": "0-7\n",
    }
    alias = "pci:v000010DEd000020B7sv000010DEsd00001532bc03sc02i00"
    assert (device / "uevent").read_text() == (
        "DRIVER=fakegpu\nPCI_CLASS=30200\nPCI_ID=10DE:20B7\nPCI_SUBSYS_ID=10DE:1532\n"
        f"PCI_SLOT_NAME=0000:65:01.0\nMODALIAS={alias}\n"
    )
    assert (device / "gpu/dev").read_text() == "240:0\n"
    assert (a30 / "sys/module/fakegpu/version").read_text() == "535.129.3\n"
    node = a30 / "sys/devices/system/node/node0"
    assert (node / "distance").read_text() == "10\n"
    # 64 GiB = 64 * 1024 * 1024 kB
    assert (node / "meminfo").read_text().splitlines()[0].split() == [
        "Node",
        "0",
        "MemTotal:",
        "67108864",
        "kB",
    ]


def test_sockets_and_distances_of_a_machine_with_four_nodes(tmp_path: Path) -> None:
    root = tmp_path / "host"
    tree.create(machines.get("dual-numa-8"), root, mknod=False)
    system = root / "sys/devices/system"
    assert (system / "node/node1/distance").read_text() == "12 10 32 32\n"
    assert (system / "cpu/cpu7/topology/physical_package_id").read_text() == "0\n"
    assert (system / "cpu/cpu8/topology/physical_package_id").read_text() == "1\n"
    assert (system / "cpu/online").read_text() == "0-15\n"
    assert (system / "node/online").read_text() == "0-3\n"
    assert sorted(path.name for path in (root / "dev").iterdir()) == [
        *(f"fakegpu{n}" for n in range(8)),
        "fakegpuctl",
    ]


def test_stand_in_device_nodes_record_type_and_number(a30: Path) -> None:
    assert (a30 / "dev/fakegpu0").read_bytes() == b"c 240:0\n"
    assert (a30 / "dev/fakegpuctl").read_bytes() == b"c 240:255\n"


def test_device_nodes_are_real_where_the_process_may_make_them(tmp_path: Path) -> None:
    marker = tree.create(machines.get("a30-1"), tmp_path / "host")
    status = (tmp_path / "host/dev/fakegpu0").lstat()
    if os.geteuid() != 0:
        assert not marker.real_devices
    assert stat.S_ISCHR(status.st_mode) == marker.real_devices
    if marker.real_devices:
        assert (os.major(status.st_rdev), os.minor(status.st_rdev)) == (240, 0)
        assert stat.S_IMODE(status.st_mode) == 0o666


def test_an_empty_directory_is_taken_and_left_readable(tmp_path: Path) -> None:
    root = tmp_path / "host"
    root.mkdir()
    tree.create(machines.get("a30-1"), root, mknod=False)
    assert stat.S_IMODE(root.stat().st_mode) == 0o755
    assert [path.name for path in tmp_path.iterdir()] == ["host"]


@pytest.mark.parametrize("force", [False, True])
def test_a_directory_that_is_not_ours_is_never_touched(tmp_path: Path, force: bool) -> None:
    (tmp_path / "precious").write_text("x")
    with pytest.raises(TreeError, match="not empty, and not a fake hardware tree"):
        tree.create(machines.get("a30-1"), tmp_path, force=force)
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "host").write_text("x")
    with pytest.raises(TreeError, match="host: exists and is not a directory"):
        tree.create(machines.get("a30-1"), tmp_path / "host")


def test_force_replaces_a_tree_made_before_and_nothing_less(a30: Path) -> None:
    with pytest.raises(TreeError, match="use --force to replace it"):
        tree.create(machines.get("dual-numa-4"), a30)
    tree.create(machines.get("dual-numa-4"), a30, force=True, mknod=False)
    assert tree.read_marker(a30).machine.name == "dual-numa-4"
    assert not (a30 / "sys/devices/pci0000:64").exists()
    assert [path.name for path in a30.parent.iterdir()] == ["host"]


def test_a_failure_half_way_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tree, "_put_in_place", full_disk)
    with pytest.raises(OSError, match="No space left"):
        tree.create(machines.get("a30-1"), tmp_path / "host", mknod=False)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_marker_is_named(a30: Path) -> None:
    (a30 / "run/fake_hw/machine.json").write_text("{}")
    with pytest.raises(TreeError, match=r"machine\.json: damaged"):
        tree.read_marker(a30)


def test_cpu_ranges_join_neighbours() -> None:
    assert cpu_ranges([5, 0, 1, 2, 7, 8]) == "0-2,5,7-8"
    assert cpu_ranges([]) == ""
