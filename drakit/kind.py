"""`drakit kind`: what clusters of the tier kind are made with."""

from __future__ import annotations

import json

import click

from clusters.interface import ClusterError
from drakit.interrupt import stoppable
from drakit.output import UserError, say, write_out

_COULD_NOT = 1


@click.group("kind")
def command() -> None:
    """What clusters of --tier kind are made with.

    A kind cluster needs a container engine and a node image. kind's own image is pulled where there is a way to its
    registry; "build-image" makes one without. docs/kind.md tells more.
    """


@command.command("build-image")
@click.option(
    "--kubernetes-version",
    "version",
    metavar="VERSION",
    default="1.37",
    show_default=True,
    help="1.36, or 1.36.3.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def build_image(version: str, as_json: bool) -> int:
    """Make a node image of Debian packages and of programs built with Go.

    It needs root, debootstrap, Go, and the mirrors of both. The first one takes a quarter of an hour on two cores; one
    that is there already is left as it is. Prints the image's name.
    """
    # Imported here, so that help does not wait for it.
    from clusters.binaries.releases import find_release
    from clusters.kind import engine, image

    try:
        release = find_release(version)
    except ClusterError as error:
        raise UserError(str(error)) from None
    try:
        with stoppable(), engine.find(say) as found:
            tag = image.build_image(found, version, say)
            identity = found.run("image", "inspect", "--format", "{{.Id}} {{.Size}}", tag).split()
    except ClusterError as error:
        say(str(error))
        return _COULD_NOT
    except KeyboardInterrupt:
        raise click.Abort from None
    document = {
        "image": tag,
        "id": identity[0],
        "bytes": int(identity[1]),
        "kubernetes": release.kubernetes,
    }
    write_out(json.dumps(document, indent=2) + "\n" if as_json else f"{tag}\n")
    return 0
