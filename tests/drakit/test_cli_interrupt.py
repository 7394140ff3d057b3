from __future__ import annotations

import os
import signal
import subprocess

import pytest
from cli_kit import SECONDS, Cli, until

pytestmark = pytest.mark.process

TOLD = "drakit: interrupted; everything it started is stopped"
# "Within 5 s" is for an idle machine.
ENOUGH = 20.0


def begun(cli: Cli, *words: object, mode: str = "never-answers", **more: object) -> subprocess.Popen[str]:
    """A run whose driver is up, in the middle of calls that the driver never answers."""
    process = cli.start("conformance", cli.driver(mode, **more), "--report", cli.folder / "report", *words)
    until(lambda: any("tiny_driver" in command for command in cli.processes().values()), "a driver runs")
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_run_and_everything_it_started(cli: Cli, number: signal.Signals) -> None:
    # DRV-UNP-01 calls Unprepare, which never answers; the kubelet's limit of 45 s must not hold up the end.
    process = begun(cli, "--focus", "DRV-UNP-0*", "--focus", "DRV-REG-0*")
    until(lambda: list(cli.temporary.glob("dk-*/n*/px/*.sock")), "a registered driver")
    process.send_signal(number)
    done = cli.finish(process, ENOUGH)
    assert done.code == 130
    assert done.lines()[-1] == TOLD
    assert done.out == "" and "Traceback" not in done.err
    cli.check_clean()
    assert not (cli.folder / "report").exists()


def test_an_interrupt_ends_a_command_that_prepares_a_node(cli: Cli) -> None:
    forever = ["{python}", "-c", "import signal; 'a sleeper'; signal.pause()"]
    process = cli.start("conformance", cli.driver("well", prepareNode=[forever]))
    until(lambda: any("a sleeper" in command for command in cli.processes().values()), "prepareNode runs")
    process.send_signal(signal.SIGINT)
    done = cli.finish(process, ENOUGH)
    assert (done.code, done.lines()[-1]) == (130, TOLD)
    cli.check_clean()


def test_two_interrupts_leave_nothing_either(cli: Cli) -> None:
    process = begun(cli, "--focus", "DRV-UNP-0*", "--focus", "DRV-REG-0*")
    # The same signal twice at once would be delivered as one.
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    done = cli.finish(process, ENOUGH)
    assert done.code == 130
    assert "Traceback" not in done.err and "drakit: interrupted" in done.err
    cli.check_clean()


def test_after_a_kill_the_guardian_takes_everything_away(cli: Cli) -> None:
    process = begun(cli, "--focus", "DRV-REG-01", "--focus", "DRV-UNP-01", mode="grandchild")
    until(
        lambda: sum("signal.pause" in command for command in cli.processes().values()) >= 2, "grandchildren"
    )
    process.kill()
    cli.finish(process, ENOUGH)
    cli.check_clean()


def test_an_interrupt_of_a_run_in_a_terminal_reaches_the_kit_alone(cli: Cli) -> None:
    # Ctrl-C goes to the whole process group of the terminal: drivers are in groups of their own.
    path = cli.driver("well")
    process = cli.start("conformance", path, process_group=0)
    until(lambda: list(cli.temporary.glob("dk-*/n*/px/*.sock")), "a registered driver", SECONDS)
    groups = set(cli.processes()) - {process.pid}

    assert all(os.getpgid(pid) != process.pid for pid in groups)
    os.killpg(process.pid, signal.SIGINT)
    done = cli.finish(process, ENOUGH)
    assert (done.code, done.lines()[-1]) == (130, TOLD)
    cli.check_clean()
