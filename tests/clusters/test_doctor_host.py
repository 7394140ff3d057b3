"""Every check that `drakit doctor --list` prints is provoked, with real things where there can be any."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from clusters.binaries.releases import find_release
from clusters.doctor.checks import HOST_CHECKS
from clusters.doctor.host import Host, RealHost, Room
from clusters.doctor.local import COMPONENTS
from clusters.doctor.model import Checked, Finding, State, Wanted, obstacles
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
        for name in ("DRAKIT_BINARIES", "DRAKIT_KIND_IMAGE", "DRAKIT_ENGINE_HOME", "DOCKER_CONTEXT"):
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


def context(scene: Scene) -> None:
    scene.patch.delenv("DOCKER_HOST")
    scene.docker(context="far", endpoint="unix:///nowhere/docker.sock")


MISSING, WARNING, UNKNOWN = State.MISSING, State.WARNING, State.UNKNOWN

# Check, what is done to a host that has everything, the state that follows, and what is said of it.
PROVOKED: list[tuple[str, Act, State, str]] = [
    ("version", want(version="1.20"), MISSING, "Kubernetes 1.20 is not known"),
    ("version", want(version="1.36.3"), MISSING, "an embedded cluster is 1.37 and no other"),
    ("gate-known", want(feature_gates="DRADeviceTaint=true"), MISSING, 'did you mean "DRADeviceTaints"'),
    ("gate-known", want(feature_gates="DRADeviceTaints"), MISSING, "missing bool value for DRADeviceTaints"),
    ("gate-known", want(feature_gates="DRADerivedAttributes=true", version="1.36"), MISSING, "1.37 has it"),
    ("gate-locked", want(feature_gates="DRAAdminAccess=false"), MISSING, "feature is locked to true"),
    ("gate-locked", want(feature_gates="=true", version="9.9"), UNKNOWN, "9.9 is not known"),
    (
        "gate-dependencies",
        want(feature_gates="DRAWorkloadResourceClaims=true"),
        MISSING,
        "depends on features that are disabled: [GenericWorkload]",
    ),
    (
        "gate-api",
        want(feature_gates="GenericWorkload=true"),
        MISSING,
        "GenericWorkload needs scheduling.k8s.io/v1beta1, which is not served",
    ),
    (
        "gate-api",
        want(feature_gates="DRADeviceTaintRules=true", version="1.36"),
        MISSING,
        "resource.k8s.io/v1beta2",
    ),
    ("runtime-config", want(runtime_config="resource.k8s.io/v9"), MISSING, "1.37 has no resource.k8s.io/v9"),
    ("runtime-config", want(runtime_config="resource.k8s.io/v1=yes"), MISSING, "neither true nor false"),
    ("temp-folder", no_folder("TMPDIR"), MISSING, "cannot be written: Not a directory"),
    (
        "temp-folder-length",
        lambda s: s.patch.setattr(tempfile, "tempdir", "/" + 70 * "x"),
        MISSING,
        "too long a name",
    ),
    ("temp-space", full("tmp", 20), MISSING, "20 MiB free in"),
    ("temp-space", full("tmp", 200), WARNING, "which is little"),
    ("temp-space", full("tmp", 9000, 0), MISSING, "no free inodes"),
    ("port", take_port, MISSING, "is in use"),
    (
        "port",
        lambda s: (want(port=80)(s), setattr(s.host, "binding", errno.EACCES)),
        MISSING,
        "only be used by root",
    ),
    (
        "memory",
        lambda s: s.kernel("proc/meminfo", "MemAvailable: 409600 kB\n"),
        MISSING,
        "400 MiB available; two nodes",
    ),
    ("memory", lambda s: s.kernel("proc/meminfo", "MemFree: 409600 kB\n"), UNKNOWN, "does not tell"),
    ("cache-folder", no_folder("XDG_CACHE_HOME"), MISSING, "cannot be written: Not a directory"),
    ("cache-space", full("cache/drakit/binaries", 500), MISSING, "at least 1024 are needed"),
    ("cgroup-version", lambda s: _version_1(s), WARNING, "version 1, which Kubernetes, kind and containerd"),
    (
        "cgroup-controllers",
        lambda s: s.kernel("sys/fs/cgroup/cgroup.controllers", "cpu memory\n"),
        MISSING,
        "version 2 without cpuset, pids",
    ),
    ("cgroup-controllers", lambda s: _version_1(s, memory=0), MISSING, "version 1 without memory"),
    (
        "inotify-instances",
        lambda s: s.kernel("proc/sys/fs/inotify/max_user_instances", "64\n"),
        MISSING,
        "is 64, at least 128 are needed",
    ),
    (
        "inotify-watches",
        lambda s: s.kernel("proc/sys/fs/inotify/max_user_watches", "100000\n"),
        WARNING,
        "is 100000: enough for two nodes",
    ),
    ("go", lambda s: s.remove("go"), WARNING, "no program go in PATH"),
    (
        "go",
        lambda s: s.program("go", "echo go1.26.0-alpha >&2; exit 2"),
        WARNING,
        "does not tell its version",
    ),
    ("go", lambda s: s.program("go", "echo go1.19.3; echo"), WARNING, "is go1.19.3, and 1."),
    ("go", lambda s: s.program("go", "echo go1.22.0; echo local"), WARNING, "is go1.22.0, and 1."),
    ("root", lambda s: setattr(s.host, "user", 1000), MISSING, "this is user 1000"),
    (
        "mount-namespaces",
        lambda s: setattr(s.host, "cannot_mount", "unshare: x"),
        MISSING,
        "of its own: unshare: x",
    ),
    ("mount-namespaces", lambda s: setattr(s.host, "user", 1000), UNKNOWN, "only root can try"),
    ("binaries", want(version="1.36"), WARNING, "v1.36.3: kube-apiserver"),
    ("binaries", lambda s: want(binaries=s.folder / "tmp")(s), MISSING, "lacks etcd, kube-apiserver"),
    ("binaries", want(version="1.20"), MISSING, "1.20"),
    (
        "ip-forwarding",
        lambda s: s.kernel("proc/sys/net/ipv4/ip_forward", "0\n"),
        MISSING,
        "though the engine runs",
    ),
    (
        "bridge-netfilter",
        lambda s: s.kernel("proc/sys/net/bridge/bridge-nf-call-iptables", None),
        WARNING,
        "br_netfilter is not loaded",
    ),
    (
        "bridge-netfilter",
        lambda s: s.kernel("proc/sys/net/bridge/bridge-nf-call-iptables", "0\n"),
        WARNING,
        "bridge-nf-call-iptables is off",
    ),
    ("docker-command", lambda s: s.remove("docker"), MISSING, "no program docker in PATH"),
    ("docker-command", lambda s: s.docker(name="podman version 5.4.1"), MISSING, "podman version 5.4.1"),
    ("docker-snap", from_snap, MISSING, "sees neither /tmp nor hidden folders"),
    (
        "docker-host",
        lambda s: s.patch.setenv("DOCKER_HOST", "unix:///nowhere.sock"),
        MISSING,
        "and nothing is there",
    ),
    (
        "docker-host",
        lambda s: s.patch.setenv("DOCKER_HOST", f"unix://{s.folder}"),
        MISSING,
        "a folder is there",
    ),
    (
        "docker-host",
        lambda s: s.patch.setenv("DOCKER_HOST", "/var/run/docker.sock"),
        MISSING,
        "no address of an engine",
    ),
    ("docker-host", context, MISSING, "the docker context far names the socket /nowhere/docker.sock"),
    ("docker-permission", refuse_socket, MISSING, "this user may not open"),
    ("engine", lambda s: s.no_engine(), MISSING, "Cannot connect to the Docker daemon"),
    ("engine", nobody_chose, MISSING, "an engine of drakit's own needs dockerd"),
    ("engine-version", lambda s: s.docker(version="19.03.15"), MISSING, "the engine is Docker 19.03.15"),
    ("engine-version", lambda s: s.docker(OperatingSystem="Podman Engine"), MISSING, "the engine is Podman"),
    ("engine-users", lambda s: s.docker(SecurityOptions=["name=rootless"]), WARNING, "runs rootless"),
    ("engine-users", lambda s: s.docker(SecurityOptions=["name=userns"]), WARNING, "userns-remap"),
    (
        "engine-host",
        lambda s: s.patch.setenv("DOCKER_HOST", "ssh://root@far"),
        MISSING,
        "the engine runs on far",
    ),
    ("engine-host", lambda s: s.docker(KernelVersion="6.12-linuxkit"), MISSING, "in a virtual machine"),
    ("engine-host", lambda s: s.docker(DockerRootDir="/no/such/docker"), WARNING, "may be another host's"),
    (
        "cap-sys-resource",
        lambda s: s.kernel("proc/self/status", "CapBnd:\t000001fffeffffff\n"),
        WARNING,
        "unable to apply caps",
    ),
    (
        "engine-space",
        lambda s: s.host.free.update({"/": Room(Path("/"), 3 << 30, 9)}),
        MISSING,
        "3.0 GiB free in /",
    ),
    ("engine-space", own_engine_home_full, MISSING, "0.1 GiB free in"),
    (
        "kind",
        lambda s: s.remove("kind", "go"),
        MISSING,
        "no program kind in PATH, and there is no program go",
    ),
    (
        "kind-version",
        lambda s: s.program("kind", "echo kind v0.29.0 go1.24.2 linux/amd64"),
        MISSING,
        "is 0.29.0",
    ),
    (
        "kind-version",
        lambda s: s.program("kind", "echo broken; exit 1"),
        MISSING,
        "does not tell its version: broken",
    ),
    ("node-image", lambda s: s.docker(images=[]), WARNING, "kindest/node:v1.37.0@sha256:"),
    (
        "node-image",
        lambda s: (want(version="1.36")(s), s.docker(images=[])),
        MISSING,
        "none of Kubernetes 1.36",
    ),
    (
        "node-image",
        lambda s: s.patch.setenv("DRAKIT_KIND_IMAGE", "my/node:1"),
        WARNING,
        "names my/node:1, which",
    ),
    ("node-image", lambda s: s.no_engine(), UNKNOWN, "no engine answers"),
    ("node-image", want(version="1.20"), MISSING, "1.20"),
    ("probe-image", lambda s: s.remove("go"), MISSING, "is not there, and there is no program go"),
    ("node-image-build", lambda s: s.remove("debootstrap"), WARNING, "no program debootstrap in PATH"),
]


def _version_1(scene: Scene, memory: int = 1) -> None:
    scene.kernel("sys/fs/cgroup/cgroup.controllers", None)
    table = "#subsys_name\thierarchy\tnum_cgroups\tenabled\n"
    rows = {"cpuset": 1, "cpu": 1, "memory": memory, "pids": 1}
    scene.kernel("proc/cgroups", table + "".join(f"{name}\t1\t5\t{on}\n" for name, on in rows.items()))


@pytest.mark.parametrize(
    ("check", "act", "state", "text"), PROVOKED, ids=[f"{row[0]}-{row[3][:20]}" for row in PROVOKED]
)
def test_what_is_wrong_is_found_and_has_a_remedy(
    scene: Scene, check: str, act: Act, state: State, text: str
) -> None:
    before = scene.find(check)
    assert before.state is State.OK, before
    scene.host = _again(scene)
    act(scene)
    found = scene.find(check)
    assert (found.state, text in found.seen) == (state, True), found
    assert found.remedy or state is UNKNOWN


def _again(scene: Scene) -> ToldHost:
    """What commands answered is not remembered."""
    return ToldHost(scene.folder / "kernel")


def test_every_check_is_provoked() -> None:
    """A check without a state other than ok in the table above is a check that may never fail."""
    assert set(CHECKS) == {row[0] for row in PROVOKED}


def test_a_host_that_has_everything_can_run_every_tier(scene: Scene) -> None:
    found = {check.id: check.run(scene.host, Wanted()) for check in HOST_CHECKS}
    assert {name: finding for name, finding in found.items() if finding.state is not State.OK} == {}


def test_root_without_an_engine_gets_one_of_the_kits_own(scene: Scene) -> None:
    scene.no_engine()
    scene.patch.delenv("DOCKER_HOST")
    scene.kernel("proc/self/status", "CapBnd:\t000001fffeffffff\n")
    scene.kernel("proc/sys/net/ipv4/ip_forward", "0\n")
    checked = [Checked(check, check.run(scene.host, Wanted())) for check in HOST_CHECKS]
    assert obstacles(checked, "kind") == []
    texts = {item.check.id: item.finding.seen for item in checked}
    assert texts["engine"] == "none runs; drakit starts one of its own while a cluster needs it"
    assert "the engine that drakit starts makes nodes without it" in texts["cap-sys-resource"]


def test_a_check_says_whom_it_blocks(scene: Scene) -> None:
    scene.kernel("proc/meminfo", "MemAvailable: 1048576 kB\n")
    scene.host.user = 1000
    checked = [Checked(check, check.run(scene.host, Wanted())) for check in HOST_CHECKS]
    assert {tier: obstacles(checked, tier) for tier in ("embedded", "local", "kind")} == {
        "embedded": [],
        "local": ["memory", "root"],
        "kind": ["memory"],
    }


def test_what_a_gate_needs_is_added_on_real_clusters_unless_it_is_switched_off(scene: Scene) -> None:
    off = "scheduling.k8s.io/v1beta1=false"
    for config, blocked in (("", ["embedded"]), (off, ["embedded", "local", "kind"])):
        wanted = Wanted(feature_gates="GenericWorkload=true", runtime_config=config)
        found = Checked(CHECKS["gate-api"], CHECKS["gate-api"].run(scene.host, wanted))
        assert [tier for tier in ("embedded", "local", "kind") if found.blocks(tier)] == blocked


def test_a_file_that_may_not_be_read_is_unknown(scene: Scene) -> None:
    scene.kernel("proc/sys/fs/inotify/max_user_instances", None)
    found = scene.find("inotify-instances")
    assert (found.state, "No such file or directory" in found.seen) == (State.UNKNOWN, True)


# What the real host answers


def test_a_command_runs_once_and_one_that_hangs_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clusters.doctor.host._SECONDS", 0.2)
    log = tmp_path / "log"
    script = tmp_path / "slow"
    script.write_text(f"#!/bin/sh\necho x >> {log}\nexec /bin/sleep 30\n")
    script.chmod(0o755)
    host = RealHost()
    for _ in range(2):
        assert host.run(str(script)).last_line == "no answer within 0.2 s"
    assert log.read_text() == "x\n"
    with pytest.raises(OSError, match="No such file"):
        host.run(str(tmp_path / "none"))


def test_a_file_system_without_room_is_seen(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    script = (
        "import ctypes, os, sys\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "assert libc.unshare(0x20000) == 0\n"
        "assert libc.mount(b'none', b'/', b'none', 16384 | 1 << 18, None) == 0\n"
        "assert libc.mount(b't', sys.argv[1].encode(), b'tmpfs', 0, b'size=64k,nr_inodes=9') == 0\n"
        "from pathlib import Path\n"
        "from clusters.doctor.host import RealHost\n"
        "folder = Path(sys.argv[1])\n"
        "(folder / 'fill').write_bytes(b'x' * 65536)\n"
        "host = RealHost()\n"
        "print(host.room(folder / 'a' / 'b').free, host.write_problem(folder))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "0 No space left on device\n", done.stderr


def test_a_port_is_free_again_after_its_server() -> None:
    host = RealHost()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        port = listener.getsockname()[1]
        assert host.bind(port) == errno.EADDRINUSE
    assert host.bind(port) == 0


def test_sockets_are_told_from_files_and_from_nothing(scene: Scene) -> None:
    host: Host = RealHost()
    stale = scene.folder / "stale.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(os.path.relpath(stale))
    assert [host.kind_of(path) for path in (scene.socket, stale, scene.folder, scene.folder / "no")] == [
        "socket",
        "socket",
        "folder",
        "",
    ]
    assert host.connect(scene.socket) == 0
    assert host.connect(Path("/tmp") / ("x" * 200)) == errno.EINVAL
