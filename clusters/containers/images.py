"""Images: every name is present; names in their full form, stable digests, and what well-known ones start."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from clusters.containers.model import Image

_SHELLS = {"ubuntu": "/bin/bash", "debian": "/bin/bash", "busybox": "sh", "alpine": "/bin/sh"}
PAUSE = ("/pause",)
_DEFAULT_REGISTRY = "docker.io"
_LABEL = "(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_ALGORITHM = "[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*"
_REFERENCE = re.compile(
    rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?(?:/{_PART})+"
    rf"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?(?:@{_ALGORITHM}:[0-9a-fA-F]{{32,}})?"
)


def full_name(image: str) -> str:
    """The name with registry and tag, as `docker.io/library/ubuntu:22.04`; with a digest the tag is dropped."""
    name, _, digest = image.partition("@")
    registry, path = _split_registry(name)
    repository, tag = _split_tag(f"{registry}/{path}")
    return f"{repository}@{digest}" if digest else f"{repository}:{tag or 'latest'}"


def _split_registry(name: str) -> tuple[str, str]:
    first, slash, rest = name.partition("/")
    if not slash:
        return _DEFAULT_REGISTRY, f"library/{name}"
    if first == "index.docker.io":
        first = _DEFAULT_REGISTRY
    elif not ("." in first or ":" in first or first == "localhost" or first != first.lower()):
        return _DEFAULT_REGISTRY, name
    return first, rest if first != _DEFAULT_REGISTRY or "/" in rest else f"library/{rest}"


def name_problem(image: str) -> str | None:
    """Why a name is none, in the words of the reference parser that kubelets use; None for a good one."""
    if re.fullmatch("[0-9a-f]{64}", image):
        return f"invalid repository name ({image}), cannot specify 64-byte hexadecimal strings"
    registry, rest = _split_registry(image)
    path = rest.partition(":")[0]
    if path != path.lower():
        return f"invalid reference format: repository name ({path}) must be lowercase"
    return None if _REFERENCE.fullmatch(f"{registry}/{rest}") else "invalid reference format"


def _split_tag(name: str) -> tuple[str, str]:
    head, colon, tag = name.rpartition(":")
    return (head, tag) if colon and "/" not in tag else (name, "")


def resolve(image: str) -> Image:
    """The image of a name. Digests are made from the name, so they are the same on every node and run."""
    name = full_name(image)
    repository, _, digest = name.partition("@")
    repository = _split_tag(repository)[0]
    content = digest or f"sha256:{hashlib.sha256(name.encode()).hexdigest()}"
    identity = hashlib.sha256(f"config of {content}".encode()).hexdigest()
    return Image(f"sha256:{identity}", name, f"{repository}@{content}", size=4 * 1024 * 1024)


class Images:
    """The images of a node. Every name is present once somebody asks for it."""

    def __init__(self) -> None:
        self._known: dict[str, Image] = {}

    def find(self, image: str) -> Image | None:
        """The image of a name or of an id; None for an id that belongs to no image here."""
        if image.startswith("sha256:"):
            return self._known.get(image)
        found = resolve(image)
        return self._known.setdefault(found.id, found)

    def all(self) -> list[Image]:
        """The images that were asked for, by name."""
        return sorted(self._known.values(), key=lambda image: image.name)

    def remove(self, image: str) -> None:
        """Forget an image, given by name or id; an unknown one is gone already."""
        self._known.pop(image if image.startswith("sha256:") else resolve(image).id, None)


def command_line(image: str, command: Sequence[str], args: Sequence[str]) -> tuple[str, ...]:
    """What is started: the command replaces the image's entry point and command, args only the latter.

    Images have no entry point here, and as command a shell if they are well known for it, else the pause program,
    which runs until it is stopped.
    """
    if command or args:
        return (*command, *args)
    repository = _split_tag(full_name(image).partition("@")[0])[0]
    shell = _SHELLS.get(repository.rpartition("/")[2])
    return (shell,) if shell else PAUSE
