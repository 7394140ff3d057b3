"""`drakit binaries`: the binaries of Kubernetes that `--tier local` runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from clusters.binaries import NAMES, RELEASES, STANDARD, Binaries, BinariesError, cache, folders, supply
from clusters.binaries.download import ETCD_ENVIRONMENT, ETCD_URL, RELEASE_ENVIRONMENT, RELEASE_URL
from clusters.binaries.programs import PROGRAMS
from clusters.binaries.releases import check_names, find_release
from drakit.interrupt import stoppable
from drakit.output import UserError, say, write_out

_COULD_NOT: Final = 1
_SHELVES: Final = {program.shelf for program in PROGRAMS}
_STANDARD_SET: Final = ", ".join(STANDARD)


@click.group("binaries")
def command() -> None:
    """The binaries of Kubernetes that real clusters on this machine (--tier local) are made of.

    They come, in this order, from a folder that you name (--binaries DIR, or DRAKIT_BINARIES), from the cache
    (~/.cache/drakit/binaries), as official releases checked by their SHA-256, or from a build with Go. Commands get
    what they need by themselves; "fetch" and "build" do it beforehand. docs/binaries.md tells more.
    """


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(as_json: bool) -> int:
    """Show the versions that are known and what the cache holds of them."""
    try:
        document = _document()
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}") from None
    write_out(json.dumps(document, indent=2) + "\n" if as_json else _table(document))
    return 0


def _document() -> dict[str, Any]:
    shelves = {shelf.version: shelf for shelf in cache.shelves()}
    known = [release.kubernetes for release in RELEASES.values()]
    etcd = sorted({release.folder("etcd") for release in RELEASES.values()})
    versions: list[dict[str, Any]] = []
    for version in sorted({*known, *etcd, *shelves}, key=_in_order):
        contents = shelves[version].contents() if version in shelves else {}
        wanted = _wanted(version)
        versions.append(
            {
                "version": version,
                "known": version in known or version in etcd or version in _SHELVES,
                "binaries": contents,
                "missing": [name for name in wanted if name not in contents],
                "inUse": version in shelves and shelves[version].in_use(),
            }
        )
    folder = folders.named(None)
    return {
        "cache": str(cache.root()),
        "folder": str(folder) if folder else None,
        "versions": versions,
    }


def _wanted(version: str) -> list[str]:
    """What a folder of the cache should hold."""
    if version in _SHELVES:
        return [program.name for program in PROGRAMS if program.shelf == version]
    return ["etcd"] if version.startswith("etcd") else [name for name in STANDARD if name != "etcd"]


def _in_order(version: str) -> tuple[bool, list[int], str]:
    return not version.startswith("v"), [int(number) for number in re.findall(r"\d+", version)], version


def _table(document: dict[str, Any]) -> str:
    rows = [("VERSION", "STATE", "SIZE", "BINARIES")]
    for entry in document["versions"]:
        contents, missing = entry["binaries"], entry["missing"]
        state = "complete" if contents and not missing else "partial" if contents else "not there"
        state += "" if entry["known"] else ", other"
        state += ", in use" if entry["inUse"] else ""
        names = ", ".join(contents) + (f"; without {', '.join(missing)}" if contents and missing else "")
        rows.append(
            (entry["version"], state, _mega(sum(contents.values())) if contents else "-", names or "-")
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    lines.append(f"cache: {document['cache']}")
    if document["folder"]:
        lines.append(f"{folders.ENVIRONMENT} names a folder, which is used instead: {document['folder']}")
    return "\n".join(lines) + "\n"


def _mega(count: int) -> str:
    return f"{count / 1e6:.0f} MB"


@command.command("fetch", short_help="Download official releases into the cache.")
@click.argument("version")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option(
    "--release-url",
    metavar="URL",
    default="",
    help=f"A mirror of {RELEASE_URL}; also {RELEASE_ENVIRONMENT}.",
)
@click.option(
    "--etcd-url",
    metavar="URL",
    default="",
    help=f"A mirror of {ETCD_URL}; also {ETCD_ENVIRONMENT}.",
)
def fetch(version: str, names: tuple[str, ...], release_url: str, etcd_url: str) -> int:
    """Download official releases into the cache, each checked by its published SHA-256.

    VERSION is a minor version, such as 1.37, or a release of one, such as 1.37.1. Without NAME it fetches all that a
    cluster needs, and kubectl; e2e.test (Kubernetes' own end-to-end tests) only comes when it is named.
    """
    return _get(
        version,
        names,
        lambda wanted: supply.fetch(
            version, wanted, release_url=release_url, etcd_url=etcd_url, progress=say
        ),
    )


@command.command("build", short_help="Build binaries with Go into the cache.")
@click.argument("version")
@click.argument("names", metavar="[NAME]...", nargs=-1)
def build(version: str, names: tuple[str, ...]) -> int:
    """Build binaries with Go from pinned modules into the cache.

    VERSION is a minor version, such as 1.37. The first build of a version takes ten minutes and more on two cores and
    needs Go and its module proxy; Go keeps what it compiled, so that a further one is quick. Without NAME it builds
    all that a cluster needs, and kubectl; e2e.test only when it is named.
    """
    return _get(version, names, lambda wanted: supply.build(version, wanted, progress=say))


def _get(version: str, names: Sequence[str], get: Callable[[Sequence[str]], Binaries]) -> int:
    try:
        release, wanted = find_release(version), check_names(names or STANDARD)
    except BinariesError as error:
        raise UserError(str(error)) from None
    there = [name for name in wanted if cache.Shelf(release.folder(name)).has(name)]
    if there and len(there) < len(wanted):
        say(f"in the cache already: {', '.join(there)}")
    try:
        with stoppable():
            found = get(wanted)
    except BinariesError as error:
        say(str(error))
        return _COULD_NOT
    except KeyboardInterrupt:
        raise click.Abort from None
    if len(there) == len(wanted):
        say("all in the cache already")
    write_out("".join(f"{found.path(name)}\n" for name in wanted))
    return 0


@command.command("prune", short_help="Remove binaries from the cache.")
@click.option("--version", metavar="VERSION", help="This version: 1.36, 1.36.3, or etcd-v3.7.3.")
@click.option("--all", "everything", is_flag=True, help="Everything.")
@click.option(
    "--older-than-known", "others", is_flag=True, help='What is not among the known versions of "list".'
)
@click.option("--dry-run", is_flag=True, help="Only tell what would be removed.")
def prune(version: str | None, everything: bool, others: bool, dry_run: bool) -> int:
    """Remove binaries from the cache, never those that a cluster or another run is using.

    The exit code is 1 when something was left because it is in use.
    """
    if sum((version is not None, everything, others)) != 1:
        raise UserError("which ones? Give one of --version VERSION, --all and --older-than-known")
    try:
        chosen = _chosen(version, others)
        if not chosen:
            say("nothing to remove")
        left = [shelf for shelf in chosen if not _remove(shelf, dry_run)]
        return int(bool(left))
    except (BinariesError, OSError) as error:
        say(str(error))
        return _COULD_NOT


def _chosen(version: str | None, others: bool) -> list[cache.Shelf]:
    shelves = cache.shelves()
    if others:
        known = {release.folder(name) for release in RELEASES.values() for name in NAMES} | _SHELVES
        return [shelf for shelf in shelves if shelf.version not in known]
    if version is None:
        return shelves
    exact = f"v{version}" if version[:1].isdigit() else version
    chosen = [shelf for shelf in shelves if shelf.version == exact or shelf.version.startswith(f"{exact}.")]
    if not chosen:
        there = ", ".join(shelf.version for shelf in shelves) or "nothing"
        raise UserError(f'the cache holds no version "{version}"; it holds {there}')
    return chosen


def _remove(shelf: cache.Shelf, dry_run: bool) -> bool:
    freed = shelf.prunable() if dry_run else shelf.prune()
    if freed is None:
        write_out(f"{shelf.version}: in use, left\n")
        return False
    write_out(f"{shelf.version}: {_mega(freed)} {'would be ' if dry_run else ''}freed\n")
    return True
