"""The image of a kind node: one that is there, or one made of Debian packages and programs built with Go."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from clusters.binaries import STANDARD, programs, supply
from clusters.binaries.programs import CONTAINERD, CRICTL, KIND
from clusters.binaries.releases import NODE, find_release
from clusters.interface import ClusterError
from clusters.kind.engine import Engine
from clusters.kind.errors import EngineError
from clusters.kind.image import archive, probe, rootfs, store
from clusters.kind.image.archive import Entry, File, Folder, Image, Link
from clusters.kind.image.recipe import ENTRYPOINT, FILES, Recipe, recipe
from clusters.kind.image.steps import step
from clusters.kind.image.store import Progress

ENVIRONMENT: Final = "DRAKIT_KIND_IMAGE"
"""Names the node image when nothing else should be taken."""

STOCK: Final = {
    "1.37": "kindest/node:v1.37.0@sha256:a1ed56cfb0e7b93589bdf97c8cd566405a265939e3620fc4f5de89adff580ae5"
}
"""kind's own images by minor version: the default one of the kind that is pinned here."""

_BUILD_SECONDS: Final = 600.0
_PULL_SECONDS: Final = 900.0
_START_SECONDS: Final = 60.0
_POLL: Final = 0.1
_NETWORK: Final = ("--network", "none")
"""No step needs one, and a private engine has none to give."""

_FIREWALL: Final = ("conntrack", "iptables", "nftables", "kmod", "netbase")
"""Packages in the image of kube-proxy, with all that they depend on."""


def node_image(engine: Engine, version: str, progress: Progress) -> str:
    """The node image for a Kubernetes version, present in the engine.

    That of the environment (DRAKIT_KIND_IMAGE), else one that was made here, else kind's own, which is pulled where
    that is possible. Raises ClusterError, which tells how to make one.
    """
    if given := os.environ.get(ENVIRONMENT, ""):
        return _pulled(engine, given, progress, f"; {ENVIRONMENT} names it")
    release = find_release(version)
    own = recipe(release).tag
    if present(engine, own):
        return own
    stock = STOCK.get(release.minor) if release.pinned else None
    asked = release.minor if release.pinned else release.kubernetes.removeprefix("v")
    hint = (
        f'"drakit kind build-image --kubernetes-version {asked}" makes a node image (root, Debian packages '
        f"and Go; minutes), and {ENVIRONMENT} names another one"
    )
    if stock is None:
        raise ClusterError(f"there is no node image of Kubernetes {release.kubernetes} here; {hint}")
    return _pulled(engine, stock, progress, f"; {hint}")


def present(engine: Engine, image: str) -> bool:
    """Whether an image is in the engine."""
    try:
        engine.run("image", "inspect", "--format", "{{.Id}}", image)
    except EngineError:
        return False
    return True


def _pulled(engine: Engine, image: str, progress: Progress, hint: str) -> str:
    if not present(engine, image):
        progress(f"pulling {image}")
        try:
            engine.run("pull", "--quiet", image, timeout=_PULL_SECONDS)
        except EngineError as error:
            raise ClusterError(
                f"node image {image} is not here and cannot be pulled: {error}{hint}"
            ) from None
    return image


def build_image(engine: Engine, version: str, progress: Progress) -> str:
    """Make the node image for a Kubernetes version unless it is there; its tag.

    An interrupt or a failure leaves no image and no container. Raises ClusterError.
    """
    wanted = recipe(find_release(version))
    if present(engine, wanted.tag):
        return wanted.tag
    with store.alone("node-image", progress) as work:
        # Another run may have made it meanwhile.
        if not present(engine, wanted.tag):
            _Build(engine, wanted, work, progress).run()
    return wanted.tag


class _Build:
    def __init__(self, engine: Engine, wanted: Recipe, work: Path, progress: Progress) -> None:
        self._engine, self._recipe, self._work, self._progress = engine, wanted, work, progress
        self._container = f"drakit-build-{wanted.digest}"
        self._bare = f"drakit/node-without-images:{wanted.digest}"
        self._paths: dict[str, Path] = {}

    def run(self) -> None:
        start = time.monotonic()
        self._clean()
        try:
            release = self._recipe.release
            # First, as it takes less time to fail than what Go builds.
            tree = rootfs.rootfs(self._progress)
            kubernetes = supply.find(release.kubernetes, (*STANDARD, *NODE), progress=self._progress)
            own = [probe.own_program(name) for name in ("coredns", "pause")]
            further = programs.find((*CONTAINERD, CRICTL, *own), progress=self._progress)
            self._paths = {**kubernetes.paths, **further.paths}
            base = self._kind_files()
            self._timed("writing the images of the control plane", lambda: self._archive(tree, base))
            self._timed("laying out the node", lambda: self._context(tree, base))
            self._build()
            self._timed("loading images into the node", self._commit)
        finally:
            self._clean()
        self._progress(f"{self._recipe.tag}: made in {time.monotonic() - start:.0f} s")

    def _timed(self, what: str, act: Callable[[], None]) -> None:
        start = time.monotonic()
        self._progress(what)
        act()
        self._progress(f"{what}: done in {time.monotonic() - start:.0f} s")

    def _kind_files(self) -> Path:
        """The folder of kind's own files for its base image, in its Go module."""
        path = KIND.module
        # The folder of the module is kind's own business, and Go's where it is.
        answer = step(
            "getting the files of kind's base image",
            ["go", "-C", str(path), "mod", "download", "-json", "sigs.k8s.io/kind"],
            self._work,
            self._progress,
            variables={"GOFLAGS": "-mod=readonly", "GOWORK": "off"},
        )
        try:
            folder = json.loads(answer[answer.index("{") :])["Dir"]
        except (ValueError, KeyError):
            raise ClusterError(
                f"go mod download does not tell where sigs.k8s.io/kind is: {answer.strip()}"
            ) from None
        return Path(folder) / "images" / "base" / "files"

    def _tags(self, base: Path) -> dict[str, list[str]]:
        """The names of the images of the control plane, by the last part of their repositories."""
        text = step(
            "asking kubeadm for the names of images",
            [
                str(self._paths["kubeadm"]),
                "config",
                "images",
                "list",
                "--kubernetes-version",
                self._recipe.release.kubernetes,
            ],
            self._work,
            self._progress,
        )
        names = re.findall(r"^\S+/\S+:\S+$", text, re.MULTILINE)
        names += re.findall(
            r'^\s*sandbox_image = "(.+)"',
            (base / "etc/containerd/config.toml").read_text("utf-8"),
            re.MULTILINE,
        )
        found: dict[str, list[str]] = {}
        for name in dict.fromkeys(names):
            found.setdefault(name.rpartition("/")[2].partition(":")[0], []).append(name)
        return found

    def _archive(self, tree: Path, base: Path) -> None:
        unpacked = self._work / "packages"
        unpacked.mkdir()
        common: tuple[Entry, ...] = (
            File("/etc/nsswitch.conf", b"hosts: files dns\n", 0o644),
            Folder("/tmp", 0o1777),  # noqa: S108 - of the image
        )
        network = rootfs.package_files(tree, _FIREWALL, unpacked)
        network += [
            Link(f"/usr/sbin/{name}{end}", "xtables-nft-multi")
            for name in ("iptables", "ip6tables")
            for end in ("", "-save", "-restore")
        ]
        labels = {archive.LABEL: self._recipe.digest}
        images = []
        for name, tags in self._tags(base).items():
            if name not in self._paths:
                raise ClusterError(f"kubeadm wants an image that is not made here: {', '.join(tags)}")
            place = f"/{name}" if name in ("coredns", "pause") else f"/usr/local/bin/{name}"
            layers = [common, (File(place, self._paths[name]),)]
            if name == "kube-proxy":
                layers.insert(1, tuple(network))
            start = (place,) if place.count("/") == 1 else ()
            images.append(Image(tuple(tags), tuple(layers), start, labels=labels))
        archive.write(images, self._work / "images.tar")

    def _context(self, tree: Path, base: Path) -> None:
        context = self._work / "context"
        files = context / "files"
        # Not shutil.copytree alone: files of Go's module cache cannot be written, and all have the same mode.
        for source in (base, FILES):
            for path in sorted(source.rglob("*")):
                if path.is_file():
                    name = path.relative_to(source)
                    runs = name.parts[:2] == ("kind", "bin") or name.parts[:3] == ("usr", "local", "bin")
                    _copy(path, files / name, 0o755 if runs else 0o644)
        version = files / "kind" / "version"
        version.write_text(self._recipe.release.kubernetes, encoding="ascii")
        version.chmod(0o644)
        _link(tree, context / "rootfs.tar")
        for place, programs_in_it in (
            ("bin", [program.name for program in (*CONTAINERD, CRICTL)]),
            ("ubin", ["kubeadm", "kubelet", "kubectl"]),
        ):
            for program in programs_in_it:
                _link(self._paths[program], context / place / program)
        (context / "Dockerfile").write_text(self._recipe.dockerfile(), encoding="utf-8")
        for folder in (context, *context.rglob("*")):
            if folder.is_dir():
                folder.chmod(0o755)

    def _build(self) -> None:
        variables = self._engine.environment()
        try:
            self._engine.run("buildx", "version")
        except EngineError:
            # The newer builder comes as a plugin, which need not be there.
            variables["DOCKER_BUILDKIT"] = "0"
        step(
            "building the node",
            [
                self._engine.docker,
                "build",
                *_NETWORK,
                "--force-rm",
                "--tag",
                self._bare,
                str(self._work / "context"),
            ],
            self._work,
            self._progress,
            variables=variables,
        )

    def _commit(self) -> None:
        run = self._engine.run
        # What runs keeps its files in memory and in a volume, so that none of them gets into the image.
        run(
            *("run", "--detach", "--name", self._container, *_NETWORK, "--label", self._label()),
            *("--tmpfs", "/run", "--tmpfs", "/tmp", "--mount", "type=volume,destination=/import"),  # noqa: S108
            *("--entrypoint", "containerd", self._bare),
        )
        run(
            "cp",
            str(self._work / "images.tar"),
            f"{self._container}:/import/images.tar",
            timeout=_BUILD_SECONDS,
        )
        self._await_containerd()
        run(
            *("exec", self._container, "ctr", "--namespace", "k8s.io", "images", "import", "--all-platforms"),
            *("--no-unpack", "--label", "io.cri-containerd.pinned=pinned", "/import/images.tar"),
            timeout=_BUILD_SECONDS,
        )
        run("kill", "--signal", "TERM", self._container)
        run("wait", self._container)
        run(
            *("commit", "--change", f"ENTRYPOINT {ENTRYPOINT}", "--change", f"LABEL {self._label()}"),
            *(self._container, self._recipe.tag),
            timeout=_BUILD_SECONDS,
        )

    def _label(self) -> str:
        return f"{archive.LABEL}={self._recipe.digest}"

    def _await_containerd(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                self._engine.run("exec", self._container, "ctr", "version")
            except EngineError as error:
                if time.monotonic() > deadline:
                    raise ClusterError(f"containerd does not answer in the node: {error}") from None
                time.sleep(_POLL)
            else:
                return

    def _clean(self) -> None:
        """Remove what a build has made on its way, also one that was killed. It is held by who builds alone."""
        for words in (
            ("rm", "--force", "--volumes", self._container),
            ("image", "rm", "--no-prune", self._bare),
            ("image", "prune", "--force", "--filter", f"label={archive.LABEL}"),
        ):
            try:
                self._engine.run(*words)
            except EngineError:
                # There was nothing of it.
                continue


def _copy(source: Path, target: Path, mode: int) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    shutil.copyfile(source, target)
    target.chmod(mode)


def _link(source: Path, target: Path) -> None:
    """The file at another place; without copying it where that can be."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copy(source, target)
