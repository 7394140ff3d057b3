"""The private container engine: it runs here, is shared, is stopped by who leaves last, and leaves nothing behind.

Every test has a network of its own (`unshare --net`), so that engines of others do not count in what is left.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from clusters.guardian import is_running, start_ticks
from clusters.kind import private_engine

pytestmark = [pytest.mark.kind, pytest.mark.process, pytest.mark.timeout(600)]

RUN = Path("/run")
NETWORK = """
import subprocess, sys
from pathlib import Path
for words in ("link set lo up", "link add out type veth peer name far", "addr add 10.99.0.2/24 dev out",
              "link set out up", "link set far up", "route add default via 10.99.0.1"):
    subprocess.run(["ip", *words.split()], check=True)
# As on a machine that forwards nothing: an engine lets it, and has unwanted packets dropped then.
Path("/proc/sys/net/ipv4/ip_forward").write_text("0")
print("ready", flush=True)
sys.stdin.read()
"""
# A user of the engine: says what it gets, and does what it is told, line by line.
USER = """
import json, sys
from pathlib import Path
from clusters.kind import engine
with engine.find(lambda text: print("said", text, file=sys.stderr), Path(sys.argv[1])) as found:
    print(json.dumps({"host": found.host, "private": found.private}), flush=True)
    for line in sys.stdin:
        try:
            answer = found.run(*json.loads(line))
        except Exception as error:
            answer = f"failed: {error}"
        print(json.dumps(answer), flush=True)
print(json.dumps("closed"), flush=True)
"""
SWEEP = """
import json
from clusters.kind import leftovers
print(json.dumps(leftovers.sweep(lambda text: None)))
"""


def reason() -> str:
    if missing := private_engine.missing():
        return missing
    return ""


@pytest.fixture(autouse=True)
def _can_run() -> None:
    if found := reason():
        pytest.fail(f"these tests need what a private engine needs: {found}")


class Place:
    """A network namespace, a home for the engine, and processes in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "engine"
        self.run = private_engine.run_folder(self.home)
        self._holder = subprocess.Popen(
            ["unshare", "--net", sys.executable, "-c", NETWORK],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == "ready\n"
        self.users: list[User] = []

    def command(self, words: Sequence[str]) -> list[str]:
        return ["nsenter", f"--net=/proc/{self._holder.pid}/ns/net", *words]

    def variables(self) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "DRAKIT_ENGINE": "private",
            private_engine.ENVIRONMENT: str(self.home),
            "XDG_STATE_HOME": str(self.folder / "state"),
        }

    def call(self, *words: str) -> str:
        done = subprocess.run(
            self.command(words), env=self.variables(), capture_output=True, text=True, timeout=300, check=True
        )
        return done.stdout

    def use(self) -> User:
        user = User(self)
        self.users.append(user)
        return user

    def sweep(self) -> list[str]:
        found: list[str] = json.loads(self.call(sys.executable, "-c", SWEEP))
        return found

    def traces(self) -> dict[str, Any]:
        """Everything of the machine that an engine with this home would change."""
        filters = [
            line
            for name in ("iptables-save", "ip6tables-save")
            for line in self.call(name).splitlines()
            # A table that was looked at is there and empty; the rest of these are counters and times.
            if line.startswith("-") or (line.startswith(":") and " - " in line) or "DROP" in line
        ]
        return {
            "links": self.call("ip", "-oneline", "link").count("\n"),
            "filters": filters,
            "mounts": [
                line
                for line in Path("/proc/self/mountinfo").read_text().splitlines()
                if self.run.name in line
            ],
            "cgroups": sorted(Path("/sys/fs/cgroup").glob(f"**/{self.run.name}")),
            "processes": processes(self.run.name),
            "run": self.run.exists(),
            "forwarding": self.call("cat", "/proc/sys/net/ipv4/ip_forward"),
        }

    def pid(self) -> int:
        pid: int = json.loads((self.home / "engine.json").read_text())["pid"]
        return pid

    def close(self) -> None:
        for user in self.users:
            user.kill()
        self.sweep()
        self._holder.communicate(timeout=60)


class User:
    """A process that uses the engine."""

    def __init__(self, place: Place) -> None:
        self._process = subprocess.Popen(
            place.command([sys.executable, "-c", USER, str(place.home)]),
            env=place.variables(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.got = self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the user of the engine ended"
        return json.loads(line)

    def docker(self, *words: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        answer: str = self._answer()
        return answer.strip()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._answer() == "closed"
        assert self._process.wait(120) == 0

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(10)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None and not stream.closed:
                stream.close()


def processes(word: str) -> list[str]:
    """Command lines that hold a word, of processes that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if word in line:
            found.append(line)
    return found


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive for `docker import` with programs of this machine and the libraries that they need."""
    archive = tmp_path_factory.mktemp("image") / "image.tar"
    with tarfile.open(archive, "w", dereference=True) as tar:
        for program in ("sleep", "cat"):
            path = subprocess.run(
                ["which", program], capture_output=True, text=True, check=True
            ).stdout.strip()
            tar.add(path, f"bin/{program}")
            libraries = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
            for word in libraries.split():
                if word.startswith("/") and word[1:] not in tar.getnames():
                    tar.add(word, word)
    return archive


def start_container(user: User, image: Path, *options: str) -> str:
    """A container that runs for minutes unless it is ended; its number."""
    tag = user.docker("import", str(image))
    assert tag.startswith("sha256:"), tag
    words = ("run", "--detach", "--privileged", *options, tag, "sleep", "600.125")
    return user.docker(*words)


def ended(pid: int, started: int | None) -> bool:
    deadline = time.monotonic() + 60
    while is_running(pid, started):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_an_engine_is_there_in_a_moment_and_gone_without_traces(place: Place) -> None:
    before = place.traces()
    user = place.use()
    assert user.got["private"]
    assert user.got["host"] == f"unix://{place.run}/docker.sock"
    assert place.run.stat().st_mode & 0o777 == 0o700
    assert (
        user.docker("info", "--format", "{{.DockerRootDir}} {{.DefaultRuntime}}")
        == f"{place.home}/data drakit"
    )
    assert user.docker("network", "create", "lab")
    assert place.traces() != before
    user.close()
    assert place.traces() == before
    assert sorted(path.name for path in place.home.iterdir()) == ["data", "lock", "log", "users"]


def test_privileged_containers_run_and_are_entered(place: Place, image: Path) -> None:
    user = place.use()
    container = start_container(user, image, "--oom-score-adj", "-500", "--ulimit", "nofile=1048576")
    assert len(container) == 64, container
    status = user.docker("exec", "--privileged", container, "cat", "/proc/self/status")
    own = Path("/proc/self/status").read_text()
    [bounding] = [line.split()[1] for line in status.splitlines() if line.startswith("CapBnd")]
    [ours] = [line.split()[1] for line in own.splitlines() if line.startswith("CapBnd")]
    # CAP_SYS_RESOURCE is bit 24: a container has it where we have it.
    assert int(bounding, 16) >> 24 & 1 == int(ours, 16) >> 24 & 1
    user.close()


def test_two_users_have_one_engine_and_the_last_one_stops_it(place: Place) -> None:
    first, second = place.use(), place.use()
    pid = place.pid()
    started = start_ticks(pid)
    assert first.got["host"] == second.got["host"]
    name = second.docker("network", "create", "lab")
    assert first.docker("network", "ls", "--quiet", "--no-trunc", "--filter", "name=lab") == name
    first.close()
    assert is_running(pid, started)
    assert second.docker("info", "--format", "{{.Containers}}") == "0"
    second.close()
    assert ended(pid, started)


def test_nothing_is_left_when_its_only_user_was_killed(place: Place, image: Path) -> None:
    before = place.traces()
    user = place.use()
    user.docker("network", "create", "lab")
    start_container(user, image, "--network", "lab", "--publish", "127.0.0.1:8099:80")
    user.kill()
    assert len(processes("600.125")) == 1
    assert place.sweep() == ["stopped a container engine that nobody used"]
    assert place.traces() == before
    assert processes("600.125") == []
    assert place.sweep() == []


def test_an_engine_whose_user_was_killed_is_taken_over_with_its_containers(place: Place, image: Path) -> None:
    first = place.use()
    container = start_container(first, image)
    pid = place.pid()
    started = start_ticks(pid)
    first.kill()
    second = place.use()
    assert place.pid() == pid
    assert second.docker("ps", "--quiet", "--no-trunc") == container
    second.docker("rm", "--force", container)
    second.close()
    assert ended(pid, started)


def test_an_engine_in_use_is_not_swept_away(place: Place) -> None:
    user = place.use()
    assert place.sweep() == []
    assert user.docker("info", "--format", "{{.Images}}") == "0"
    user.close()


def test_nothing_is_left_when_the_engine_itself_was_killed(place: Place, image: Path) -> None:
    before = place.traces()
    user = place.use()
    user.docker("network", "create", "lab")
    start_container(user, image, "--network", "lab")
    pid = place.pid()
    started = start_ticks(pid)
    os.kill(pid, signal.SIGKILL)
    assert ended(pid, started)
    # Process 1 of the namespace took everything with it.
    assert processes("600.125") == []
    assert user.docker("info").startswith("failed: no container engine answers")
    user.close()
    assert place.traces() == before


def test_a_killed_engine_is_started_again_with_what_it_had(place: Place, image: Path) -> None:
    first = place.use()
    tag = first.docker("import", str(image), "kept:1")
    pid = place.pid()
    started = start_ticks(pid)
    os.kill(pid, signal.SIGKILL)
    assert ended(pid, started)
    first.kill()
    second = place.use()
    assert second.docker("images", "--quiet", "--no-trunc") == tag
    second.close()


def test_a_start_that_fails_leaves_nothing_and_says_why(place: Place) -> None:
    before = place.traces()
    place.home.mkdir()
    (place.home / "data").write_text("no folder")
    done = subprocess.run(
        place.command([sys.executable, "-c", USER, str(place.home)]),
        env=place.variables(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 1
    assert "EngineError" in done.stderr
    assert str(place.home / "data") in done.stderr.splitlines()[-1]
    (place.home / "data").unlink()
    assert place.traces() == before
