"""Every check that `drakit doctor --list` prints is provoked, with real things where there can be any."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path

import pytest
from doctor_host_scene import (
    CHECKS,
    Act,
    Scene,
    ToldHost,
    context,
    from_snap,
    full,
    no_folder,
    nobody_chose,
    own_engine_home_full,
    private_without_its_parts,
    refuse_socket,
    scene,
    take_port,
    want,
)

from clusters.doctor.host import Room
from clusters.doctor.model import State

__all__ = ["scene"]

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
    (
        "engine",
        private_without_its_parts,
        MISSING,
        "DRAKIT_ENGINE=private, and an engine of drakit's own needs",
    ),
    (
        "engine",
        lambda s: s.patch.setenv("DRAKIT_ENGINE", "mine"),
        MISSING,
        'DRAKIT_ENGINE=mine: it is "given" or "private"',
    ),
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
