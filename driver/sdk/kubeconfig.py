"""Who the driver is towards the API server, from a kubeconfig or the service account of its pod."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import yaml

from driver.sdk import log
from driver.sdk.errors import SettingsError
from node_api.access import credentials, proxy
from node_api.access.credentials import Credentials, TokenFile
from node_api.access.errors import AccessError

_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def load(kubeconfig: Path | None) -> Credentials:
    """The credentials of a kubeconfig file; None: the service account of the pod.

    Raises:
        SettingsError: naming the file and what is wrong with it.
    """
    where = f"--kubeconfig {kubeconfig or '(service account of the pod)'}"
    try:
        return _in_pod() if kubeconfig is None else _from_file(kubeconfig)
    except (AccessError, OSError, KeyError, ValueError, yaml.YAMLError) as problem:
        text = " ".join(str(problem).split())
        raise SettingsError(f"{where}: {text}") from problem


def _in_pod() -> Credentials:
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    trust = credentials.trusted({"certificate-authority": "ca.crt"}, _ACCOUNT)
    token = TokenFile(_ACCOUNT / "token", warn=_warn)
    return Credentials(server, trust, token, proxy=proxy.for_server(server))


def _from_file(path: Path) -> Credentials:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    document = yaml.load(path.read_bytes(), Loader=loader)  # noqa: S506 - a safe loader
    if not isinstance(document, dict):
        raise AccessError("not a kubeconfig: must be a mapping")
    return credentials.of_context(document, path, str(document.get("current-context") or ""), _warn)


def _warn(problem: str) -> None:
    log.warning("token not read, the last one is used", problem=problem)
