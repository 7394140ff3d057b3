from __future__ import annotations

import signal

import pytest
from cli_kit import Cli, until

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["hw"], "drakit hw: "),
        (["hw", "creat", "x"], "drakit hw: argument COMMAND: invalid choice: 'creat'"),
        (["hw", "create"], "drakit hw create: the following arguments are required: ROOT (try --help)"),
        (["hw", "create", "x", "--machine", "dual-numa-5"], "drakit hw: "),
        (["hw", "show", "absent"], "drakit hw: "),
        (["hw", "fault", "absent", "vanish", "gpu-0"], "drakit hw: "),
        (["driver", "walk"], "drakit: No such command 'walk'"),
        (
            ["driver", "run", "--profile", "cpu"],
            "drakit driver run: error: argument --profile: invalid choice: 'cpu'",
        ),
        (["driver", "run", "--naem", "x"], "drakit driver run: error: unrecognized arguments: --naem x"),
        (
            ["driver", "run"],
            "driver: --name, --node, --plugin-dir, --registry-dir, --cdi-dir, --hw-root must",
        ),
    ],
)
def test_wrong_usage_by_hand_is_code_2(cli: Cli, words: list[str], message: str) -> None:
    done = cli(*words)
    assert (done.code, done.out) == (2, "")
    assert done.lines()[-1].startswith(message), done.err


@pytest.mark.parametrize(
    "words", [["hw", "--help"], ["hw", "create", "--help"], ["driver", "--help"], ["driver", "run", "--help"]]
)
def test_help_by_hand_names_the_command_that_was_typed(cli: Cli, words: list[str]) -> None:
    done = cli(*words)
    assert (done.code, done.err) == (0, "")
    assert f"drakit {' '.join(words[:-1])}" in done.out


def test_hardware_by_hand(cli: Cli) -> None:
    root = cli.folder / "hw"
    assert cli("hw", "create", root).code == 0
    assert "gpu" in cli("hw", "show", root).out.lower()
    again = cli("hw", "create", root)
    assert again.code == 2
    assert len(again.lines()) == 1 and str(root) in again.err


def test_a_driver_by_hand_runs_until_it_is_stopped(cli: Cli) -> None:
    """Without an API server it registers all the same, and says what it misses."""
    hardware, registry = cli.folder / "hw", cli.temporary / "reg"
    assert cli("hw", "create", hardware).code == 0
    registry.mkdir()
    kubeconfig = cli.write(KUBECONFIG, "kubeconfig")
    process = cli.start(
        *(
            "driver",
            "run",
            "--profile=gpu",
            "--name=gpu.example.com",
            "--node=n1",
            f"--kubeconfig={kubeconfig}",
        ),
        *(
            f"--plugin-dir={cli.temporary}/plugin",
            f"--registry-dir={registry}",
            f"--cdi-dir={cli.temporary}/cdi",
        ),
        f"--hw-root={hardware}",
    )
    until(lambda: [path for path in registry.iterdir() if path.is_socket()], "a registration socket")
    process.send_signal(signal.SIGTERM)
    done = cli.finish(process)
    assert done.code == 0, done.err
    assert list(registry.iterdir()) == []
    assert not cli.processes()


KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:9", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""
