"""Where objects come from: manifests in files and folders, or the API server of a kubeconfig."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click

from clusters import gates
from clusters.client import Client, ClientError, resource_path
from clusters.existing import kubeconfig
from clusters.interface import ClusterError
from dra_api.conversion import GROUP
from dra_api.decode import DecodeError, ManifestError, load_manifests
from drakit.offline.world import KINDS, Object, World, resource_of
from drakit.offline.writing import UnknownKindError, written
from drakit.output import UserError

STDIN: Final = "-"
_SUFFIXES: Final = (".yaml", ".yml", ".json")
_PAGE: Final = 500
_SECONDS: Final = 30.0
_VERSIONS: Final = ("v1", "v1beta2", "v1beta1", "v1alpha3")


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


def world(files: Sequence[str], kubeconfig_file: Path | None, context: str) -> World:
    """The world of files, of a cluster, or of a cluster with what files add to it or replace in it.

    Raises UserError.
    """
    if context and kubeconfig_file is None:
        raise UserError("--context names a context of a kubeconfig: give --kubeconfig as well")
    if not files and kubeconfig_file is None:
        raise UserError(
            "nothing to look at: give manifests with -f FILE, or a cluster with --kubeconfig FILE"
        )
    objects: list[Object] = []
    if kubeconfig_file is not None:
        objects += _of_cluster(kubeconfig_file, context)
    problems: list[str] = []
    for path, text in texts(files):
        try:
            found = load_manifests(text, path)
            problems += [f"{path}: {problem}" for obj in found for problem in _refusals(obj)]
            objects += found
        except (ManifestError, DecodeError) as error:
            problems.append(str(error))
    if problems:
        raise UserError("\n".join([*problems, "drakit lint tells more about manifests"]))
    return World.of(objects)


def _refusals(obj: Object) -> Iterator[str]:
    """Why no cluster could have this object; it is judged as if all gates were on."""
    if obj["kind"] not in KINDS:
        return
    enabled = frozenset(gates.known(gates.LATEST))
    name = f"{obj['kind']} {obj['metadata'].get('name') or obj['metadata'].get('generateName')}"
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


def _of_cluster(path: Path, context: str) -> list[Object]:
    try:
        connection = kubeconfig.load(path, context)
        client = connection.client()
    except ClusterError as error:
        raise UserError(str(error)) from None
    try:
        return list(_read(client))
    except ClientError as error:
        raise UserError(f"{connection.server}: {error.message.strip() or error}") from None
    finally:
        client.close()


def _read(client: Client) -> Iterator[Object]:
    """All objects of the kinds that matter; what the cluster does not serve is not there."""
    groups = client.request("GET", "/apis", timeout=_SECONDS).get("groups") or []
    served = {
        version["version"] for group in groups if group["name"] == GROUP for version in group["versions"]
    }
    for kind in KINDS:
        resource = resource_of(kind)
        versions = resource.versions if resource.group else ("v1",)
        usable = [name for name in _VERSIONS if name in versions and (not resource.group or name in served)]
        for name in usable:
            api_version = f"{resource.group}/{name}" if resource.group else name
            found = _listed(client, api_version, resource.plural)
            if found is None:
                continue
            for item in found:
                yield {**item, "apiVersion": api_version, "kind": kind}
            break


def _listed(client: Client, api_version: str, plural: str) -> list[Object] | None:
    """In pages, as there may be thousands; None when the resource is not served in this version."""
    items: list[Object] = []
    query: dict[str, Any] = {"limit": _PAGE}
    while True:
        try:
            answer = client.request("GET", resource_path(api_version, plural), query=query, timeout=_SECONDS)
        except ClientError as error:
            if error.code == 404:
                return None
            raise
        items += answer.get("items") or []
        following = (answer.get("metadata") or {}).get("continue")
        if not following:
            return items
        query["continue"] = following
