from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_kit import NAME, Cli, Done

pytestmark = pytest.mark.process

GATE = ("--focus", "DRV-REG-01")


def report(done: Done) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.out)
    assert found["exitCode"] == done.code
    return found


def results(done: Done) -> dict[str, dict[str, Any]]:
    """The results by id, without the disabled ones."""
    return {item["id"]: item for item in report(done)["results"] if item["verdict"] != "disabled"}


def verdicts(done: Done) -> dict[str, str]:
    return {name: item["verdict"] for name, item in results(done).items()}


# Commands of the descriptor that do not work: the user's mistake, code 2, before anything is judged.


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["/no/such/program"], 'start.command: no program "/no/such/program"; build it or correct the path'),
        (["/etc/passwd"], 'start.command: cannot start "/etc/passwd": it is not executable'),
    ],
)
def test_a_driver_that_cannot_be_started_is_a_mistake_of_input(
    cli: Cli, command: list[str], message: str
) -> None:
    path = cli.driver("well", start={"command": command})
    done = cli.judge(path, "--json", *GATE, "--report", cli.folder / "report")
    assert (done.code, done.out) == (2, "")
    (line,) = [line for line in done.lines() if line.startswith("drakit: ")]
    assert line.startswith(f"drakit: {path}: {message}"), line
    assert not (cli.folder / "report").exists()


def test_a_prepare_command_that_fails_is_a_mistake_of_input(cli: Cli) -> None:
    code = "import os; os.write(2, b'\\xff\\x00 no module\\n'); os._exit(9)"
    done = cli.judge(cli.driver("well", prepareNode=[["{python}", "-c", code]]), *GATE)
    assert done.code == 2
    (line,) = [line for line in done.lines() if line.startswith("drakit: ")]
    assert "prepareNode[0]: " in line
    assert line.endswith("ended with exit code 9: \ufffd\ufffd no module"), line


def test_a_hook_that_fails_is_an_error_of_the_descriptor_and_not_of_the_kit(cli: Cli) -> None:
    hooks = {"removeAllDevices": [["{python}", "-c", "import sys; sys.exit('the knob is stuck')"]]}
    done = cli.judge(
        cli.driver("well", hooks=hooks), "--json", "--focus", "DRV-SLC-10", "--focus", "DRV-REG-02"
    )
    assert done.code == 2
    assert verdicts(done) == {"DRV-REG-02": "pass", "DRV-SLC-10": "error"}
    broken = results(done)["DRV-SLC-10"]
    assert broken["cause"] == "input"
    assert "hooks.removeAllDevices[0]: " in broken["reason"] and "the knob is stuck" in broken["reason"]
    assert done.lines()[-1].startswith("drakit: Not every requirement could be judged: the descriptor")


def test_permissions_that_the_api_refuses_are_a_mistake_of_input(cli: Cli) -> None:
    rule = {"apiGroups": [""], "resources": ["nodes"], "verbs": []}
    done = cli.judge(cli.driver("well", permissions=[rule]), *GATE)
    assert done.code == 2
    assert "permissions: the API server refuses them: " in done.lines()[-1]


# Drivers that go wrong: a verdict, and nothing left behind.


@pytest.mark.parametrize(
    ("mode", "seconds", "seen"),
    [
        ("exit", 20, "it ended with exit code 7 and printed nothing"),
        ("exit-with-words", 20, "it ended with exit code 3, its last words: no GPU here, giving up"),
        ("deaf", 1, "the registry directory holds nothing"),
        ("silent-socket", 1, "GetInfo failed: DEADLINE_EXCEEDED"),
    ],
)
def test_a_driver_that_does_not_register_fails_one_requirement_and_stops_the_rest(
    cli: Cli, mode: str, seconds: float, seen: str
) -> None:
    done = cli.judge(cli.driver(mode, start={"readySeconds": seconds}), "--json", "--focus", "contract")
    found = {name: item for name, item in results(done).items() if name.startswith("DRV-")}
    assert done.code == 1
    assert {name for name, item in found.items() if item["verdict"] == "fail"} == {"DRV-REG-01"}
    assert found["DRV-REG-01"]["seen"].startswith(seen)
    assert found["DRV-REG-01"]["evidence"][-1]["title"].startswith("output of the driver (")
    rest = [
        item for name, item in found.items() if name != "DRV-REG-01" and "not declare" not in item["reason"]
    ]
    assert len(rest) > 40
    assert {item["reason"] for item in rest if "no hook" not in item["reason"]} == {
        "not testable: DRV-REG-01 did not pass"
    }
    assert len(done.out) < 500_000


def test_garbage_without_end_is_kept_short_and_away_from_the_terminal(cli: Cli) -> None:
    done = cli.judge(cli.driver("garbage", start={"readySeconds": 2}), *GATE, PYTHONIOENCODING="ascii")
    assert done.code == 1
    assert "seen:     the registry directory holds nothing" in done.out
    assert "garbage" in done.out and "\x1b" not in done.out and "\x00" not in done.out
    assert len(done.out) < 50_000


def test_a_driver_with_another_name_is_told_so_and_the_rest_is_skipped_quickly(cli: Cli) -> None:
    path = cli.driver("stranger", start={"readySeconds": 60})
    focus = [word for name in ("registration", "prepare", "unprepare") for word in ("--focus", name)]
    done = cli.judge(path, "--json", *focus, seconds=50)
    found = results(done)
    assert done.code == 1
    assert found["DRV-REG-01"]["verdict"] == "pass"
    assert (found["DRV-REG-03"]["verdict"], found["DRV-REG-03"]["seen"]) == (
        "fail",
        "name 'other.example.com'",
    )
    reasons = {item["reason"] for name, item in found.items() if name.startswith(("DRV-PREP", "DRV-UNP"))}
    told = "not testable here: the driver did not register: it registered as other.example.com"
    assert any(reason.startswith(told) for reason in reasons), reasons


def test_without_devices_what_needs_one_is_not_testable_and_never_passes(cli: Cli) -> None:
    path = cli.driver("well", start={"readySeconds": 2}, capabilities=["whole-devices"])
    names = ["DRV-SLC-01", "DRV-SLC-02", "DRV-PREP-01", "DRV-PREP-03", "DRV-UNP-01", "DRV-UNP-02"]
    focus = [word for name in names for word in ("--focus", name)]
    done = cli.judge(path, "--json", *focus)
    found = verdicts(done)
    assert done.code == 1
    assert found.pop("DRV-SLC-01") == "fail"
    assert found.pop("DRV-UNP-01") == "pass"  # unprepare of an unknown claim needs no device
    assert set(found.values()) == {"skip"}
    assert (
        "a device is needed; the driver published none (no slice)" in results(done)["DRV-PREP-01"]["reason"]
    )


@pytest.mark.parametrize("mode", ["removes-sockets", "removes-directories", "removes-plugin-folder"])
def test_a_driver_that_removes_what_it_needs_is_judged_and_no_fault_of_the_kit(cli: Cli, mode: str) -> None:
    path = cli.driver(mode, start={"readySeconds": 2})
    done = cli.judge(path, "--json", "--focus", "DRV-REG-0[16]", "--focus", "DRV-UNP-01")
    assert done.code == 1
    assert "error" not in verdicts(done).values(), done.out
    assert "fail" in verdicts(done).values()


def test_what_a_driver_starts_does_not_survive_it(cli: Cli) -> None:
    # The check itself is in Cli: nothing that carries the mark of this test runs after the command.
    done = cli.judge(cli.driver("grandchild"), *GATE)
    assert done.code == 0


def test_a_huge_answer_is_a_failure_and_not_a_huge_report(cli: Cli) -> None:
    done = cli.judge(cli.driver("huge"), "--json", "--focus", "DRV-UNP-01")
    assert done.code == 1
    assert "RESOURCE_EXHAUSTED" in results(done)["DRV-UNP-01"]["seen"]
    assert len(done.out) < 500_000


def test_a_driver_name_of_63_characters_works(cli: Cli) -> None:
    name = f"{'n' * 51}.example.com"
    assert len(name) == 63
    # 4 (/tmp) + 12 (/dk-xxxxxxxx) + 6 (/n9999) + 8 (/plugins) + 64 + 9 (/dra.sock) = 103 of 107 bytes.
    done = cli.judge(
        cli.driver("well", name=name),
        "--json",
        "--focus",
        "DRV-REG-01",
        "--focus",
        "DRV-REG-11",
        TMPDIR="/tmp",
    )
    assert verdicts(done) == {"DRV-REG-01": "pass", "DRV-REG-11": "pass"}


def test_a_descriptor_is_found_from_anywhere_and_knows_its_folder(cli: Cli) -> None:
    elsewhere = cli.folder / "elsewhere"
    elsewhere.mkdir()
    script = cli.folder / "own.py"
    script.write_text("print('hello from', __file__, flush=True); raise SystemExit(3)")
    cli.driver("well", start={"command": ["{python}", "{descriptor_dir}/own.py"]})
    done = cli.judge(Path("../driver.yaml"), *GATE, cwd=elsewhere)
    assert f"its last words: hello from {script}" in done.out
    assert "reproduce: drakit conformance ../driver.yaml --focus DRV-REG-01" in done.out


def test_the_driver_gets_neither_the_settings_of_the_kit_nor_another_cluster(cli: Cli) -> None:
    done = cli.judge(
        cli.driver("environment"), "--json", *GATE, KUBECONFIG="/home/me/.kube/config", NO_PROXY="example.com"
    )
    seen = results(done)["DRV-REG-01"]["seen"]
    assert seen.endswith("its last words: False False example.com,127.0.0.1")


def test_standard_error_holds_only_progress(cli: Cli) -> None:
    # The restart after SIGKILL is what makes the gRPC library talk about broken connections.
    done = cli.judge(cli.driver("well"), "--focus", "DRV-REG-10", "--focus", "DRV-REG-01")
    what = "an API server for the driver contract"
    assert done.lines()[0] == f"{NAME}: starting an embedded cluster (Kubernetes 1.37): {what}"
    assert [line[:6] for line in done.lines()[1:]] == ["[1/2] ", "[2/2] "], done.err


def test_two_runs_at_the_same_time_do_not_meet(cli: Cli) -> None:
    path = cli.driver("well")
    runs = [cli.start("conformance", path, "--json", "--focus", "DRV-REG-0[1-6]") for _ in range(2)]
    for run in runs:
        done = cli.finish(run)
        assert set(verdicts(done).values()) == {"pass"}, done.err
    cli.check_clean()
