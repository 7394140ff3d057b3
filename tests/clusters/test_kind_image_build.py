"""How a node image is chosen and made. docker, debootstrap and Go are stand-ins that write down how they are called."""

from __future__ import annotations

import io
import json
import os
import tarfile
import threading
from pathlib import Path

import pytest

from clusters.binaries import programs, supply
from clusters.binaries.releases import find_release
from clusters.interface import ClusterError
from clusters.kind.engine import Engine
from clusters.kind.image import node as module
from clusters.kind.image import recipe, rootfs, steps, store
from clusters.kind.image.node import STOCK, build_image, node_image

DOCKER = """#!/bin/sh
echo "$@" >> {folder}/calls
case "$1 $2" in
"version "*) echo 28.0;;
"image inspect") for word; do :; done; grep -qx "$word" {folder}/images || exit 1;;
"buildx version") [ -e {folder}/buildx ] || exit 1;;
"pull "*) for word; do :; done; [ -e {folder}/registry ] || {{ echo no route to the registry >&2; exit 1; }}
    echo "$word" >> {folder}/images;;
"build "*) for word; do :; done; echo "DOCKER_BUILDKIT=$DOCKER_BUILDKIT" >> {folder}/calls
    (cd "$word" && find . -type f -printf '%m %P\\n' | sort) > {folder}/context
    if [ -e {folder}/gate ]; then echo at the gate >> {folder}/calls; cat {folder}/gate > /dev/null; fi
    if [ -e {folder}/fails ]; then echo no space left; exit 1; fi;;
"cp "*) cp "$2" {folder}/imported.tar;;
"commit "*) for word; do :; done; echo "$word" >> {folder}/images;;
esac
exit 0
"""
TAG = recipe.recipe(find_release("1.37")).tag
STATUS = b"Package: iptables\nDepends: libc6\n\nPackage: libc6\n\nPackage: bash\n"
TREE = {
    "var/lib/dpkg/status": STATUS,
    "var/lib/dpkg/info/iptables.list": b"/.\n/usr/sbin/xtables-nft-multi\n/usr/share/doc/iptables/README\n",
    "var/lib/dpkg/info/libc6:amd64.list": b"/.\n/lib\n/lib/libc.so.6\n",
    "var/lib/dpkg/info/bash.list": b"/bin/bash\n",
    "usr/sbin/xtables-nft-multi": b"tables",
    "usr/lib/libc.so.6": b"libc",
    "usr/bin/bash": b"bash",
}
IMAGES = """registry.k8s.io/kube-apiserver:v1.37.2
registry.k8s.io/kube-controller-manager:v1.37.2
registry.k8s.io/kube-scheduler:v1.37.2
registry.k8s.io/kube-proxy:v1.37.2
registry.k8s.io/coredns/coredns:v1.14.6
registry.k8s.io/pause:3.10.2
registry.k8s.io/etcd:3.7.0-0
"""


class Docker:
    """A docker command, and what it was called with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = folder / "docker"
        self.program.write_text(DOCKER.format(folder=folder))
        self.program.chmod(0o755)
        (folder / "images").touch()
        self.engine = Engine(str(self.program), "unix:///nowhere")

    @property
    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()

    def have(self, image: str) -> None:
        (self.folder / "images").write_text(f"{image}\n")

    def has(self, image: str) -> bool:
        return image in (self.folder / "images").read_text().splitlines()


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Docker:
    folder = tmp_path / "docker"
    folder.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("DRAKIT_KIND_IMAGE", raising=False)
    return Docker(folder)


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand-ins for programs and for kind's files; a root file system."""
    folder = tmp_path / "parts"
    base = folder / "module" / "images" / "base" / "files"
    for name, text in {
        "etc/containerd/config.toml": '  sandbox_image = "registry.k8s.io/pause:3.10"\n',
        "kind/bin/mount-product-files.sh": "#!/bin/bash\n",
        "usr/local/bin/entrypoint": "#!/bin/bash\n",
    }.items():
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        (base / name).write_text(text)
        # As Go's module cache has them.
        (base / name).chmod(0o444)

    def made(name: str, text: str) -> Path:
        path = folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    def find(version: str, names: tuple[str, ...], **_: object) -> supply.Binaries:
        texts = {"kubeadm": f"cat <<'E'\n{IMAGES}E"}
        return supply.Binaries(version, {name: made(name, texts.get(name, f"echo {name}")) for name in names})

    def find_programs(wanted: list[programs.GoProgram], **_: object) -> supply.Binaries:
        return supply.Binaries("", {entry.name: made(entry.name, f"echo {entry.name}") for entry in wanted})

    monkeypatch.setattr(module.supply, "find", find)
    monkeypatch.setattr(module.programs, "find", find_programs)
    made("go", f"echo '{json.dumps({'Dir': str(folder / 'module')})}'")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    tree = folder / "rootfs.tar"
    with tarfile.open(tree, "w") as output:
        for name, data in TREE.items():
            member = tarfile.TarInfo(f"./{name}")
            member.size, member.mode = len(data), 0o755
            output.addfile(member, io.BytesIO(data))
    monkeypatch.setattr(module.rootfs, "rootfs", lambda progress: tree)
    return folder


def quiet(line: str) -> None:
    """Tell nobody."""


def test_the_image_of_the_environment_comes_first(docker: Docker, monkeypatch: pytest.MonkeyPatch) -> None:
    docker.have(TAG)
    (docker.folder / "registry").touch()
    monkeypatch.setenv("DRAKIT_KIND_IMAGE", "mine:1")
    assert node_image(docker.engine, "1.37", quiet) == "mine:1"
    assert "pull --quiet mine:1" in docker.calls


def test_then_the_one_that_was_made_here(docker: Docker) -> None:
    (docker.folder / "registry").touch()
    docker.have(TAG)
    assert node_image(docker.engine, "1.37", quiet) == TAG
    assert not any(call.startswith("pull") for call in docker.calls)


def test_then_that_of_kind_which_is_pulled_once(docker: Docker) -> None:
    (docker.folder / "registry").touch()
    told: list[str] = []
    for _ in range(2):
        assert node_image(docker.engine, "1.37", told.append) == STOCK["1.37"]
    assert told == [f"pulling {STOCK['1.37']}"]


def test_without_any_it_says_what_helps(docker: Docker) -> None:
    with pytest.raises(ClusterError) as error:
        node_image(docker.engine, "1.37", quiet)
    assert "no route to the registry" in str(error.value)
    assert '"drakit kind build-image --kubernetes-version 1.37" makes a node image' in str(error.value)
    assert "DRAKIT_KIND_IMAGE names another one" in str(error.value)
    with pytest.raises(
        ClusterError, match=r"there is no node image of Kubernetes v1\.36\.3 here; .*build-image"
    ):
        node_image(docker.engine, "1.36", quiet)
    # The image of another patch release would not do.
    with pytest.raises(ClusterError, match=r'v1\.37\.1 here; .*build-image --kubernetes-version 1\.37\.1"'):
        node_image(docker.engine, "1.37.1", quiet)


def test_what_is_there_is_not_made_again(docker: Docker) -> None:
    docker.have(TAG)
    assert build_image(docker.engine, "1.37", quiet) == TAG
    assert not any(call.startswith("build") for call in docker.calls)


def test_an_image_is_made_step_by_step(docker: Docker, parts: Path) -> None:
    told: list[str] = []
    assert build_image(docker.engine, "1.37", told.append) == TAG
    assert docker.has(TAG)
    digest = TAG.rpartition("-")[2]
    container, bare = f"drakit-build-{digest}", f"drakit/node-without-images:{digest}"
    calls = docker.calls
    build = next(index for index, call in enumerate(calls) if call.startswith("build "))
    assert calls[build].startswith(f"build --network none --force-rm --tag {bare} ")
    assert calls[build + 1] == "DOCKER_BUILDKIT=0"
    rest = calls[build + 2 :]
    assert rest[0] == (
        f"run --detach --name {container} --network none --label io.drakit.recipe={digest} --tmpfs /run --tmpfs /tmp "
        f"--mount type=volume,destination=/import --entrypoint containerd {bare}"
    )
    assert [call.split()[0] for call in rest[1:]] == [
        *("cp", "exec", "exec", "kill", "wait", "commit", "rm", "image", "image"),
    ]
    assert rest[6] == (
        'commit --change ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"] '
        f"--change LABEL io.drakit.recipe={digest} {container} {TAG}"
    )
    assert rest[7:] == [
        f"rm --force --volumes {container}",
        f"image rm --no-prune {bare}",
        "image prune --force --filter label=io.drakit.recipe",
    ]
    assert told[-1].startswith(f"{TAG}: made in ")


def test_the_newer_builder_is_used_where_it_is(docker: Docker, parts: Path) -> None:
    (docker.folder / "buildx").touch()
    build_image(docker.engine, "1.37", quiet)
    assert "DOCKER_BUILDKIT=" in docker.calls


def test_the_context_has_modes_that_programs_and_files_need(docker: Docker, parts: Path) -> None:
    build_image(docker.engine, "1.37", quiet)
    modes = dict(line.split()[::-1] for line in (docker.folder / "context").read_text().splitlines())
    assert modes["files/kind/bin/mount-product-files.sh"] == "755"
    assert modes["files/usr/local/bin/entrypoint"] == "755"
    assert modes["files/etc/containerd/config.toml"] == "644"
    assert modes["files/etc/containerd/cni.conf.template"] == "644"
    assert modes["files/kind/version"] == "644"
    assert {"rootfs.tar", "Dockerfile", "bin/containerd", "bin/crictl", "ubin/kubelet"} <= modes.keys()


def test_the_images_are_those_that_kubeadm_and_containerd_want(docker: Docker, parts: Path) -> None:
    build_image(docker.engine, "1.37", quiet)
    with tarfile.open(docker.folder / "imported.tar") as found:
        manifest = json.load(found.extractfile("manifest.json"))  # type: ignore[arg-type]
        configs = {
            entry["RepoTags"][0]: json.load(found.extractfile(entry["Config"]))  # type: ignore[arg-type]
            for entry in manifest
        }
        proxy = next(entry for entry in manifest if "kube-proxy" in entry["RepoTags"][0])
        with tarfile.open(fileobj=found.extractfile(proxy["Layers"][1])) as layer:
            names = set(layer.getnames())
    assert {tag for entry in manifest for tag in entry["RepoTags"]} == {
        *IMAGES.split(),
        "registry.k8s.io/pause:3.10",
    }
    assert configs["registry.k8s.io/pause:3.10.2"]["config"]["Entrypoint"] == ["/pause"]
    assert configs["registry.k8s.io/kube-proxy:v1.37.2"]["config"]["Entrypoint"] is None
    # Of the packages that iptables needs, whatever the root file system has.
    assert {"usr/sbin/xtables-nft-multi", "usr/lib/libc.so.6", "lib", "usr/sbin/iptables-restore"} <= names
    assert "usr/bin/bash" not in names


def test_a_failure_leaves_nothing(docker: Docker, parts: Path) -> None:
    (docker.folder / "fails").touch()
    with pytest.raises(
        ClusterError, match="building the node: docker failed with exit code 1\nno space left"
    ):
        build_image(docker.engine, "1.37", quiet)
    assert not docker.has(TAG)
    assert docker.calls[-1] == "image prune --force --filter label=io.drakit.recipe"
    assert [path.name for path in store.folder().iterdir()] == [".locks"]


@pytest.mark.process
def test_a_second_run_waits_and_takes_what_the_first_made(docker: Docker, parts: Path) -> None:
    os.mkfifo(docker.folder / "gate")
    told: list[str] = []
    waits = threading.Event()

    def second_tells(line: str) -> None:
        told.append(line)
        waits.set()

    found: list[str] = []
    first = threading.Thread(target=lambda: found.append(build_image(docker.engine, "1.37", quiet)))
    first.start()
    # Opened as soon as the build reads it.
    gate = (docker.folder / "gate").open("w")
    second = threading.Thread(target=lambda: found.append(build_image(docker.engine, "1.37", second_tells)))
    second.start()
    assert waits.wait(30)
    gate.close()
    first.join(30)
    second.join(30)
    assert found == [TAG, TAG]
    assert told == ["waiting for another run that makes node-image (0 s)"]
    assert len([call for call in docker.calls if call.startswith("build ")]) == 1


def test_debootstrap_runs_in_a_mount_namespace_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(rootfs.os, "geteuid", lambda: 0)
    for name, text in {
        "unshare": 'shift; exec "$@"',
        "debootstrap": f'echo "$@" > {tmp_path}/asked; for word; do :; done\n'
        "mkdir -p $word/etc $word/usr/share/doc/x; echo 12 > $word/etc/debian_version; echo > $word/usr/share/doc/x/y",
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    made = rootfs.rootfs(quiet)
    with tarfile.open(made) as tree:
        assert sorted(tree.getnames()) == [
            *(".", "./etc", "./etc/debian_version", "./usr", "./usr/share", "./usr/share/doc"),
        ]
    asked = (tmp_path / "asked").read_text().split()
    assert asked[0] == "--variant=minbase"
    assert asked[1] == f"--include={','.join(recipe.PACKAGES)}"
    assert asked[2] == "bookworm"
    (tmp_path / "asked").unlink()
    assert rootfs.rootfs(quiet) == made
    assert not (tmp_path / "asked").exists()


def test_without_root_or_debootstrap_one_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(rootfs.os, "geteuid", lambda: 1000)
    with pytest.raises(
        ClusterError, match=r"^a node image is made by root \(debootstrap makes device nodes and"
    ):
        rootfs.rootfs(quiet)
    monkeypatch.setattr(rootfs.os, "geteuid", lambda: 0)
    monkeypatch.setattr(rootfs, "_SBIN", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        ClusterError, match=r"^a node image needs debootstrap and unshare .*apt install debootstrap"
    ):
        rootfs.rootfs(quiet)


def test_a_command_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"^doing: /no/such: No such file or directory$"):
        steps.step("doing", ["/no/such"], tmp_path, quiet)
