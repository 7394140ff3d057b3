"""Which cluster of the user's is meant, and who the kit is there, from a kubeconfig file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clusters.client import Client, Credentials
from clusters.document import DocumentError, did_you_mean, load_yaml
from clusters.interface import ClusterError
from node_api.access import credentials
from node_api.access.errors import AccessError


@dataclass(frozen=True)
class Connection:
    """A cluster as a context of a kubeconfig names it: where it is, and who the kit is there."""

    context: str
    server: str
    credentials: Credentials

    def client(self) -> Client:
        """A client of this identity."""
        return Client.of(self.server, self.credentials)


def load(path: Path, context: str = "") -> Connection:
    """Read a kubeconfig; without `context` its current one is used. Raises ClusterError naming file and mistake."""
    try:
        return _load(path, context)
    except DocumentError as error:
        raise ClusterError(f"--kubeconfig {error}") from None
    except (AccessError, OSError, ValueError) as error:
        text = " ".join(str(error).split())
        raise ClusterError(f"--kubeconfig {path}: {text}") from None


def _load(path: Path, wanted: str) -> Connection:
    document = load_yaml(path)
    if not isinstance(document, dict) or not {"clusters", "contexts", "current-context"} & set(document):
        raise AccessError("not a kubeconfig: there are neither clusters nor contexts in it")
    names = _contexts(document)
    name = wanted or str(document.get("current-context") or "")
    if not name:
        raise AccessError(
            f"it has no current-context; choose one with --context: {', '.join(names) or 'it has none'}"
        )
    if name not in names:
        whose = "--context" if wanted else "current-context"
        there = ", ".join(names) or "none"
        raise AccessError(f'{whose} "{name}": no such context{did_you_mean(name, names)}; there is {there}')
    found = credentials.of_context(document, path, name)
    # A token file that is not there is told before anything begins.
    found.token()
    return Connection(
        name,
        found.server,
        Credentials(
            ssl_context=found.ssl_context,
            token=found.token,
            server_name=found.server_name,
            proxy=found.proxy,
        ),
    )


def _contexts(document: Mapping[str, Any]) -> Sequence[str]:
    entries = document.get("contexts")
    found = (
        [entry.get("name") for entry in entries if isinstance(entry, dict)]
        if isinstance(entries, list)
        else []
    )
    return [str(name) for name in found if name]
