"""How the kit gets to the API server of a kind cluster: as an administrator with a token of its own."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from clusters.interface import ClusterError
from clusters.kind.components import Run

ACCOUNT: Final = "drakit-admin"
_NAMESPACE: Final = "kube-system"
# As long as the certificates of the cluster.
_VALID: Final = "8760h"

# Each is made anew for an API server whose objects were kept; without the namespace, which the server makes itself a
# moment after it serves, it fails and is tried again by the caller.
_SCRIPT: Final = """
set -e
k="kubectl --kubeconfig=/etc/kubernetes/super-admin.conf --server=$1"
$k get serviceaccount "$2" -n "$3" >/dev/null 2>&1 || $k create serviceaccount "$2" -n "$3" >/dev/null
$k get clusterrolebinding "$2" >/dev/null 2>&1 ||
  $k create clusterrolebinding "$2" --clusterrole=cluster-admin --serviceaccount="$3:$2" >/dev/null
exec $k create token "$2" -n "$3" --duration="$4"
"""


@dataclass(frozen=True)
class Server:
    """Where an API server is reached from this machine, and the authority that signed its certificate."""

    url: str
    ca_pem: bytes


def read(kubeconfig: Path) -> Server:
    """What kind wrote about the API server. Raises ClusterError."""
    try:
        document = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
        cluster = document["clusters"][0]["cluster"]
        return Server(cluster["server"], base64.b64decode(cluster["certificate-authority-data"]))
    except (OSError, ValueError, KeyError, IndexError, TypeError, yaml.YAMLError) as error:
        raise ClusterError(f"kind wrote no kubeconfig that can be read: {error!r}") from None


def admin_token(run: Run, server: str) -> str:
    """A token of a service account that may do everything, which is made unless it is there.

    A token works for every client of the kit and for kubectl, through proxies as well; kind's own administrator has a
    client certificate. `run` runs commands in the control plane, `server` is the API server's address there.
    Raises ClusterError.
    """
    return run("sh", "-c", _SCRIPT, "sh", server, ACCOUNT, _NAMESPACE, _VALID).strip()
