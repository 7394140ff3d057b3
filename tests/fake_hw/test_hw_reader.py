"""The reader: what a driver finds in a tree, whatever state the tree is in."""

from __future__ import annotations

from pathlib import Path

import pytest

from fake_hw import machines, tree
from fake_hw.reader import Gpu, Host

BDF = "0000:65:01.0"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "host"
    tree.create(machines.get("a30-1"), root, mknod=False)
    return root


def put(root: Path, name: str, data: str | bytes) -> None:
    path = root / "sys/bus/pci/devices" / BDF / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)


def only(root: Path) -> Gpu:
    (gpu,) = Host(root).gpus()
    return gpu


def test_the_a30_has_every_fact_of_the_published_slice(root: Path) -> None:
    gpu = only(root)
    assert (gpu.architecture, gpu.brand, gpu.product) == ("Ampere", "Nvidia", "NVIDIA A30")
    assert (gpu.cuda_compute_capability, gpu.cuda_driver_version, gpu.driver_version) == (
        "8.0.0",
        "12.2.0",
        "535.129.3",
    )
    assert (gpu.bdf, gpu.pcie_root, gpu.numa_node) == (BDF, "pci0000:64", 0)
    assert gpu.uuid == "GPU-c8133a35-9d03-a6b2-31dd-260000000000"
    assert gpu.memory == 24 * 1024**3
    assert (gpu.major, gpu.minor, gpu.dev_name) == (240, 0, "fakegpu0")
    assert (gpu.dev_path, gpu.control_path) == (root / "dev/fakegpu0", root / "dev/fakegpuctl")
    assert gpu.features == {"timeslice": True, "mps": True, "mig": True}
    assert Host(root).scan().problems == ()


def test_gpus_come_in_the_order_of_their_addresses_without_the_bridges(tmp_path: Path) -> None:
    tree.create(machines.get("dual-numa-4"), tmp_path / "host", mknod=False)
    gpus = Host(tmp_path / "host").gpus()
    assert [(gpu.bdf, gpu.pcie_root, gpu.numa_node) for gpu in gpus] == [
        ("0000:19:00.0", "pci0000:16", 0),
        ("0000:1a:00.0", "pci0000:16", 0),
        ("0000:9a:00.0", "pci0000:97", 1),
        ("0000:9b:00.0", "pci0000:97", 1),
    ]


OPTIONAL = {
    "gpu/product_name": "product",
    "gpu/brand": "brand",
    "gpu/architecture": "architecture",
    "gpu/serial": "serial",
    "gpu/firmware_version": "firmware_version",
    "gpu/cuda_compute_capability": "cuda_compute_capability",
    "gpu/memory_total": "memory",
    "gpu/uuid": "uuid",
    "numa_node": "numa_node",
    "vendor": "vendor_id",
    "device": "device_id",
    "driver": "driver",
    "gpu/uevent": "dev_name",
    "gpu/dev": "minor",
}


@pytest.mark.parametrize(("name", "fact"), OPTIONAL.items())
def test_a_missing_file_costs_one_fact_and_not_the_device(root: Path, name: str, fact: str) -> None:
    whole = only(root)
    (root / "sys/bus/pci/devices" / BDF / name).unlink()
    gpu = only(root)
    assert getattr(whole, fact) is not None
    assert getattr(gpu, fact) is None
    assert gpu.bdf == BDF


def test_a_device_without_feature_files_declares_nothing(root: Path) -> None:
    for path in (root / "sys/bus/pci/devices" / BDF / "gpu/features").iterdir():
        path.unlink()
    assert only(root).features == {}


@pytest.mark.parametrize(
    ("text", "node", "odd"),
    [
        ("-1\n", None, False),
        ("0", 0, False),
        ("1023\n", 1023, False),
        ("1024\n", None, True),
        ("abc\n", None, True),
        ("", None, False),
    ],
)
def test_the_numa_node_is_a_number_below_1024_or_none(
    root: Path, text: str, node: int | None, odd: bool
) -> None:
    put(root, "numa_node", text)
    assert only(root).numa_node == node
    assert bool(Host(root).scan().problems) == odd


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (f"../../../devices/pci0000:64/0000:64:02.0/{BDF}", "pci0000:64"),
        (f"../../../devices/platform/soc/pci0000:64/{BDF}", None),
        ("../../../devices/pci0000:64/0000:64:02.0/other", None),
        (f"../../../../devices/pci0000:64/0000:64:02.0/{BDF}", None),
    ],
)
def test_the_pcie_root_comes_from_one_level_of_a_relative_link(
    root: Path, target: str, expected: str | None
) -> None:
    link = root / "sys/bus/pci/devices" / BDF
    real = link.resolve()
    link.unlink()
    link.symlink_to(target)
    if not link.exists():
        # Only the text of the link differs; the device itself must stay reachable through it.
        there = link.parent / target
        there.parent.mkdir(parents=True, exist_ok=True)
        there.symlink_to(real)
    scan = Host(root).scan()
    assert scan.gpus[0].pcie_root == expected
    assert bool(scan.problems) == (expected is None)


@pytest.mark.parametrize(
    ("data", "product"),
    [
        (b"x" * 67 + b"\n", "x" * 67),
        (b"x" * 63 + "é".encode()[:1] + b"\n", "x" * 63 + "\ufffd"),
        (b"", None),
        (b" \n\0", None),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"y" * 10000, "y" * 4096),
    ],
)
def test_a_string_is_raw_but_always_valid_text(root: Path, data: bytes, product: str | None) -> None:
    put(root, "gpu/product_name", data)
    assert only(root).product == product


@pytest.mark.parametrize("name", ["gpu/memory_total", "gpu/dev", "gpu/uevent", "gpu/features/mig"])
def test_nonsense_is_a_problem_that_names_the_file(root: Path, name: str) -> None:
    put(root, name, "DEVNAME=../../etc/passwd\n")
    (problem,) = Host(root).scan().problems
    assert f"{BDF}/{name}: " in problem


def test_a_wrong_root_gives_no_device_and_says_where_it_looked(tmp_path: Path) -> None:
    scan = Host(tmp_path / "wrong").scan()
    assert scan.gpus == ()
    assert scan.problems == (f"{tmp_path}/wrong/sys/bus/pci/devices: No such file or directory",)
    assert Host(tmp_path / "wrong").gpus() == []
    assert Host(tmp_path / "wrong").numa_distances == {}


def test_a_foreign_entry_on_the_bus_is_left_out_and_told(root: Path) -> None:
    (root / "sys/bus/pci/devices/readme").write_text("")
    scan = Host(root).scan()
    assert len(scan.gpus) == 1
    assert scan.problems == (f"{root}/sys/bus/pci/devices/readme: not a PCI address; left out",)


def test_no_gpu_among_the_functions_is_told(root: Path) -> None:
    put(root, "class", "0x020000\n")
    (problem,) = Host(root).scan().problems
    assert "no GPU among 2 PCI functions" in problem


class TestNearestNumaNodes:
    @pytest.fixture
    def host(self, tmp_path: Path) -> Host:
        tree.create(machines.get("dual-numa-8"), tmp_path / "host", mknod=False)
        return Host(tmp_path / "host")

    def node(self, host: Host, name: str) -> Path:
        return host.sys / "devices/system/node" / name

    def test_rows_of_the_distance_table(self, host: Host) -> None:
        assert host.numa_distances == {
            0: [10, 12, 32, 32],
            1: [12, 10, 32, 32],
            2: [32, 32, 10, 12],
            3: [32, 32, 12, 10],
        }

    def test_the_neighbour_in_the_same_socket_follows_the_node(self, host: Host) -> None:
        assert [host.nearest_numa_nodes(node) for node in range(4)] == [[0, 1], [1, 0], [2, 3], [3, 2]]

    def test_equally_near_nodes_of_another_socket_are_left_out(self, host: Host) -> None:
        (self.node(host, "node1") / "distance").write_text("12 10 12 12\n")
        assert host.nearest_numa_nodes(1) == [1, 0]

    def test_a_node_of_unknown_socket_is_kept(self, host: Host) -> None:
        (self.node(host, "node1") / "distance").write_text("12 10 12 12\n")
        (self.node(host, "node3") / "cpulist").write_text("\n")
        assert host.nearest_numa_nodes(1) == [1, 0, 3]

    def test_without_an_own_socket_all_nearest_are_kept(self, host: Host) -> None:
        (self.node(host, "node1") / "distance").write_text("12 10 12 12\n")
        (self.node(host, "node1") / "cpulist").unlink()
        assert host.nearest_numa_nodes(1) == [1, 0, 2, 3]

    @pytest.mark.parametrize("text", ["", "10 x 32 32", "10"])
    def test_an_unreadable_row_leaves_the_node_alone(self, host: Host, text: str) -> None:
        (self.node(host, "node0") / "distance").write_text(text)
        assert host.nearest_numa_nodes(0) == [0]
