"""A host for `drakit doctor`: it has everything, and what is taken away from it is missed."""

from __future__ import annotations

import errno
import json
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from clusters.binaries.releases import find_release
from clusters.doctor.checks import HOST_CHECKS
from clusters.doctor.host import RealHost, Room
from clusters.doctor.local import COMPONENTS
from clusters.doctor.model import Finding, Wanted
from clusters.kind.image.recipe import recipe

OWN = recipe(find_release("1.37")).tag
CHECKS = {check.id: check for check in HOST_CHECKS}
KERNEL = {
    "proc/sys/fs/inotify/max_user_instances": "1024\n",
    "proc/sys/fs/inotify/max_user_watches": "1048576\n",
    "proc/sys/net/ipv4/ip_forward": "1\n",
    "proc/sys/net/bridge/bridge-nf-call-iptables": "1\n",
    "proc/sys/kernel/osrelease": "6.1.0-1-amd64\n",
    "proc/meminfo": "MemTotal:  16000000 kB\nMemFree:  100 kB\nMemAvailable:  8000000 kB\n",
    "proc/self/status": "Name:\tx\nCapBnd:\t000001ffffffffff\nCapAmb:\t0\n",
    "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory hugetlb pids rdma misc\n",
}
INFO = {
    "ServerVersion": "29.1.0",
    "OperatingSystem": "Debian GNU/Linux 13 (trixie)",
    "KernelVersion": "6.1.0-1-amd64",
    "DockerRootDir": "/",
    "SecurityOptions": ["name=seccomp,profile=builtin", "name=cgroupns"],
}


class ToldHost(RealHost):
    """This host, where tests say who the user is and what the disk has; all else is real."""

    def __init__(self, kernel: Path) -> None:
        super().__init__(kernel)
        self.user = 0
        self.free: dict[str, Room] = {}
        self.cannot_mount = ""
        self.binding: int | None = None

    def user_id(self) -> int:
        return self.user

    def which_of_root(self, program: str) -> Path | None:
        return self.which(program)

    def room(self, path: Path) -> Room:
        return self.free.get(str(path)) or Room(path, 100 << 30, 1_000_000)

    def mount_namespace_problem(self) -> str:
        return self.cannot_mount

    def bind(self, port: int) -> int:
        return super().bind(port) if self.binding is None else self.binding


@dataclass
class Scene:
    """A host that has everything, of which a test takes something away."""

    folder: Path
    patch: pytest.MonkeyPatch
    sockets: list[socket.socket] = field(default_factory=list)
    wanted: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("bin", "tmp", "cache", "run"):
            (self.folder / name).mkdir()
        self.host = ToldHost(self.folder / "kernel")
        for path, text in KERNEL.items():
            self.kernel(path, text)
        self.patch.setenv("PATH", str(self.folder / "bin"))
        self.patch.setenv("XDG_CACHE_HOME", str(self.folder / "cache"))
        self.patch.setattr(tempfile, "tempdir", str(self.folder / "tmp"))
        ours = ("DRAKIT_BINARIES", "DRAKIT_KIND_IMAGE", "DRAKIT_ENGINE", "DRAKIT_ENGINE_HOME")
        for name in (*ours, "DOCKER_CONTEXT"):
            self.patch.delenv(name, raising=False)
        self.socket = self.listen("docker.sock")
        self.patch.setenv("DOCKER_HOST", f"unix://{self.socket}")
        self.docker()
        self.program("kind", "echo kind v0.33.0 go1.26.1 linux/amd64")
        self.program("go", "echo go1.26.8; echo auto")
        for name in ("debootstrap", "dockerd", "containerd", "runc", "iptables"):
            self.program(name, "exit 0")
        for name in COMPONENTS:
            place = "etcd-v3.7.3" if name == "etcd" else "v1.37.2"
            self.write(f"cache/drakit/binaries/{place}/{name}", "")

    def write(self, path: str, text: str) -> Path:
        there = self.folder / path
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_text(text)
        return there

    def kernel(self, path: str, text: str | None) -> None:
        if text is None:
            (self.folder / "kernel" / path).unlink()
        else:
            self.write(f"kernel/{path}", text)

    def program(self, name: str, script: str, folder: str = "bin") -> Path:
        path = self.write(f"{folder}/{name}", f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    def remove(self, *names: str) -> None:
        for name in names:
            (self.folder / "bin" / name).unlink()

    def listen(self, name: str) -> Path:
        path = self.folder / "run" / name
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen(1)
        self.sockets.append(listener)
        return path

    def docker(
        self,
        *,
        name: str = "Docker version 29.1.0, build abc",
        version: str = "29.1.0",
        images: Sequence[str] = (OWN,),
        problem: str = "",
        context: str = "default",
        endpoint: str = "",
        **info: Any,
    ) -> None:
        """A stand-in for the docker command."""
        server = {"Client": {"Version": "29.1.0"}, "Server": {"Version": version} if version else None}
        files = {
            "version": json.dumps(server),
            "info": json.dumps({**INFO, "ServerVersion": version, **info}),
        }
        for what, text in files.items():
            self.write(f"docker-{what}.json", text + "\n")
        cases = f"""
case "$1 $2" in
  "--version "*) echo '{name}' ;;
  "version "*) /bin/cat {self.folder}/docker-version.json
    if [ -n '{problem}' ]; then echo '{problem}' >&2; exit 1; fi ;;
  "info "*) /bin/cat {self.folder}/docker-info.json ;;
  "context show") echo {context} ;;
  "context inspect") echo {endpoint} ;;
  "image inspect") for there in {" ".join(images)}; do [ "$5" = "$there" ] && exit 0; done; exit 1 ;;
  *) exit 64 ;;
esac"""
        self.program("docker", cases)

    def no_engine(
        self, problem: str = "Cannot connect to the Docker daemon at unix:///x. Is it running?"
    ) -> None:
        self.docker(version="", problem=problem)

    def find(self, check: str) -> Finding:
        return CHECKS[check].run(self.host, Wanted(**self.wanted))

    def close(self) -> None:
        for listener in self.sockets:
            listener.close()


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    # Paths of sockets must be short.
    with tempfile.TemporaryDirectory(prefix="dd-", dir="/tmp") as folder:
        found = Scene(Path(folder), monkeypatch)
        try:
            yield found
        finally:
            found.close()


Act = Callable[[Scene], object]


def want(**values: Any) -> Act:
    return lambda scene: scene.wanted.update(values)


def full(path: str, free_mib: int, inodes: int = 1000) -> Act:
    def act(scene: Scene) -> None:
        there = scene.folder / path
        scene.host.free[str(there)] = Room(there, free_mib << 20, inodes)

    return act


def take_port(scene: Scene) -> None:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(1)
    scene.sockets.append(listener)
    scene.wanted["port"] = listener.getsockname()[1]


def refuse_socket(scene: Scene) -> None:
    scene.patch.setattr(scene.host, "connect", lambda path: errno.EACCES)


def no_folder(variable: str) -> Act:
    def act(scene: Scene) -> None:
        file = scene.write("a-file", "")
        if variable == "TMPDIR":
            scene.patch.setattr(tempfile, "tempdir", str(file))
        else:
            scene.patch.setenv(variable, str(file))

    return act


def from_snap(scene: Scene) -> None:
    scene.docker()
    scene.write("snap/bin/x", "")
    (scene.folder / "bin" / "docker").rename(scene.folder / "snap" / "bin" / "docker")
    scene.patch.setenv("PATH", f"{scene.folder}/snap/bin:{scene.folder}/bin")


def own_engine_home_full(scene: Scene) -> None:
    scene.no_engine()
    scene.patch.delenv("DOCKER_HOST")
    full("cache/drakit/engine", 100)(scene)


def nobody_chose(scene: Scene) -> None:
    scene.no_engine()
    scene.patch.delenv("DOCKER_HOST")
    scene.remove("dockerd")


def private_without_its_parts(scene: Scene) -> None:
    scene.patch.setenv("DRAKIT_ENGINE", "private")
    scene.remove("dockerd")


def context(scene: Scene) -> None:
    scene.patch.delenv("DOCKER_HOST")
    scene.docker(context="far", endpoint="unix:///nowhere/docker.sock")
