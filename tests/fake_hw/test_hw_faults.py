"""Faults: what they do to the tree, that they last, and that healing leaves no trace."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from fake_hw import machines, tree
from fake_hw.errors import FaultError, TreeError
from fake_hw.faults import BAD_TEXTS, Faults
from fake_hw.reader import Gpu, Host

FIRST, SECOND, THIRD = "0000:19:00.0", "0000:1a:00.0", "0000:9a:00.0"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "host"
    tree.create(machines.get("dual-numa-4"), root, mknod=False)
    return root


def picture(root: Path) -> dict[str, str]:
    """Every path of `sys` and `dev` with what it holds."""
    found = {}
    for top in ("sys", "dev"):
        for path in (root / top).rglob("*"):
            if path.is_symlink():
                found[str(path)] = f"-> {path.readlink()}"
            elif path.is_file():
                found[str(path)] = path.read_bytes().decode("latin-1")
            else:
                found[str(path)] = stat.filemode(path.lstat().st_mode)
    return found


def gpus(root: Path) -> dict[str, Gpu]:
    return {gpu.bdf: gpu for gpu in Host(root).gpus()}


def test_a_vanished_device_is_gone_everywhere_and_comes_back_the_same(root: Path) -> None:
    before = picture(root)
    Faults(root).vanish(FIRST)
    assert set(gpus(root)) == {SECOND, THIRD, "0000:9b:00.0"}
    assert [path for path in picture(root) if FIRST in path] == []
    assert not (root / "dev/fakegpu0").exists()
    assert Faults(root).active().vanished == (FIRST,)
    Faults(root).bring_back(FIRST)
    assert picture(root) == before


def test_a_bridge_takes_along_what_is_behind_it(root: Path) -> None:
    Faults(root).vanish("0000:17:00.0")
    assert set(gpus(root)) == {THIRD, "0000:9b:00.0"}
    with pytest.raises(
        FaultError, match=r"0000:19:00\.0: has not vanished by itself; vanished: 0000:17:00\.0"
    ):
        Faults(root).bring_back(FIRST)
    Faults(root).bring_back("0000:17:00.0")
    assert len(gpus(root)) == 4


def test_an_empty_machine_has_no_gpu_but_everything_else(root: Path) -> None:
    Faults(root).empty()
    assert gpus(root) == {}
    assert [path.name for path in (root / "dev").iterdir()] == ["fakegpuctl"]
    assert (root / "sys/bus/pci/devices/0000:16:01.0").exists()


@pytest.mark.parametrize(
    "target",
    [
        f"{FIRST}/gpu/features",
        f"sys/bus/pci/devices/{FIRST}/gpu/features",
        f"sys/devices/pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:00.0/{FIRST}/gpu/features/",
    ],
)
def test_a_missing_directory_can_be_named_in_three_ways(root: Path, target: str) -> None:
    Faults(root).missing(target)
    assert gpus(root)[FIRST].features == {}
    assert gpus(root)[SECOND].features == {"timeslice": True, "mps": True, "mig": True}
    assert not (root / "sys/bus/pci/devices" / FIRST / "gpu/features").exists()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("empty", b""),
        ("too-long", b"NVIDIA A100 80GB PCIe " + b"x" * 45),  # 22 + 45 = 67 bytes
        ("wide", b"NVIDIA A100 80GB PCIe" + b"x" * 42 + b"\xc3\xa9 and more"),  # 21 + 42 = 63, then two bytes
        ("cut-utf8", b"NVIDIA A100 80GB PCIe" + b"x" * 42 + b"\xc3"),  # 64 bytes
        ("not-semver", b"6.19.14.31400000"),
    ],
)
def test_bad_texts_are_made_from_the_old_text(root: Path, name: str, data: bytes) -> None:
    assert name in BAD_TEXTS
    Faults(root).bad_text(f"{FIRST}/gpu/product_name", "not-semver")  # the old text is the one without faults
    Faults(root).bad_text(f"{FIRST}/gpu/product_name", name)
    assert (root / "sys/bus/pci/devices" / FIRST / "gpu/product_name").read_bytes() == data + b"\n"


def test_a_text_is_written_byte_for_byte_and_survives_other_faults(root: Path) -> None:
    everything = bytes(range(256))
    Faults(root).text("sys/module/fakegpu/version", everything)
    Faults(root).vanish(FIRST)
    assert (root / "sys/module/fakegpu/version").read_bytes() == everything


def test_a_new_minor_moves_the_device_node_but_not_the_address(root: Path) -> None:
    Faults(root).renumber({FIRST: 130})
    gpu = gpus(root)[FIRST]
    assert (gpu.minor, gpu.dev_name, gpu.dev_path) == (130, "fakegpu130", root / "dev/fakegpu130")
    assert (root / "dev/fakegpu130").read_text() == "c 240:130\n"
    assert not (root / "dev/fakegpu0").exists()


def test_two_devices_swap_their_minors(root: Path) -> None:
    uuids = {bdf: gpu.uuid for bdf, gpu in gpus(root).items()}
    Faults(root).renumber({FIRST: 1, SECOND: 0})
    assert {bdf: gpu.minor for bdf, gpu in gpus(root).items()} == {
        FIRST: 1,
        SECOND: 0,
        THIRD: 2,
        "0000:9b:00.0": 3,
    }
    assert {bdf: gpu.uuid for bdf, gpu in gpus(root).items()} == uuids


def test_a_number_given_away_before_stays_taken(root: Path) -> None:
    Faults(root).renumber({FIRST: 130})
    with pytest.raises(FaultError, match="minor 130 would belong to"):
        Faults(root).renumber({SECOND: 130})
    Faults(root).renumber({SECOND: 0})
    assert gpus(root)[SECOND].minor == 0


def test_healing_undoes_all_faults_and_edits_by_hand(root: Path) -> None:
    before = picture(root)
    faults = Faults(root)
    faults.vanish(FIRST)
    faults.missing(f"{SECOND}/gpu")
    faults.bad_text(f"{THIRD}/gpu/uuid", "empty")
    faults.renumber({THIRD: 200})
    faults.fail_configure()
    faults.block_configure(SECOND)
    (root / "sys/extra/deep").mkdir(parents=True)
    (root / "sys/extra/deep/file").write_text("x")
    (root / "dev/fakegpu3").unlink()
    assert picture(root) != before
    faults.heal()
    assert picture(root) == before
    assert faults.active() == type(faults.active())()


def test_a_change_that_was_cut_short_is_finished_by_the_next(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(tree, "sync", die)
        Faults(root).vanish(FIRST)
    assert FIRST in gpus(root)
    Faults(root).vanish(SECOND)
    assert set(gpus(root)) == {THIRD, "0000:9b:00.0"}


def test_healing_works_when_the_faults_file_is_damaged(root: Path) -> None:
    (root / "run/fake_hw/faults.json").write_text("[]")
    with pytest.raises(TreeError, match=r"faults\.json: damaged; heal the tree"):
        Faults(root).active()
    Faults(root).heal()
    assert Faults(root).active().vanished == ()


BAD = [
    (lambda f: f.vanish("0000:19:00.1"), r'no such PCI function; .*did you mean "0000:19:00.0"'),
    (lambda f: f.bring_back(FIRST), "has not vanished by itself; vanished: none"),
    (lambda f: f.missing("sys/nothing"), "sys/nothing: no such file or directory in the tree"),
    (
        lambda f: f.text(f"{FIRST}/gpu", b""),
        "no such file in the tree; give a path below the root or BDF/FILE",
    ),
    (lambda f: f.text(f"{FIRST}/gpu/product", b""), 'did you mean ".*gpu/product_name"'),
    (lambda f: f.text("../../etc/passwd", b""), "no such file in the tree"),
    (lambda f: f.bad_text(f"{FIRST}/gpu/uuid", "emty"), 'allowed: empty, .*did you mean "empty"'),
    (
        lambda f: f.renumber({FIRST: 1}),
        "minor 1 would belong to 0000:1.:00.0 and .*; renumber both in one call",
    ),
    (lambda f: f.renumber({FIRST: 255}), "minor 255 must be from 0 to 254"),
    (lambda f: f.renumber({"0000:16:01.0": 9}), "no such GPU"),
    (lambda f: f.fail_configure(call=0), "call 0 must be 1"),
    (lambda f: f.fail_configure("x"), "x: no such GPU"),
    (lambda f: f.block_configure("x"), "x: no such GPU"),
    (lambda f: f.release(FIRST), "is not blocked by itself; blocked: none"),
]


@pytest.mark.parametrize(("act", "message"), BAD)
def test_an_impossible_fault_is_refused_and_changes_nothing(root: Path, act: object, message: str) -> None:
    before = picture(root)
    assert callable(act)
    with pytest.raises(FaultError, match=message):
        act(Faults(root))
    assert picture(root) == before
    assert Faults(root).active() == type(Faults(root).active())()


def test_faults_keep_real_device_nodes_real(tmp_path: Path) -> None:
    root = tmp_path / "host"
    marker = tree.create(machines.get("a30-1"), root)
    Faults(root).renumber({"0000:65:01.0": 7})
    status = (root / "dev/fakegpu7").lstat()
    assert stat.S_ISCHR(status.st_mode) == marker.real_devices
    if marker.real_devices:
        assert os.minor(status.st_rdev) == 7


def test_a_reader_beside_never_sees_half_a_device(root: Path) -> None:
    """A link on the bus that is there leads to a complete device: looked at after every single step of a change."""
    seen: list[object] = []
    place, remove = tree._place, tree._remove

    def looking(step: object) -> object:
        def wrapped(*arguments: object) -> None:
            assert callable(step)
            step(*arguments)
            link = root / "sys/bus/pci/devices" / FIRST
            if link.is_symlink():
                (gpu,) = [gpu for gpu in Host(root).gpus() if gpu.bdf == FIRST]
                seen.append(
                    (gpu.uuid, gpu.memory, gpu.minor, gpu.dev_path is not None and gpu.dev_path.exists())
                )
            else:
                seen.append(None)

        return wrapped

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree, "_place", looking(place))
        patch.setattr(tree, "_remove", looking(remove))
        Faults(root).vanish(FIRST)
        Faults(root).bring_back(FIRST)
    whole = ("GPU-3f1c0a50-7d2e-4b6a-9c11-000000000000", 80 * 1024**3, 0, True)
    assert set(seen) == {None, whole}
