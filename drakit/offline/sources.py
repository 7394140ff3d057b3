"""Where objects come from: manifests in files and folders, or the API server of a kubeconfig."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from clusters import gates
from dra_api.decode import DecodeError, ManifestError, load_manifests
from dra_api.decode.yaml_text import documents
from drakit.offline import cluster
from drakit.offline.settings import chosen_gates
from drakit.offline.world import KINDS, Object, World
from drakit.offline.writing import UnknownKindError, written
from drakit.output import UserError, counted, say

STDIN: Final = "-"
_SUFFIXES: Final = (".yaml", ".yml", ".json")
_MAKERS: Final = (
    "CronJob",
    "DaemonSet",
    "Deployment",
    "Job",
    "PodTemplate",
    "ReplicaSet",
    "ReplicationController",
    "StatefulSet",
)
"""Kinds that make Pods."""
NO_MANIFESTS: Final = (
    "{}: there are no manifests in it: write objects such as a ResourceClaim, in YAML or JSON"
)


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say where objects come from, as `files`, `kubeconfig_file` and `context`."""
    for option in (
        click.option(
            "--context",
            default="",
            metavar="NAME",
            help="The context of --kubeconfig.  [default: its current one]",
        ),
        click.option(
            "--kubeconfig",
            "kubeconfig_file",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Look at this cluster; it is only read.",
        ),
        click.option(
            "-f",
            "--filename",
            "files",
            multiple=True,
            metavar="FILE",
            help="Manifests: a YAML or JSON file, a folder of them, or - for standard input. May be repeated.",
        ),
    ):
        command = option(command)
    return command


@dataclass(frozen=True)
class View:
    """What the scheduler sees, and every feature gate that it has."""

    world: World
    gates: Mapping[str, bool]


def view(files: Sequence[str], kubeconfig_file: Path | None, context: str, feature_gates: str) -> View:
    """The view of files, of a cluster, or of a cluster with what files add to it or replace in it.

    Gates are those of the setting, then those of the cluster. Raises UserError.
    """
    if context and kubeconfig_file is None:
        raise UserError("--context names a context of a kubeconfig: give --kubeconfig as well")
    if not files and kubeconfig_file is None:
        raise UserError(
            "nothing to look at: give manifests with -f FILE, or a cluster with --kubeconfig FILE"
        )
    added = manifests(files)
    if kubeconfig_file is None:
        seen = View(World.of(added), chosen_gates(feature_gates))
    else:
        found = cluster.read(kubeconfig_file, context, feature_gates)
        seen = View(World.of([*found.objects, *added]), found.gates)
    makers = [counted(count, kind) for kind, count in seen.world.others.items() if kind in _MAKERS]
    if makers:
        say(f"passed over: {', '.join(makers)}: only Pods count here; give those that they make")
    return seen


def world(files: Sequence[str]) -> World:
    """The world of files. Raises UserError."""
    return World.of(manifests(files))


def manifests(files: Sequence[str]) -> list[Object]:
    """The objects of files. Raises UserError, also when there is not one of them."""
    objects: list[Object] = []
    problems: list[str] = []
    read = list(texts(files))
    for path, text in read:
        try:
            found = load_manifests(text, path, pass_over_foreign=True)
            problems += [f"{path}: {problem}" for obj in found for problem in _refusals(obj)]
            objects += found
        except (ManifestError, DecodeError) as error:
            problems.append(str(error))
    if problems:
        raise UserError("\n".join([*problems, "drakit lint tells more about manifests"]))
    if files and not objects and all(is_blank(text) for _, text in read):
        raise UserError(NO_MANIFESTS.format(", ".join(files)))
    return objects


def is_blank(text: str) -> bool:
    """Whether a text holds not one document. Raises DecodeError for one that cannot be read."""
    return all(document.value is None for document in documents(text))


def _refusals(obj: Object) -> Iterator[str]:
    """Why no cluster could have this object; it is judged as if all gates were on."""
    if obj["kind"] not in KINDS:
        return
    enabled = frozenset(gates.known(gates.LATEST))
    name = f"{obj['kind']} {obj['metadata'].get('name') or obj['metadata'].get('generateName')}".replace(
        "\n", " "
    )
    try:
        bare = {key: value for key, value in obj.items() if key != "status"}
        errors = written(bare, None, enabled).errors
        if not errors and obj["kind"] == "ResourceClaim" and obj.get("status"):
            errors = written(obj, bare, enabled).errors
    except UnknownKindError:
        return  # a kind of the same name in another group
    yield from (f"{name}: {error}" for error in errors)


def texts(files: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Name and text of each file; folders stand for the manifests in them. Raises UserError."""
    for name in files:
        if name == STDIN:
            yield "standard input", _decoded(sys.stdin.buffer.read() if sys.stdin else b"", "standard input")
            continue
        for path in _paths(Path(name)):
            try:
                data = path.read_bytes()
            except OSError as error:
                raise UserError(f"{path}: cannot be read: {error.strerror}") from None
            yield str(path), _decoded(data, str(path))


def _paths(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(
        Path(folder, name) for folder, _, names in os.walk(path) for name in names if name.endswith(_SUFFIXES)
    )
    if not found:
        raise UserError(f"{path}: this folder holds no manifests ({', '.join(_SUFFIXES)})")
    return found


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{name}: this is no UTF-8 text (byte {error.start})") from None
