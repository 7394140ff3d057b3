"""drakit up, status and down, as a user calls them."""

from __future__ import annotations

import json
import os
import shlex
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from cli_kit import SECONDS, until
from clusters_kit import QUICK, Up, client, gone, wait_phase

pytestmark = pytest.mark.process


def test_up_status_and_down_of_a_cluster_with_drivers(up: Up, tmp_path: Path) -> None:
    done = up("up", "--nodes", "1", "--gpus", "2", "--name", "lab")
    assert done.code == 0, done
    notes = [line.partition(" (")[0] for line in done.lines()]
    assert notes[0].startswith("drakit: API server at https://127.0.0.1:")
    assert notes[1:] == ["drakit: 1 node Ready", "drakit: 2 devices of gpu.drakit.dev"]
    folder = up.folders / "lab"
    assert done.out.splitlines() == [
        'cluster "lab" is ready: Kubernetes 1.37.2 (embedded), 1 node with driver gpu.drakit.dev',
        "",
        f"  export KUBECONFIG={folder}/kubeconfig",
        "  kubectl get nodes,resourceslices",
        f"  kubectl apply -f {folder}/example.yaml",
        "  kubectl wait --for=condition=Ready pod/example",
        "  kubectl logs example",
        "  drakit status --name lab",
        "  drakit down --name lab",
    ]
    assert stat.S_IMODE((folder / "kubeconfig").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700

    code, [state] = up.status()
    assert code == 0
    assert (state["name"], state["state"], state["nodes"], state["nodesReady"]) == (
        "lab",
        "running",
        ["node-1"],
        1,
    )
    assert (state["claims"], state["devices"], state["devicesAllocated"]) == (0, 2, 0)

    # What is printed works, and the container shows one of the devices.
    with client(state, tmp_path) as api:
        template, pod = yaml.safe_load_all((folder / "example.yaml").read_text())
        api.create("resource.k8s.io/v1", "resourceclaimtemplates", template, "default")
        api.create("v1", "pods", pod, "default")
        wait_phase(api, "example", "Running")
        until(lambda: api.log("default", "example"), "the container has printed")
        seen = json.loads(api.log("default", "example"))
    assert [device["path"] for device in seen["devices"]] == ["/dev/fakegpu0"]
    _, [state] = up.status("--name", "lab")
    assert (state["claims"], state["devicesAllocated"]) == (1, 1)
    table = up("status").out.splitlines()
    assert table[0].split() == [
        "NAME",
        "STATE",
        "TIER",
        "VERSION",
        "NODES",
        "PODS",
        "CLAIMS",
        "DEVICES",
        "KUBECONFIG",
    ]
    assert table[1].split()[:5] == ["lab", "running", "embedded", "1.37.2", "1/1"]

    down = up("down", "--name", "lab")
    assert (down.code, down.out, down.err) == (0, 'cluster "lab" is gone\n', "")
    up.check_clean()


def test_without_a_cluster_there_is_nothing_to_show_and_to_end(up: Up) -> None:
    assert up.status() == (0, [])
    assert up("status").out == 'no cluster; "drakit up" makes one\n'
    done = up("status", "--name", "lab")
    assert (done.code, done.err) == (2, 'drakit: no cluster "lab"; "drakit up --name lab" makes one\n')
    done = up("down")
    assert (done.code, done.err) == (2, 'drakit: no cluster "drakit"\n')
    assert up("down", "--all").out == "no cluster\n"
    up.check_clean()


def test_down_of_all_clusters_and_of_one_is_refused(up: Up) -> None:
    done = up("down", "--all", "--name", "lab")
    assert (done.code, done.err) == (2, "drakit: --all and --name exclude each other\n")


def test_clusters_by_name_do_not_know_of_each_other(up: Up, tmp_path: Path) -> None:
    one, two = up.record(*QUICK, "--name", "one"), up.record(*QUICK, "--name", "two")
    assert one["server"] != two["server"]
    for record in (one, two):
        config = yaml.safe_load(Path(record["kubeconfig"]).read_text())
        names = [config[kind][0]["name"] for kind in ("clusters", "users", "contexts")]
        assert [*names, config["current-context"]] == [f"drakit-{record['name']}"] * 4
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "only-here"}}
    with client(one, tmp_path) as first, client(two, tmp_path) as second:
        first.create("v1", "namespaces", namespace)
        assert second.find("v1", "namespaces", "only-here") is None
    assert [state["name"] for state in up.status()[1]] == ["one", "two"]
    done = up("down", "--name", "three")
    assert (done.code, done.err) == (2, 'drakit: no cluster "three"; there is one, two\n')
    assert up("down", "--name", "one").code == 0
    assert [state["name"] for state in up.status()[1]] == ["two"]
    assert up("down", "--all").out == 'cluster "two" is gone\n'
    up.check_clean()


def test_a_second_up_of_the_same_name_is_refused_and_harms_nothing(up: Up) -> None:
    up.record(*QUICK)
    done = up("up", *QUICK)
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        'drakit: cluster "drakit" runs already; "drakit status" shows it, "drakit down --name drakit" ends it, '
        "--name gives the new one another name\n"
    )
    code, [state] = up.status()
    assert (code, state["state"], state["nodesReady"]) == (0, "running", 1)


def test_of_many_ups_at_the_same_time_one_starts(up: Up) -> None:
    runs = [up.start("up", *QUICK) for _ in range(4)]
    done = [up.cli.finish(run) for run in runs]
    assert sorted(run.code for run in done) == [0, 2, 2, 2], done
    assert all("runs already" in run.err for run in done if run.code == 2)
    code, [state] = up.status()
    assert (code, state["state"]) == (0, "running")
    assert up("down").code == 0
    up.check_clean()


def test_down_ends_a_cluster_that_is_starting(up: Up) -> None:
    # A driver that never publishes keeps the start going for 20 s.
    starting = up.start("up", "--nodes", "1", "--driver", up.cli.driver("idle"))
    until(lambda: any("tiny_driver" in line for line in up.cli.processes().values()), "the driver runs")
    code, [state] = up.status()
    assert (code, state) == (1, {"name": "drakit", "state": "starting"})
    assert up("down").out == 'cluster "drakit" is gone\n'
    done = up.cli.finish(starting, 10.0)
    assert (done.code, done.lines()[-1]) == (
        2,
        'drakit: cluster "drakit" was told to end before it was ready',
    )
    up.check_clean()


def test_after_a_kill_of_the_keeper_everything_goes_and_the_name_is_free(up: Up) -> None:
    up.record("--nodes", "1", "--gpus", "1")
    os.kill(up.keeper("drakit"), signal.SIGKILL)
    until(lambda: not up.cli.processes(), "the guardian ends everything")
    until(lambda: not list(up.cli.temporary.iterdir()), "the guardian removes the files")
    code, states = up.status()
    assert (code, states) == (1, [{"name": "drakit", "state": "dead", "remedy": "drakit down --name drakit"}])
    assert up("status").out.splitlines()[1].split()[:2] == ["drakit", "dead"]

    record = up.record(*QUICK)
    assert up.status()[1][0]["server"] == record["server"]
    os.kill(up.keeper("drakit"), signal.SIGKILL)
    assert up("down").out == 'cluster "drakit" is gone\n'
    up.check_clean()


def test_down_takes_away_what_a_killed_keeper_left_even_without_its_guardian(up: Up) -> None:
    up.record("--nodes", "1", "--gpus", "1")
    keeper = up.keeper("drakit")
    guardian = next(pid for pid, line in up.cli.processes().items() if "guardian.py" in line)
    os.kill(guardian, signal.SIGKILL)
    os.kill(keeper, signal.SIGKILL)
    until(lambda: gone(keeper), "the keeper ends")
    assert any("driver" in line for line in up.cli.processes().values())
    assert up("down").code == 0
    up.check_clean()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_it_starts_leaves_nothing(up: Up, number: signal.Signals) -> None:
    starting = up.start("up", "--nodes", "1", "--driver", up.cli.driver("idle"))
    until(lambda: any("tiny_driver" in line for line in up.cli.processes().values()), "the driver runs")
    starting.send_signal(number)
    done = up.cli.finish(starting, 15.0)
    assert (done.code, done.lines()[-1]) == (130, "drakit: interrupted; everything it started is stopped")
    up.check_clean()


def test_a_kill_of_up_while_it_starts_leaves_nothing(up: Up) -> None:
    starting = up.start("up", *QUICK)
    until(lambda: (up.folders / "drakit" / "lock").exists(), "the keeper has begun")
    starting.kill()
    starting.communicate()
    up.check_clean()


def test_a_keeper_that_is_killed_while_it_starts_is_told(up: Up) -> None:
    starting = up.start("up", "--nodes", "1", "--driver", up.cli.driver("idle"))
    until(lambda: any("tiny_driver" in line for line in up.cli.processes().values()), "the driver runs")
    os.kill(up.keeper("drakit"), signal.SIGKILL)
    done = up.cli.finish(starting, 15.0)
    assert done.code == 3
    assert done.lines()[-2:] == [
        "drakit: the kit itself broke; please report it with these lines:",
        "drakit: the process of the cluster ended with signal SIGKILL",
    ]
    up.check_clean()


def test_a_driver_that_ends_is_started_again(up: Up) -> None:
    up.record("--nodes", "1", "--gpus", "1")

    def drivers() -> set[int]:
        return {pid for pid, line in up.cli.processes().items() if " -m driver " in line}

    before = drivers()
    assert len(before) == 1
    os.kill(before.pop(), signal.SIGKILL)
    until(lambda: drivers() and not drivers() & before, "another driver runs")
    log = up.folders / "drakit" / "log"
    until(lambda: "ended with signal SIGKILL" in log.read_text(), "the end of the driver is in the log")


def test_drivers_get_the_folder_and_the_environment_of_the_caller(up: Up) -> None:
    show = "import os; print(os.getcwd(), os.environ.get('PYTHONPATH'), os.environ.get('MINE')); raise SystemExit(4)"
    path = up.cli.driver("x", start={"command": ["{python}", "-c", show]})
    text = up.refused("--nodes", "1", "--driver", path.name, MINE="yes", PYTHONPATH="/mine")
    assert text.splitlines()[-1] == f"{up.cli.folder} /mine yes"


def test_a_driver_that_does_not_start_is_told_with_its_last_words(up: Up) -> None:
    path = up.cli.driver("exit-with-words")
    text = up.refused("--nodes", "1", "--driver", path)
    assert text.splitlines()[-2:] == [
        f"{path}: start.command: the driver on node-1 ended with exit code 3; it printed:",
        "no GPU here, giving up",
    ]


def test_a_driver_that_publishes_nothing_is_told(up: Up) -> None:
    path = up.cli.driver("idle", start={"readySeconds": 1})
    text = up.refused("--nodes", "1", "--driver", path)
    assert text.splitlines()[-2:] == [
        f"{path}: start.readySeconds: the driver published no slice for node-1 within 1 s; it printed:",
        "idle",
    ]


def test_without_nodes_there_is_no_driver_and_no_example(up: Up) -> None:
    record = up.record("--nodes", "0")
    assert (record["nodes"], record["driver"], record["example"]) == ([], "", "")
    code, [state] = up.status()
    assert (code, state["state"], state["devices"]) == (0, "running", 0)


def test_gates_and_versions_reach_the_api_server(up: Up, tmp_path: Path) -> None:
    words = (
        "--feature-gates",
        "DRADeviceTaints=false",
        "--runtime-config",
        "resource.k8s.io/v1beta1,apps/v1=false",
    )
    record = up.record("--nodes", "0", *words)
    assert record["gates"] == {"DRADeviceTaints": False}
    with client(record, tmp_path) as api:
        groups = {
            group["name"]: [version["version"] for version in group["versions"]]
            for group in api.request("GET", "/apis")["groups"]
        }
    assert groups["resource.k8s.io"] == ["v1", "v1beta1"]
    assert "apps" not in groups


def test_a_closed_pipe_and_no_terminal_are_no_matter(up: Up) -> None:
    words = shlex.join([sys.executable, "-m", "drakit", "up", *QUICK])
    # The reader is gone before anything is printed.
    run = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {words} 2>&1 | true"],
        env=up.environment(),
        cwd=up.cli.folder,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert up.status()[0] == 0


def test_a_keeper_that_hangs_is_told_by_status(up: Up) -> None:
    up.record(*QUICK)
    os.kill(up.keeper("drakit"), signal.SIGSTOP)
    begin = time.monotonic()
    code, [state] = up.status()
    os.kill(up.keeper("drakit"), signal.SIGCONT)
    assert (code, state["state"]) == (1, "not answering")
    # The limit is 5 s.
    assert time.monotonic() - begin < 30
