"""The images that containers of tests are started from: one static program under all names that tests use."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from clusters.binaries import programs
from clusters.binaries.programs import GoProgram
from clusters.containers.images import command_line, full_name
from clusters.kind.image import archive, store
from clusters.kind.image.archive import Entry, File, Folder, Image, Link
from clusters.kind.image.store import Progress

SOURCES: Final = Path(__file__).parent / "go"
"""A Go module for each program that is made for images."""

PROBE_IMAGES: Final = (
    "busybox",
    "doc-cn-beijing.cr.volces.com/vke/gpu-burn:1.0",
    "drakit/probe:1",
    "ubuntu:20.04",
    "ubuntu:22.04",
)
"""Names of the images that the suites of conformance and the examples of documentation use."""

COMMANDS: Final = (
    "ash",
    "bash",
    "cat",
    "dash",
    "date",
    "echo",
    "env",
    "exit",
    "false",
    "hostname",
    "ls",
    "nvidia-smi",
    "pause",
    "printenv",
    "sh",
    "sleep",
    "tail",
    "true",
)
"""The names of the program beside `probe`, in /usr/bin."""

_PASSWORDS: Final = b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"
_GROUPS: Final = b"root:x:0:\nnogroup:x:65534:\n"
_PROGRAM: Final = "/usr/bin/probe"


def own_program(name: str) -> GoProgram:
    """A program of `SOURCES`; its version is the hash of its sources."""
    version = store.tree_digest(SOURCES / name)
    return GoProgram(name, version, SOURCES / name, ".", f"drakit-{name}-{version}")


def probe_archive(progress: Progress) -> Path:
    """An archive with `PROBE_IMAGES` for `kind load image-archive`, from the cache or made. Raises ClusterError."""
    program = own_program("probe")
    version = recipe(program.version)
    name = f"probe-{version}.tar"

    def make(work: Path) -> Path:
        found = programs.find([program], progress=progress)
        archive.write(images(found.path("probe"), version), work / name)
        return work / name

    return store.kept(name, progress, make)


def recipe(version: str) -> str:
    """The hash of all that the archive is made from; `version` is that of the program."""
    return store.digest(version, repr(PROBE_IMAGES), repr(_entries(Path())), archive.architecture())


def images(program: Path, version: str) -> list[Image]:
    """All images; names whose images start the same thing are names of one image."""
    by_command: dict[tuple[str, ...], list[str]] = {}
    for name in PROBE_IMAGES:
        by_command.setdefault(command_line(name, (), ()), []).append(full_name(name))
    layer = _entries(program)
    return [
        Image(tuple(names), (layer,), command=command, labels={archive.LABEL: version})
        for command, names in by_command.items()
    ]


def _entries(program: Path) -> tuple[Entry, ...]:
    # Hard links: what CDI mounts over the path of a command must hide that one command, and a mount follows
    # symbolic links.
    names = [f"/usr/bin/{name}" for name in COMMANDS]
    return (
        Folder("/etc"),
        File("/etc/passwd", _PASSWORDS, 0o644),
        File("/etc/group", _GROUPS, 0o644),
        Folder("/root", 0o700),
        Folder("/run"),
        Folder("/tmp", 0o1777),  # noqa: S108 - of the image
        Folder("/usr/sbin"),
        Folder("/usr/local/bin"),
        Folder("/var"),
        File(_PROGRAM, program),
        *(Link(name, _PROGRAM, hard=True) for name in (*names, "/pause")),
        Link("/bin", "usr/bin"),
        Link("/sbin", "usr/sbin"),
    )
