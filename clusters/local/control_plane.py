"""How etcd, API server, controller manager and scheduler of a local cluster are started."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import yaml

from clusters import gates
from clusters.interface import ClusterError, ClusterSpec
from clusters.local import credentials, probes
from clusters.local.credentials import Credentials
from clusters.local.supervisor import Launch, Process
from clusters.tls import client_context

ISSUER: Final = "https://kubernetes.default.svc"
_HOST: Final = "127.0.0.1"
_SERVICES: Final = "10.96.0.0/16"
_OPEN_PATHS: Final = "--authorization-always-allow-paths=/healthz,/readyz,/livez"
# Seconds that each has for an orderly end. What etcd and the API server keep is thrown away with the cluster.
_ETCD_STOP, _API_STOP, _STOP = 2.0, 2.0, 5.0
# At its default rate of 20 requests a second the controller manager takes seconds to make the accounts of its
# controllers.
_MANAGER_RATE: Final = ("--kube-api-qps=200", "--kube-api-burst=400")


class Programs(Protocol):
    """Where the binaries are."""

    @property
    def version(self) -> str:
        """Of Kubernetes, such as v1.37.2."""
        ...

    def path(self, name: str) -> Path:
        """The absolute path of a binary."""
        ...


def feature_gates(spec: ClusterSpec) -> Mapping[str, bool]:
    """What to set so that the choice holds. Raises GateError."""
    return gates.settings(dict(spec.gates), spec.version)


def _served(spec: ClusterSpec) -> Mapping[str, bool]:
    """API versions other than by default: a component that cannot read what a gate needs waits for ever."""
    return gates.runtime_config(dict(spec.gates), spec.version) | dict(spec.runtime_config)


def _flag(name: str, pairs: Mapping[str, bool]) -> list[str]:
    text = ",".join(f"{key}={str(value).lower()}" for key, value in pairs.items())
    return [f"--{name}={text}"] if text else []


class ControlPlane:
    """The processes beside the nodes, and where they are reached."""

    def __init__(
        self,
        spec: ClusterSpec,
        programs: Programs,
        keys: Credentials,
        root: Path,
        make: Callable[..., Process],
        *,
        port: int,
        address: str,
    ) -> None:
        """`make` makes a Process of the cluster; `port` is that of the API server, 0 for a free one.

        `address` is one of this machine that others could reach, or "". Raises GateError, and ClusterError for a
        scheduler configuration that is none.
        """
        self._spec = spec
        self._programs = programs
        self._keys = keys
        self._root = root
        self._wanted_port = port
        self._address = address
        self._gates = _flag("feature-gates", feature_gates(spec))
        self._tls: ssl.SSLContext = client_context(keys.authority.pem)
        self._scheduler_config = _scheduler_config(spec.scheduler_config)
        self._ports: dict[str, int] = {}
        self.etcd = make("etcd", self._etcd, stop_seconds=_ETCD_STOP)
        self.apiserver = make("apiserver", self._apiserver, stop_seconds=_API_STOP)
        self.controller_manager = make("controller-manager", self._controller_manager, stop_seconds=_STOP)
        self.scheduler = make("scheduler", self._scheduler, stop_seconds=_STOP)

    @property
    def url(self) -> str:
        """Where the API server listens."""
        return f"https://{_HOST}:{self._ports['apiserver']}"

    def _port(self, process: Process) -> int:
        """The port that it had before, or a free one while it has never served."""
        if process.name not in self._ports or not process.has_served:
            self._ports[process.name] = probes.free_port()
        return self._ports[process.name]

    def _etcd(self) -> Launch:
        # Sockets in the cluster's own folder: who could talk to etcd could do everything.
        client, peer = (f"unix://{self._root / name}" for name in ("etcd.sock", "peer.sock"))
        command = [
            str(self._programs.path("etcd")),
            "--name=drakit",
            f"--data-dir={self._root / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=drakit={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]
        return Launch(command, probes.unix(self._root / "etcd.sock"))

    def _apiserver(self) -> Launch:
        keys = self._keys
        if self._wanted_port:
            self._ports["apiserver"] = self._wanted_port
        port = self._wanted_port or self._port(self.apiserver)
        certificate, key = keys.apiserver
        client_certificate, client_key = keys.kubelet_client
        proxy_certificate, proxy_key = keys.front_proxy
        command = [
            str(self._programs.path("kube-apiserver")),
            f"--etcd-servers=unix://{self._root / 'etcd.sock'}",
            f"--bind-address={_HOST}",
            f"--secure-port={port}",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            f"--client-ca-file={keys.ca}",
            f"--token-auth-file={keys.tokens}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            f"--service-account-issuer={ISSUER}",
            f"--service-account-key-file={keys.service_account_public_key}",
            f"--service-account-signing-key-file={keys.service_account_key}",
            f"--service-cluster-ip-range={_SERVICES}",
            f"--kubelet-certificate-authority={keys.ca}",
            f"--kubelet-client-certificate={client_certificate}",
            f"--kubelet-client-key={client_key}",
            "--kubelet-preferred-address-types=InternalIP",
            f"--requestheader-client-ca-file={keys.front_proxy_ca}",
            f"--requestheader-allowed-names={credentials.FRONT_PROXY}",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={proxy_certificate}",
            f"--proxy-client-key-file={proxy_key}",
            "--allow-privileged=true",
            "--profiling=false",
            *self._gates,
            *_flag("runtime-config", _served(self._spec)),
        ]
        if not self._spec.control_plane:
            # Nobody makes the service accounts that it asks for.
            command.append("--disable-admission-plugins=ServiceAccount")
        if not self._address:
            command += [f"--advertise-address={_HOST}", "--endpoint-reconciler-type=none"]
        url = f"https://{_HOST}:{port}/readyz"
        return Launch(command, probes.https(url, self._tls, keys.token(credentials.ADMIN)))

    def _serving(self, process: Process) -> tuple[list[str], str]:
        port = self._port(process)
        certificate, key = self._keys.serving
        flags = [
            f"--bind-address={_HOST}",
            f"--secure-port={port}",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            _OPEN_PATHS,
        ]
        return flags, f"https://{_HOST}:{port}"

    def _controller_manager(self) -> Launch:
        keys = self._keys
        config = keys.kubeconfig(credentials.CONTROLLER_MANAGER, self.url)
        flags, url = self._serving(self.controller_manager)
        command = [
            str(self._programs.path("kube-controller-manager")),
            f"--kubeconfig={config}",
            f"--authentication-kubeconfig={config}",
            f"--authorization-kubeconfig={config}",
            *flags,
            "--leader-elect=false",
            "--use-service-account-credentials=true",
            f"--root-ca-file={keys.ca}",
            f"--service-account-private-key-file={keys.service_account_key}",
            "--profiling=false",
            *_MANAGER_RATE,
            *self._gates,
        ]
        return Launch(command, probes.https(f"{url}/healthz", self._tls))

    def _scheduler(self) -> Launch:
        config = self._keys.kubeconfig(credentials.SCHEDULER, self.url)
        document = {
            **self._scheduler_config,
            "clientConnection": {
                **(self._scheduler_config.get("clientConnection") or {}),
                "kubeconfig": str(config),
            },
            "leaderElection": {"leaderElect": False},
        }
        path = credentials.write(self._root / "scheduler.yaml", yaml.safe_dump(document).encode())
        flags, url = self._serving(self.scheduler)
        command = [
            str(self._programs.path("kube-scheduler")),
            f"--config={path}",
            f"--authentication-kubeconfig={config}",
            f"--authorization-kubeconfig={config}",
            *flags,
            *self._gates,
        ]
        return Launch(command, probes.https(f"{url}/healthz", self._tls))


def _scheduler_config(text: str) -> dict[str, Any]:
    try:
        document = yaml.safe_load(text) if text.strip() else {}
    except yaml.YAMLError as error:
        raise ClusterError(f"the scheduler configuration is no YAML: {error}") from None
    if not isinstance(document, dict):
        raise ClusterError("the scheduler configuration must be a KubeSchedulerConfiguration")
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        **document,
    }
