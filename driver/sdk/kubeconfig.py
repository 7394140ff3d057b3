"""Who the driver is towards the API server, from a kubeconfig or the service account of its pod.

The plain kinds of credentials (token, token file, client certificate) are read here. Everything else (exec plugins,
auth providers) is left to the `kubernetes` package, whose import takes most of a second of CPU time: too long for a
driver that every Pod start on its node waits for.
"""

from __future__ import annotations

import base64
import binascii
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from driver.sdk.errors import SettingsError

_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_PLAIN: Final = {
    "token",
    "tokenFile",
    "client-certificate",
    "client-certificate-data",
    "client-key",
    "client-key-data",
}


@dataclass(frozen=True)
class Credentials:
    """Where the API server is and how to talk to it. A token file is read anew for each request: it is rotated."""

    server: str
    ssl_context: ssl.SSLContext
    token: str = ""
    token_file: Path | None = None

    def headers(self) -> dict[str, str]:
        """The Authorization header, if a token is used. OSError if the token file cannot be read."""
        token = self.token if self.token_file is None else self.token_file.read_text(encoding="ascii").strip()
        return {"Authorization": f"Bearer {token}"} if token else {}


def load(kubeconfig: Path | None) -> Credentials:
    """The credentials of a kubeconfig file; None: the service account of the pod.

    Raises:
        SettingsError: naming the file and what is wrong with it.
    """
    where = f"--kubeconfig {kubeconfig or '(service account of the pod)'}"
    try:
        return _in_pod() if kubeconfig is None else _from_file(kubeconfig)
    except SettingsError as problem:
        raise SettingsError(f"{where}: {problem}") from None
    except (OSError, ValueError, yaml.YAMLError) as problem:
        text = " ".join(str(problem).split())
        raise SettingsError(f"{where}: {text}") from problem


def _in_pod() -> Credentials:
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    address = f"[{host}]" if ":" in host else host
    context = ssl.create_default_context(cafile=str(_ACCOUNT / "ca.crt"))
    return Credentials(f"https://{address}:{port}", context, token_file=_ACCOUNT / "token")


def _from_file(path: Path) -> Credentials:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    document = yaml.load(path.read_bytes(), Loader=loader)  # noqa: S506 - a safe loader
    if not isinstance(document, dict):
        raise SettingsError("not a kubeconfig: must be a mapping")
    context = _entry(document, "contexts", "context", str(document.get("current-context") or ""))
    cluster = _entry(document, "clusters", "cluster", str(context.get("cluster") or ""))
    user = _entry(document, "users", "user", str(context.get("user") or ""))
    server = str(cluster.get("server") or "")
    if not server:
        raise SettingsError("the cluster of the current context has no server")
    if not set(user) <= _PLAIN:
        return _by_package(path)
    token_file = user.get("tokenFile")
    return Credentials(
        server=server.rstrip("/"),
        ssl_context=_ssl_context(cluster, user, path.parent),
        token=str(user.get("token") or ""),
        token_file=path.parent / str(token_file) if token_file and not user.get("token") else None,
    )


def _entry(document: Mapping[str, Any], section: str, key: str, name: str) -> Mapping[str, Any]:
    entries = document.get(section)
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("name") == name:
            value = entry.get(key)
            return value if isinstance(value, dict) else {}
    raise SettingsError(f'no entry "{name}" in {section}')


def _ssl_context(cluster: Mapping[str, Any], user: Mapping[str, Any], folder: Path) -> ssl.SSLContext:
    authority = cluster.get("certificate-authority-data")
    if authority:
        context = ssl.create_default_context(
            cadata=_decoded(authority, "certificate-authority-data").decode("ascii")
        )
    elif cluster.get("certificate-authority"):
        context = ssl.create_default_context(cafile=str(folder / str(cluster["certificate-authority"])))
    else:
        context = ssl.create_default_context()
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if user.get("client-certificate") or user.get("client-certificate-data"):
        _client_certificate(context, user, folder)
    return context


def _client_certificate(context: ssl.SSLContext, user: Mapping[str, Any], folder: Path) -> None:
    if user.get("client-certificate") and user.get("client-key"):
        context.load_cert_chain(folder / str(user["client-certificate"]), folder / str(user["client-key"]))
        return
    # The library reads certificates from files only; the key must not stay on disk.
    descriptor = os.memfd_create("client-certificate", os.MFD_CLOEXEC)
    try:
        for name in ("client-certificate", "client-key"):
            data = user.get(f"{name}-data")
            part = _decoded(data, f"{name}-data") if data else (folder / str(user[name])).read_bytes()
            os.write(descriptor, part.rstrip() + b"\n")
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    except KeyError as problem:
        raise SettingsError(f"the user has a client certificate but no {problem}") from None
    finally:
        os.close(descriptor)


def _decoded(value: object, field: str) -> bytes:
    try:
        return base64.b64decode(str(value), validate=True)
    except binascii.Error as problem:
        raise SettingsError(f"{field}: not base64: {problem}") from None


def _by_package(path: Path) -> Credentials:
    from kubernetes import client, config

    settings = client.Configuration()
    try:
        config.load_kube_config(str(path), client_configuration=settings, persist_config=False)  # type: ignore[no-untyped-call]
    except Exception as problem:
        raise SettingsError(str(problem)) from problem
    context = ssl.create_default_context(cafile=settings.ssl_ca_cert)
    if settings.cert_file:
        context.load_cert_chain(settings.cert_file, settings.key_file)
    # Releases of the package differ in the name of this entry and in whether the scheme is part of it.
    token = settings.get_api_key_with_prefix("BearerToken", "authorization") or ""
    return Credentials(str(settings.host).rstrip("/"), context, token=token.removeprefix("Bearer "))
