"""The command line, as another process where that matters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fake_hw.backend import Backend
from fake_hw.cli import main
from fake_hw.faults import Faults

BDF = "0000:65:01.0"


@pytest.fixture
def root(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    path = str(tmp_path / "host")
    assert main(["create", path, "--machine", "a30-1", "--no-mknod"]) == 0
    assert capsys.readouterr().out == f"{path}: a30-1 with 1 GPU, regular files as device nodes\n"
    return path


def test_every_fault_can_be_set_and_healed(root: str) -> None:
    for words in (
        ["vanish", BDF],
        ["return", BDF],
        ["empty"],
        ["missing", f"{BDF}/gpu/brand"],
        ["text", f"{BDF}/gpu/product_name", "--value", "Näme"],
        ["text", "sys/module/fakegpu/version", "--bad", "not-semver"],
        ["minor", f"{BDF}=130"],
        ["fail", "--call", "3"],
        ["block", BDF],
        ["release"],
        ["block"],
    ):
        assert main(["fault", root, *words]) == 0
    active = Faults(Path(root)).active()
    assert active.vanished == (BDF,)
    assert [path.rsplit("/", 1)[1] for path in active.missing] == ["brand"]
    assert sorted(text.encode("latin-1") for text in active.texts.values()) == [
        b"6.19.14.31400000\n",
        "Näme\n".encode(),
    ]
    assert active.minors == {BDF: 130}
    assert [(failure.bdf, failure.call) for failure in active.failures] == [("*", 3)]
    assert active.blocked == ("*",)
    assert main(["heal", root]) == 0
    assert Faults(Path(root)).active().vanished == ()


def test_gpus_can_be_given_by_their_number(tmp_path: Path) -> None:
    root = str(tmp_path / "host")
    main(["create", root, "--no-mknod"])
    for words in (
        ["vanish", "gpu-0", "gpu-3"],
        ["return", "gpu-3"],
        ["missing", "gpu-1/gpu/brand"],
        ["minor", "gpu-2=130"],
        ["block", "gpu-1"],
        ["fail", "gpu-1"],
    ):
        assert main(["fault", root, *words]) == 0
    active = Faults(Path(root)).active()
    assert active.vanished == ("0000:19:00.0",)
    assert active.missing[0].endswith("/0000:1a:00.0/gpu/brand")
    assert active.minors == {"0000:9a:00.0": 130}
    assert active.blocked == ("0000:1a:00.0",)
    assert active.failures[0].bdf == "0000:1a:00.0"


def test_show_is_for_people_and_for_programs(root: str, capsys: pytest.CaptureFixture[str]) -> None:
    Backend(Path(root)).configure(BDF, "u1", {"timeslice": "Long"})
    assert main(["show", root]) == 0
    assert capsys.readouterr().out == (
        "machine a30-1: 1 of 1 GPU present\n"
        "BDF           ROOT        NUMA  NODE      MEMORY  PRODUCT     CLAIMS\n"
        "0000:65:01.0  pci0000:64  0     fakegpu0  24Gi    NVIDIA A30  u1\n"
    )
    assert main(["show", root, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["gpus"][0]["dev_path"] == f"{root}/dev/fakegpu0"
    assert document["configured"][BDF]["u1"]["settings"] == {"timeslice": "Long"}
    main(["fault", root, "vanish", BDF])
    assert main(["show", root]) == 0
    out = capsys.readouterr().out
    assert "0 of 1 GPU present" in out
    assert f'fault: vanished ["{BDF}"]' in out
    assert f"problem: {root}/sys/bus/pci/devices: no GPU among 1 PCI functions" in out


def test_journal_tells_double_use(root: str, capsys: pytest.CaptureFixture[str]) -> None:
    backend = Backend(Path(root))
    for claim in ("u1", "u2"):
        backend.configure(BDF, claim)
    assert main(["journal", root]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[2:] for line in lines[:2]] == [
        ["configure", BDF, "u1"],
        ["configure", BDF, "u2"],
    ]
    assert lines[2:] == [f"DOUBLE USE  {BDF}  by u1 and u2, still"]
    assert main(["journal", root, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [event["claim"] for event in document["events"]] == ["u1", "u2"]
    assert document["overlaps"][0]["claims"] == ["u1", "u2"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "the following arguments are required: COMMAND (try --help)"),
        (["explode"], "invalid choice: 'explode'"),
        (["show"], "the following arguments are required: ROOT (try --help)"),
        (["fault", "ROOT"], "the following arguments are required: KIND (try --help)"),
        (["fault", "ROOT", "vanish", "gpu-1"], "gpu-1: no such GPU; there are gpu-0"),
        (["fault", "ROOT", "minor", BDF], f'"{BDF}" must be BDF=N, such as 0000:65:01.0=130'),
        (["fault", "ROOT", "fail", "--call", "x"], "invalid int value: 'x'"),
        (["fault", "ROOT", "text", "x"], "one of the arguments --value --bad is required"),
        (["fault", "ROOT", "vanish", "x"], "x: no such PCI function; there are 0000:64:02.0, 0000:65:01.0"),
        (["create", "ROOT"], "already holds a fake hardware tree; use --force to replace it"),
        (["create", "ROOT", "--machine", "a30"], 'no machine is named "a30"; there are a30-1, '),
        (["create", "ROOT", "--machine", "./x.yaml"], "./x.yaml: cannot be read: No such file or directory"),
        (["create", "ROOT/dev/fakegpu0/x", "--machine", "a30-1"], "cannot hold a tree: "),
        (
            ["show", "ROOT/sys"],
            "not a fake hardware tree (run/fake_hw/machine.json is missing); create one first",
        ),
        (["heal", "/nowhere"], "/nowhere: not a fake hardware tree"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    root: str, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    try:
        code = main([word.replace("ROOT", root) for word in words], prog="hw")
    except SystemExit as stop:
        code = stop.code  # type: ignore[assignment]
    captured = capsys.readouterr()
    assert code == 2
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("hw")
    assert message in captured.err


def test_each_mistake_of_a_document_has_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.yaml").write_text("schemaVersion: 1\nname: m\nnumaNode: []\n")
    assert main(["create", str(tmp_path / "host"), "--machine", str(tmp_path / "m.yaml")], prog="hw") == 2
    err = capsys.readouterr().err.splitlines()
    assert err[0] == f"hw: {tmp_path}/m.yaml:1: numaNodes: is required"
    assert err[1].startswith(f"hw: {tmp_path}/m.yaml:3: numaNode: unknown field; allowed: ")
    assert not (tmp_path / "host").exists()


def test_machines_are_listed_with_what_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["machines"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["a30-1", "dual-numa-4", "dual-numa-8"]
    assert lines[0] == "a30-1         One socket with one NVIDIA A30"


def test_the_command_runs_as_a_module_and_survives_a_closed_pipe(root: str) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "fake_hw", "show", root]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_command_line_imports_nothing_heavy() -> None:
    code = "import sys, fake_hw.cli; print([m for m in ('yaml', 'kubernetes', 'grpc', 'asyncio') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"
