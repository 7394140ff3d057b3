"""Docker archives written by hand: images without a container engine, the same bytes for the same content.

manifest.json        which configuration and layers belong to which names
DIGEST.json          configuration of an image, named by its SHA-256
DIGEST/layer.tar     a layer, named by its SHA-256; equal layers are there once
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

PATH: Final = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LABEL: Final = "io.drakit.recipe"
"""The label of every image that is made here; its value is the hash of what it was made from."""

_EPOCH: Final = 1_700_000_000
_CREATED: Final = "2023-11-14T22:13:20Z"
_MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class File:
    """A file of an image; `content` is its bytes, or a file that has them."""

    path: str
    content: bytes | Path
    mode: int = 0o755


@dataclass(frozen=True)
class Folder:
    """A folder of an image; those above files are made without being named."""

    path: str
    mode: int = 0o755


@dataclass(frozen=True)
class Link:
    """A link; a hard one names a file of the same layer, and shares its content."""

    path: str
    target: str
    hard: bool = False


Entry = File | Folder | Link


@dataclass(frozen=True)
class Image:
    """An image: names with registry and tag, layers from the lowest, and what it starts."""

    tags: tuple[str, ...]
    layers: tuple[tuple[Entry, ...], ...]
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)


def architecture() -> str:
    """The architecture of this machine as images name it."""
    return _MACHINES.get(platform.machine(), platform.machine())


def write(images: Sequence[Image], target: Path) -> None:
    """Write an archive for `docker load`, `ctr images import` and `kind load image-archive`. Raises OSError."""
    layers: dict[tuple[Entry, ...], tuple[str, Path]] = {}
    manifest = []
    try:
        for layer in (layer for image in images for layer in image.layers):
            if layer not in layers:
                layers[layer] = _layer(layer, target.with_name(f"{target.name}.layer-{len(layers)}"))
        with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as output:
            written: set[str] = set()
            for image in images:
                digests = [layers[layer][0] for layer in image.layers]
                config = json.dumps(_config(image, digests), sort_keys=True).encode()
                name = f"{hashlib.sha256(config).hexdigest()}.json"
                _add(output, written, name, config)
                for layer in image.layers:
                    digest, file = layers[layer]
                    _add(output, written, f"{digest}/layer.tar", file)
                manifest.append(
                    {
                        "Config": name,
                        "RepoTags": list(image.tags),
                        "Layers": [f"{digest}/layer.tar" for digest in digests],
                    }
                )
            _add(output, written, "manifest.json", json.dumps(manifest).encode())
    finally:
        for _, file in layers.values():
            file.unlink(missing_ok=True)


def _config(image: Image, digests: Iterable[str]) -> dict[str, object]:
    ids = [f"sha256:{digest}" for digest in digests]
    return {
        "architecture": architecture(),
        "os": "linux",
        "created": _CREATED,
        "config": {
            "Env": [PATH],
            "Entrypoint": list(image.entrypoint) or None,
            "Cmd": list(image.command) or None,
            "Labels": dict(image.labels),
        },
        "rootfs": {"type": "layers", "diff_ids": ids},
        "history": [{"created": _CREATED, "created_by": "drakit"} for _ in ids],
    }


def _add(output: tarfile.TarFile, written: set[str], name: str, content: bytes | Path) -> None:
    if name not in written:
        written.add(name)
        _put(output, _header(name, tarfile.REGTYPE, 0o644), content)


def _header(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    header = tarfile.TarInfo(name.strip("/"))
    header.type, header.mode, header.mtime = kind, mode, _EPOCH
    return header


def _put(output: tarfile.TarFile, header: tarfile.TarInfo, content: bytes | Path) -> None:
    if isinstance(content, bytes):
        header.size = len(content)
        output.addfile(header, io.BytesIO(content))
        return
    header.size = content.stat().st_size
    with content.open("rb") as file:
        output.addfile(header, file)


def _layer(entries: Sequence[Entry], file: Path) -> tuple[str, Path]:
    """Write a layer; its digest and its file."""
    with tarfile.open(file, "w", format=tarfile.GNU_FORMAT) as output:
        known = {entry.path.strip("/") for entry in entries}
        for entry in entries:
            for above in reversed(PurePosixPath(entry.path.strip("/")).parents[:-1]):
                if str(above) not in known:
                    known.add(str(above))
                    output.addfile(_header(str(above), tarfile.DIRTYPE, 0o755))
            match entry:
                case File():
                    _put(output, _header(entry.path, tarfile.REGTYPE, entry.mode), entry.content)
                case Folder():
                    output.addfile(_header(entry.path, tarfile.DIRTYPE, entry.mode))
                case Link():
                    header = _header(entry.path, tarfile.LNKTYPE if entry.hard else tarfile.SYMTYPE, 0o777)
                    header.linkname = entry.target.strip("/") if entry.hard else entry.target
                    output.addfile(header)
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest(), file
