"""`drakit rbac`: the least rights that a run on a cluster of the user's needs, as manifests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click
import yaml

from clusters import descriptor as descriptors
from clusters.descriptor import Descriptor, Rule
from clusters.document import DocumentError
from clusters.existing import rights
from clusters.existing.settings import parse_reference
from clusters.interface import ClusterError
from conformance import catalogue
from drakit.output import UserError, write_out

_API = "rbac.authorization.k8s.io/v1"
_GROUP = "rbac.authorization.k8s.io"
_ROLES = ("Role", "ClusterRole")
Object = dict[str, Any]


@click.command("rbac")
@click.argument("driver", required=False, type=click.Path(path_type=Path), metavar="[DRIVER.yaml]")
@click.option("--name", default="drakit", show_default=True, help="Name of the account and of its roles.")
@click.option("--namespace", default="default", show_default=True, help="Namespace of the account.")
@click.option(
    "--image-pull-secret",
    "pull_secret",
    metavar="NAMESPACE/NAME",
    default="",
    help="With the rights to copy this Secret, as for conformance.",
)
def command(driver: Path | None, name: str, namespace: str, pull_secret: str) -> int:
    """Print the least rights that `drakit conformance --kubeconfig` needs, for kubectl apply.

    A ServiceAccount, a ClusterRole and its binding (docs/existing.md). With DRIVER.yaml whose manifests install the
    driver, the rights to make and remove these are among them.
    """
    try:
        secret = parse_reference(pull_secret) if pull_secret else None
        subject = descriptors.load(driver, catalogue.capabilities()) if driver is not None else None
        objects = account(name, namespace, secret, subject)
    except (DocumentError, ClusterError) as error:
        raise UserError(str(error)) from None
    write_out(yaml.safe_dump_all(objects, sort_keys=False))
    return 0


def account(
    name: str, namespace: str, secret: tuple[str, str] | None = None, subject: Descriptor | None = None
) -> list[Object]:
    """The manifests. Raises ClusterError for a driver whose manifests cannot be read."""
    rules = [*(rule.as_dict() for rule in rights.RULES), dict(rights.METRICS)]
    if secret is not None:
        rules.append(rights.COPY_SECRET.as_dict())
    if subject is not None and subject.manifests:
        rules += _installing(subject)
    who = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    objects: list[Object] = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}},
        {"apiVersion": _API, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules},
        {
            "apiVersion": _API,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": name},
            "subjects": [who],
        },
    ]
    if secret is not None:
        where = {"name": f"{name}-pull-secret", "namespace": secret[0]}
        read = rights.read_secret(secret[1])
        objects += [
            {"apiVersion": _API, "kind": "Role", "metadata": where, "rules": [read.as_dict()]},
            {
                "apiVersion": _API,
                "kind": "RoleBinding",
                "metadata": where,
                "roleRef": {"apiGroup": _GROUP, "kind": "Role", "name": where["name"]},
                "subjects": [who],
            },
        ]
    return objects


def _installing(subject: Descriptor) -> list[Object]:
    """The rights to make and remove the objects of a driver's manifests.

    Whoever makes a role has to have what it gives, and whoever binds one, too.
    """
    from clusters.existing import install

    objects = install.read(subject.manifests)
    kinds = sorted({(_group(obj["apiVersion"]), _plural(obj["kind"])) for obj in objects})
    rules = [Rule((group,), (resource,), ("create", "delete", "list")).as_dict() for group, resource in kinds]
    for obj in objects:
        if obj["kind"] in _ROLES:
            rules += [dict(rule) for rule in _given(obj)]
    return rules


def _given(role: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return role.get("rules") or []


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def _plural(kind: str) -> str:
    """The resource of a kind, as those of Kubernetes and of nearly all others are named."""
    word = kind.lower()
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "ch", "sh")) else f"{word}s"
