"""An API server alone on the kind tier: one more API server in the control plane of a kind cluster.

It keeps its objects below a prefix of its own in the cluster's etcd. Neither scheduler, controllers nor kubelets know
it, so that the kit can take their place, while tests use the whole cluster at the same time.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from clusters.base import Begun, StartedCluster
from clusters.interface import ClusterError, ClusterSpec, Component
from clusters.kind import access
from clusters.kind.cluster import KindCluster
from clusters.kind.components import ASIDE, MANIFESTS, StaticPod
from clusters.kind.config import BARE_PORT
from clusters.kind.node import KindNode

_NAME: Final = "kube-apiserver-bare"
# With a path, so that its command line does not begin like that of the cluster's own.
_PROGRAM: Final = "/usr/local/bin/kube-apiserver"
_READY_SECONDS: Final = 240
_HERE: Final = f"https://127.0.0.1:{BARE_PORT}"

# kubeadm's super-admin is one by its group; its other administrator by a binding, which this server does not have.
_READY: Final = """
k="kubectl --kubeconfig=/etc/kubernetes/super-admin.conf --server=$1"
until $k get --raw /readyz >/dev/null 2>&1 && $k get namespace kube-system >/dev/null 2>&1; do sleep 0.2; done
"""


class BareCluster(StartedCluster[KindNode]):
    """A running API server beside a whole cluster, which outlives it."""

    CAPABILITIES = KindCluster.CAPABILITIES

    def __init__(
        self,
        spec: ClusterSpec,
        host: KindCluster,
        *,
        owns_host: bool = False,
        begun: Begun | None = None,
        progress: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Start it in the control plane of `host`, which ends with it when it is its own. Raises ClusterError."""
        super().__init__(spec)
        self._host = host
        self._owns_host = owns_host
        self._progress = progress
        self._token = ""
        self._apiserver: StaticPod | None = None
        self._begin(begun)

    def _start(self, logs: Path) -> None:
        host = self._host
        run = host.control_plane
        self._progress("starting an API server beside the cluster")
        manifest = bare_manifest(
            run("cat", f"{MANIFESTS}/kube-apiserver.yaml"), prefix=f"/drakit-{secrets.token_hex(4)}"
        )
        # The folder of the node has the same path inside.
        file = host.control_plane_root / f"{_NAME}.yaml"
        file.write_text(manifest, encoding="utf-8")
        run("sh", "-c", 'mkdir -p "$1" && cp "$2" "$1"', "sh", ASIDE, str(file))
        self._apiserver = StaticPod(_NAME, run, process=_PROGRAM)
        self._apiserver.start()
        try:
            run(
                "timeout", str(_READY_SECONDS), "sh", "-c", _READY, "sh", _HERE, timeout=_READY_SECONDS + 10.0
            )
        except ClusterError:
            last = "\n  ".join(self._apiserver.logs()[-5:])
            raise ClusterError(
                f"the API server beside the cluster does not serve; its last lines:\n  {last}"
            ) from None
        self._token = access.admin_token(run, _HERE)
        self._connect(host.ca_pem, self._token)

    @property
    def url(self) -> str:
        """Where the API server listens."""
        return f"https://127.0.0.1:{self._host.published_port}"

    def component(self, name: str) -> Component:
        """`apiserver`."""
        if name != "apiserver" or self._apiserver is None:
            raise ValueError(f'no component "{name}": this cluster has an API server alone')
        return self._apiserver

    def components(self) -> Mapping[str, Component]:
        """The API server."""
        return {"apiserver": self.component("apiserver")}

    def _tokens_in_use(self) -> Sequence[str]:
        return (self._token,) if self._token else ()

    def _end(self, stack: contextlib.ExitStack) -> None:
        if self._owns_host:
            stack.callback(self._host.close)
        elif self._apiserver is not None:
            stack.callback(_quietly, self._apiserver.kill)


def bare_manifest(manifest: str, *, prefix: str) -> str:
    """The manifest of the second API server from that of the first; `prefix` is where etcd keeps its objects.

    Raises ClusterError for a manifest of another form than kubeadm's.
    """
    try:
        pod: dict[str, Any] = yaml.safe_load(manifest)
        [container] = pod["spec"]["containers"]
        own_flags = {
            "--secure-port": str(BARE_PORT),
            "--etcd-prefix": prefix,
            "--endpoint-reconciler-type": "none",
            # Nobody makes the service accounts that it asks for.
            "--disable-admission-plugins": "ServiceAccount",
        }
        kept = [word for word in container["command"][1:] if word.partition("=")[0] not in own_flags]
        container["command"] = [_PROGRAM, *kept, *(f"{name}={value}" for name, value in own_flags.items())]
        container["name"] = pod["metadata"]["name"] = _NAME
        pod["metadata"]["labels"] = {"component": _NAME, "tier": "control-plane"}
        # A busy machine is waited for; what has ended is started again all the same.
        for probe in ("livenessProbe", "readinessProbe", "startupProbe", "ports", "resources"):
            container.pop(probe, None)
    except (yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise ClusterError(f"the manifest of the API server is not as kubeadm writes it: {error!r}") from None
    return yaml.safe_dump(pod)


def _quietly(action: Callable[[], None]) -> None:
    """What cannot be ended now ends with its cluster."""
    with contextlib.suppress(ClusterError):
        action()
