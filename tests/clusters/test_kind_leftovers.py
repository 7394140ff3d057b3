"""What is taken away of clusters whose owner was killed, and what is left alone. The docker command is a stand-in."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from clusters.guardian import OWNER, start_ticks
from clusters.kind import engine, failpoints, leftovers, private_engine, records
from clusters.kind.engine import Engine

pytestmark = pytest.mark.process

# It has two containers and a network of every cluster, a foreign container, and it writes down what it is told.
DOCKER = r"""#!/bin/sh
echo "$*" >> "$LOG"
case "$DOCKER_HOST" in *dead*) echo "Cannot connect to the Docker daemon at $DOCKER_HOST." >&2; exit 1 ;; esac
case "$*" in
version*) echo 28.2.2 ;;
*label=io.x-k8s.kind.cluster=*)
    echo "${*##*=}" > "$LOG.asked"
    [ -e "$LOG.gone-${*##*=}" ] || { echo c1; echo c2; } ;;
*label=io.drakit.cluster=*) echo net1 ;;
rm*) [ -z "$FAIL" ] || { echo "removal of container c1 is already in progress" >&2; exit 1; }
    touch "$LOG.gone-$(cat "$LOG.asked")" ;;
network\ rm*) [ -z "$LATE" ] || rm "$LOG.gone-$(cat "$LOG.asked")" ;;
esac
"""
ENGINE = "unix:///engine.sock"


class Machine:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        self.said: list[str] = []

    def calls(self) -> list[str]:
        """What docker was told, but for whether it is there."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line for line in lines if not line.startswith("version")]

    def engine(self) -> Engine:
        return Engine(str(self.folder / "bin" / "docker"), ENGINE)

    def root(self, name: str) -> Path:
        root = self.folder / name
        (root / "n1" / "deep").mkdir(parents=True)
        (root / "n1" / "file").write_text("x")
        return root

    def sweep(self) -> list[str]:
        return leftovers.sweep(self.said.append)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(DOCKER)
    docker.chmod(0o755)
    for name, value in {
        "PATH": f"{docker.parent}:/usr/bin:/bin",
        "LOG": str(tmp_path / "log"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        private_engine.ENVIRONMENT: str(tmp_path / "engine"),
    }.items():
        monkeypatch.setenv(name, value)
    for name in ("FAIL", "LATE", failpoints.VARIABLE, engine.ENVIRONMENT):
        monkeypatch.delenv(name, raising=False)
    return Machine(tmp_path)


def dead(name: str, root: Path, identity: str = ENGINE, mark: str = "") -> None:
    """Write a cluster down as a process would have that is gone: its number has another start time now."""
    records.write(name, root, identity, mark)
    path = records.path(name)
    path.write_text(json.dumps({**json.loads(path.read_text()), "started": 1}))


REMOVAL = [
    "ps --all --quiet --no-trunc --filter label=io.x-k8s.kind.cluster=drakit-1",
    "rm --force --volumes c1 c2",
    "network ls --quiet --no-trunc --filter label=io.drakit.cluster=drakit-1",
    "network rm net1",
]
# Looked for once more, in case that the engine was making one.
AGAIN = REMOVAL[:1]


def test_a_cluster_is_written_down_for_its_owner_alone(machine: Machine) -> None:
    records.write("drakit-1", Path("/tmp/drakit-a"), ENGINE, "mark")
    path = machine.folder / "state" / "drakit" / "kind" / "drakit-1.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert json.loads(path.read_text()) == {
        "name": "drakit-1",
        "root": "/tmp/drakit-a",
        "engine": ENGINE,
        "pid": os.getpid(),
        "started": start_ticks(os.getpid()),
        "mark": "mark",
    }
    [record] = records.read()
    assert record.alive


def test_a_container_that_was_being_made_meanwhile_goes_too(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead("drakit-1", machine.root("drakit-a"))
    monkeypatch.setenv("LATE", "1")
    machine.sweep()
    assert machine.calls() == [*REMOVAL, *REMOVAL[:2]]


def test_containers_volumes_and_network_of_a_dead_owner_go_with_folder_and_record(machine: Machine) -> None:
    root = machine.root("drakit-a")
    dead("drakit-1", root)
    assert machine.sweep() == ["removed what was left of kind cluster drakit-1"]
    assert machine.calls() == REMOVAL + AGAIN
    assert not root.exists()
    assert records.read() == []
    assert machine.said == ["removing what is left of kind cluster drakit-1"]


def test_a_second_sweep_finds_nothing_and_asks_nobody(machine: Machine) -> None:
    dead("drakit-1", machine.root("drakit-a"))
    machine.sweep()
    machine.log.unlink()
    assert machine.sweep() == []
    assert not machine.log.exists()


def test_a_cluster_of_a_living_owner_is_left_alone(machine: Machine) -> None:
    root = machine.root("drakit-a")
    records.write("drakit-1", root, ENGINE)
    assert machine.sweep() == []
    assert machine.calls() == []
    assert (root / "n1" / "file").exists()
    assert [record.name for record in records.read()] == ["drakit-1"]


def test_only_what_is_written_down_is_removed(machine: Machine) -> None:
    root, other = machine.root("drakit-a"), machine.root("drakit-b")
    dead("drakit-1", root)
    records.write("drakit-2", other, ENGINE)
    machine.sweep()
    assert machine.calls() == REMOVAL + AGAIN
    assert other.exists()


def test_what_an_engine_keeps_stays_written_down_until_it_answers(machine: Machine) -> None:
    root = machine.root("drakit-a")
    dead("drakit-1", root, "unix:///dead.sock")
    assert machine.sweep() == []
    assert machine.said[-1] == (
        "kind cluster drakit-1 cannot be removed now: no container engine answers at unix:///dead.sock; "
        "start Docker, or let DOCKER_HOST name one that runs"
    )
    assert root.exists()
    assert len(records.read()) == 1


def test_a_failed_removal_leaves_the_record_for_the_next_time(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead("drakit-1", machine.root("drakit-a"))
    monkeypatch.setenv("FAIL", "1")
    assert machine.sweep() == []
    monkeypatch.delenv("FAIL")
    assert machine.sweep() == ["removed what was left of kind cluster drakit-1"]


def test_processes_of_a_dead_owner_are_killed_before_its_containers_are_looked_for(machine: Machine) -> None:
    child = subprocess.Popen(["sleep", "60"], env={**os.environ, OWNER: "0123abcd:kind"})
    try:
        dead("drakit-1", machine.root("drakit-a"), mark="0123abcd")
        machine.sweep()
        assert child.wait(10) == -signal.SIGKILL
    finally:
        child.kill()
        child.wait()


def test_a_record_that_cannot_be_read_is_left_alone(machine: Machine) -> None:
    records.write("drakit-1", machine.root("drakit-a"), ENGINE)
    path = records.path("drakit-1")
    path.write_text("{")
    assert machine.sweep() == []
    assert path.exists()


def test_a_folder_that_is_no_clusters_is_not_removed(tmp_path: Path) -> None:
    leftovers.remove_root(Path("/"))
    leftovers.remove_root(Path("/tmp"))
    leftovers.remove_root(Path("relative"))
    assert Path("/tmp").is_dir()
    leftovers.remove_root(tmp_path / "gone")


def test_mounts_below_a_folder_are_found_with_their_real_names() -> None:
    mountinfo = (
        "22 1 254:0 / / rw - ext4 /dev/vda rw\n"
        "40 22 0:50 / /tmp/drakit-a/n1/vol rw - tmpfs tmpfs rw\n"
        "41 22 0:51 / /tmp/drakit-a/n1/with\\040blank rw - tmpfs tmpfs rw\n"
        "42 22 0:52 / /tmp/drakit-ab/n1 rw - tmpfs tmpfs rw\n"
        "43 40 0:53 / /tmp/drakit-a/n1/vol/ü rw - tmpfs tmpfs rw\n"
    )
    assert leftovers.mounts_below(Path("/tmp/drakit-a"), mountinfo) == [
        "/tmp/drakit-a/n1/vol",
        "/tmp/drakit-a/n1/with blank",
        "/tmp/drakit-a/n1/vol/ü",
    ]


def test_an_orderly_end_removes_the_same_but_the_folder(machine: Machine) -> None:
    root = machine.root("drakit-a")
    record = leftovers.write("drakit-1", root, machine.engine())
    record.remove()
    assert machine.calls() == REMOVAL
    assert records.read() == []
    assert root.exists()


LIFE = """
import sys
from pathlib import Path
from clusters.kind import leftovers
from clusters.kind.engine import Engine
record = leftovers.write("drakit-1", Path(sys.argv[1]), Engine(sys.argv[2], "unix:///engine.sock"))
record.remove()
"""


@pytest.mark.parametrize("point", ["deleting", "deleted"])
def test_a_run_that_is_killed_while_it_deletes_leaves_its_record(machine: Machine, point: str) -> None:
    root = machine.root("drakit-a")
    docker = str(machine.folder / "bin" / "docker")
    done = subprocess.run(
        [sys.executable, "-c", LIFE, str(root), docker],
        env={**os.environ, failpoints.VARIABLE: point, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    assert machine.calls() == ([] if point == "deleting" else REMOVAL)
    for path in machine.folder.glob("log*"):
        path.unlink()
    assert machine.sweep() == ["removed what was left of kind cluster drakit-1"]
    assert machine.calls() == REMOVAL + AGAIN
    assert not root.exists()


def test_two_sweeps_at_once_remove_each_cluster_once(machine: Machine) -> None:
    for number in range(1, 5):
        dead(f"drakit-{number}", machine.root(f"drakit-{number}"))
    script = "from clusters.kind import leftovers\nprint(len(leftovers.sweep(lambda text: None)))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    both = [
        subprocess.Popen([sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    counts = [int(process.communicate(timeout=60)[0]) for process in both]
    assert sum(counts) == 4
    assert machine.calls().count("rm --force --volumes c1 c2") == 4


def test_a_point_that_is_not_chosen_is_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(failpoints.VARIABLE, raising=False)
    for name in failpoints.POINTS:
        failpoints.reach(name)
    with pytest.raises(KeyError):
        failpoints.reach("nowhere")


def test_the_manual_has_every_point_with_its_state() -> None:
    manual = (Path(__file__).parents[2] / "docs" / "kind.md").read_text()
    table = {
        line.split("|")[1].strip(" `"): line.split("|")[2].strip()
        for line in manual.partition("| point |")[2].splitlines()[2:]
    }
    assert table == dict(failpoints.POINTS)
