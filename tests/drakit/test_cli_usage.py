from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from cli_kit import SECONDS, Cli

pytestmark = pytest.mark.process

PROBLEMS = """
schemaVersion: 1
name: gpu.example.com
devices: [gpu.example.com]
start:
  command: [run, "--node={nod}"]
  readySeconds: soon
capabilities: [whole-device]
hooks:
  failDevice: [[fail, "{device}", "{hw}"]]
"""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["conformance"],
            "which driver? Give its descriptor: drakit conformance DRIVER.yaml (--list needs none)",
        ),
        (["conformance", "absent.yaml"], "absent.yaml: no such file"),
        (["conformance", "."], ".: cannot be read: Is a directory"),
        (["conformance", "--focsu", "x"], "No such option '--focsu'"),
        (["conformance", "a.yaml", "b.yaml"], "Got unexpected extra argument (b.yaml)"),
        (
            ["conformance", "a.yaml", "--parallel", "0"],
            "Invalid value for '--parallel': 0 is not in the range",
        ),
        (
            ["conformance", "a.yaml", "--tier", "minikube"],
            "Invalid value for '--tier': 'minikube' is not one of 'embedded', 'local', 'kind'.",
        ),
        (
            ["conformance", "a.yaml", "--kubernetes-version", "1.36"],
            "an embedded cluster is Kubernetes 1.37 and no other; --tier local has 1.36",
        ),
        (
            ["conformance", "a.yaml", "--tier", "local", "--kubernetes-version", "1.33"],
            "Kubernetes 1.33 is not known; there are 1.37, 1.36, 1.35, 1.34",
        ),
        (
            ["conformance", "a.yaml", "--compare", "local"],
            '--compare local: give different tiers, such as "embedded,local,kind"',
        ),
        (
            ["conformance", "a.yaml", "--compare", "embedded,minikube"],
            'no tier "minikube"; there are embedded, local, kind',
        ),
        (
            ["conformance", "a.yaml", "--compare", "embedded,local", "--tier", "local"],
            "--tier and --compare exclude each other: --compare names the tiers",
        ),
        (["conformence"], "No such command 'conformence'"),
        (
            ["conformance", "x.yaml", "--focus", "DRV-PREP-1"],
            '"DRV-PREP-1" matches no requirement; did you mean "DRV-PREP-',
        ),
        (
            ["conformance", "--list", "--skip", "prepair"],
            '"prepair" matches no requirement; did you mean "prepare"?',
        ),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(cli: Cli, words: list[str], message: str) -> None:
    done = cli(*words)
    assert (done.code, done.out) == (2, "")
    assert len(done.lines()) == 1, done.err
    assert done.err.startswith(f"drakit: {message}"), done.err


def test_the_command_alone_shows_its_help(cli: Cli) -> None:
    done = cli()
    assert done.code == 2
    assert "drakit conformance DRIVER.yaml" in done.err and "Exit codes of conformance" in done.err


@pytest.mark.parametrize(
    "words", [["--help"], ["conformance", "-h"], ["conformance", "--help"], ["--version"]]
)
def test_help_and_version_go_to_standard_output(cli: Cli, words: list[str]) -> None:
    done = cli(*words)
    assert (done.code, done.err) == (0, "")
    assert "drakit" in done.out


def test_all_mistakes_of_a_descriptor_are_told_each_with_place_and_remedy(cli: Cli) -> None:
    done = cli.judge(cli.write(PROBLEMS))
    assert (done.code, done.out) == (2, "")
    place = f"drakit: {cli.folder}/driver.yaml: "
    expected = [
        "start.readySeconds: must be a number, got a string",
        'start.command: unknown placeholder {nod}; did you mean "node"?',
        'capabilities[0]: "whole-device" is not one of whole-devices,',
        "hooks.failDevice[0]: unknown placeholder {hw}",
        'devices: unknown field; did you mean "deviceClasses"?',
    ]
    for start in expected:
        assert any(line.startswith(place + start) for line in done.lines()), (start, done.err)
    assert len(done.lines()) == len(expected)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe\x00", "cannot be read: 'utf-8' codec can't decode"),
        (b"", "must be a mapping, got nothing"),
        (b"name: [", "line 1, column 8: not valid YAML"),
    ],
)
def test_a_file_that_is_no_descriptor_is_told(cli: Cli, content: bytes, message: str) -> None:
    path = cli.folder / "driver.yaml"
    path.write_bytes(content)
    done = cli.judge(path)
    assert done.code == 2
    assert done.lines()[0].startswith(f"drakit: {path}: {message}"), done.err


def test_a_report_folder_that_cannot_be_is_told_before_the_run(cli: Cli) -> None:
    descriptor = cli.driver("well")
    file = cli.write("", "file")
    for folder, why in (
        (file, "it is a file"),
        (file / "below", "Not a directory"),
        ("/proc", "No such file or directory"),
        ("/proc/report", "No such file or directory"),
    ):
        done = cli.judge(descriptor, "--report", folder)
        assert (done.code, done.out) == (2, "")
        assert done.err == f"drakit: --report {folder}: cannot write there: {why}; choose another folder\n"


def test_a_run_that_does_not_begin_leaves_no_report_folder(cli: Cli) -> None:
    descriptor = cli.driver("well", start={"command": ["/no/such/program"]})
    done = cli.judge(descriptor, "--report", cli.folder / "new" / "report", "--focus", "DRV-REG-01")
    assert done.code == 2
    assert not (cli.folder / "new").exists()


def test_a_long_temporary_folder_is_told_before_anything_starts(cli: Cli, tmp_path: Path) -> None:
    # 107 bytes for a socket's path: the folder's own 60 leave too few for /dk-xxxxxxxx/n9999/plugins/NAME/dra.sock.
    long = tmp_path / ("t" * 60)
    long.mkdir()
    done = cli.judge(cli.driver("well", name="n" * 63), TMPDIR=str(long))
    assert done.code == 2
    assert len(done.lines()) == 1
    assert f"the temporary folder {long} has too long a name" in done.err
    assert "set TMPDIR to a shorter folder such as /tmp" in done.err
    assert list(long.iterdir()) == []


def test_list_shows_the_requirements(cli: Cli) -> None:
    everything, some = cli("conformance", "--list"), cli("conformance", "--list", "--focus", "slices")
    assert (everything.code, everything.err, some.code) == (0, "", 0)
    assert "DRV-REG-01    MUST    The driver serves the registration service" in everything.out
    assert re.findall(r"^suite (\w+)$", everything.out, re.MULTILINE) == ["contract", "allocation"]
    assert "DRV-REG-01" not in some.out and "DRV-SLC-01" in some.out


def test_list_as_json_is_one_document(cli: Cli) -> None:
    done = cli("conformance", "--list", "--json", "--focus", "DRV-SLC-0*", "--skip", "DRV-SLC-02")
    records = json.loads(done.out)
    assert [record["id"] for record in records][:2] == ["DRV-SLC-01", "DRV-SLC-03"]
    assert set(records[0]) >= {"id", "level", "area", "rule", "capability", "hooks", "source"}


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_the_list_fits_the_columns(cli: Cli, columns: int) -> None:
    done = cli("conformance", "--list", COLUMNS=str(columns))
    lines = done.out.splitlines()
    assert max(map(len, lines)) <= columns
    assert not [line for line in lines if line != line.rstrip()]


def on_a_terminal(cli: Cli, columns: int, *words: str, **more: str) -> str:
    """What the command prints when its three streams are a terminal."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = cli.environment(TERM="xterm-256color", **more)
    command = [sys.executable, "-m", "drakit", *words]
    process = subprocess.Popen(
        command, stdin=follower, stdout=follower, stderr=follower, env=environment, cwd=cli.folder
    )
    os.close(follower)
    text = b""
    # On Linux reading fails when the last process has closed the terminal.
    with contextlib.suppress(OSError):
        while data := os.read(leader, 65536):
            text += data
    os.close(leader)
    assert process.wait(SECONDS) == 0
    return text.decode()


def test_on_a_terminal_the_list_takes_its_width(cli: Cli) -> None:
    text = on_a_terminal(cli, 100, "conformance", "--list")
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    longest = max(map(len, plain.splitlines()))
    assert 80 < longest <= 100
    assert "\x1b[1mprepare" in text


def test_a_run_on_a_terminal_respects_no_color(cli: Cli) -> None:
    path = cli.driver("well")
    text = on_a_terminal(cli, 80, "conformance", str(path), "--focus", "DRV-REG-01", NO_COLOR="1")
    assert "All declared MUSTs that were tested hold." in text
    assert not re.search(r"\x1b\[[0-9;]*(3|4|9|10)[0-7][;m]", text)


def test_in_a_pipe_each_requirement_is_a_whole_line_without_colours(cli: Cli) -> None:
    done = cli("conformance", "--list")
    assert "\x1b" not in done.out
    (line,) = [line for line in done.out.splitlines() if "DRV-SLC-10" in line]
    assert line.endswith("prints a warning.")


def test_a_reader_that_has_enough_is_no_error(cli: Cli) -> None:
    command = f"{sys.executable} -m drakit conformance --list | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=SECONDS, env=cli.environment()
    )
    assert done.stdout.splitlines()[-1] == "0"
    assert done.stderr == ""


def test_a_full_disk_is_told(cli: Cli) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "drakit", "conformance", "--list"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=SECONDS,
            env=cli.environment(),
        )
    assert done.returncode == 2
    assert done.stderr == "drakit: standard output cannot be written: No space left on device\n"


def test_nothing_to_test_is_code_4_and_starts_nothing(cli: Cli) -> None:
    done = cli.judge(cli.driver("well"), "--focus", "DRV-SLC-06")
    assert done.code == 4
    assert 'the descriptor does not declare the capability "slice-repair"' in done.out
    assert done.out.endswith("Nothing was tested.\n")
    assert "starting" not in done.err


def test_a_fault_of_the_kit_is_code_3(cli: Cli) -> None:
    broken = cli.folder / "sitecustomize.py"
    broken.write_text("import drakit.conformance as module\nmodule.catalogue = None\n")
    path = os.pathsep.join([str(cli.folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = cli.finish(cli.start("conformance", "--list", PYTHONPATH=path))
    assert done.code == 3
    assert done.lines()[-1].startswith("drakit: the kit itself broke: AttributeError: ")
