"""Who the driver is towards the API server, from a kubeconfig or the service account of its pod.

The plain kinds of credentials (token, token file, client certificate) are read here. Everything else (exec plugins,
auth providers) is left to the `kubernetes` package, whose import costs more CPU time than the rest of the start: too
much for a driver that every Pod start on its node waits for.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from driver.sdk import log, proxy
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


_IMPERSONATION: Final = ("as", "as-uid", "as-groups", "as-user-extra")
_TOKEN: Final = re.compile(r"[!-~]+\Z")


class TokenFile:
    """A token that is read anew for each request, because it is rotated."""

    def __init__(self, path: Path, fallback: str = "") -> None:
        """`fallback` is the token until the file can be read."""
        self._path = path
        self._last = fallback
        self._problem = ""

    def __call__(self) -> str:
        """The token of the file, or the last good one while there is none.

        Raises:
            OSError: if there has never been one. No text ever shows what is in the file.
        """
        problem = ""
        try:
            found = self._path.read_text(encoding="ascii", errors="replace").strip()
            if _TOKEN.match(found):
                self._last = found
            else:
                problem = f"token file {self._path}: must hold one line of printable ASCII characters"
        except OSError as error:
            problem = f"token file {self._path}: {error.strerror}"
        if problem and not self._last:
            raise OSError(problem)
        if problem and problem != self._problem:
            log.warning("token not read, the last one is used", problem=problem)
        self._problem = problem
        return self._last


@dataclass(frozen=True)
class Credentials:
    """Where the API server is and how to talk to it.

    `token` gives the bearer token for a request, "" for none. `server_name`: the name in the server's certificate
    if it is not the one of the address. `proxy`: URL of the HTTP proxy to go through, "" for none.
    """

    server: str
    ssl_context: ssl.SSLContext
    token: Callable[[], str]
    server_name: str | None = None
    proxy: str = ""

    def headers(self) -> dict[str, str]:
        """The Authorization header, if a token is used. OSError if the token cannot be had."""
        token = self.token()
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
    server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    context = _ssl_context({"certificate-authority": "ca.crt"}, _ACCOUNT)
    return Credentials(server, context, TokenFile(_ACCOUNT / "token"), proxy=proxy.for_server(server))


def _from_file(path: Path) -> Credentials:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    document = yaml.load(path.read_bytes(), Loader=loader)  # noqa: S506 - a safe loader
    if not isinstance(document, dict):
        raise SettingsError("not a kubeconfig: must be a mapping")
    context = _entry(document, "contexts", "context", str(document.get("current-context") or ""))
    cluster = _entry(document, "clusters", "cluster", str(context.get("cluster") or ""))
    user = _entry(document, "users", "user", str(context.get("user") or ""))
    server = str(cluster.get("server") or "").rstrip("/")
    if not server:
        raise SettingsError("the cluster of the current context has no server")
    if not re.match(r"https?://[^/\s]", server):
        raise SettingsError(f"server {server!r}: must be a URL that begins with https://")
    if given := [field for field in _IMPERSONATION if user.get(field)]:
        raise SettingsError(f"{given[0]}: acting as somebody else is not supported")
    trust = _ssl_context(cluster, path.parent)
    return Credentials(
        server=server,
        ssl_context=trust,
        token=_token(user, path, trust),
        server_name=str(cluster["tls-server-name"]) if cluster.get("tls-server-name") else None,
        proxy=proxy.given(str(cluster["proxy-url"]))
        if cluster.get("proxy-url")
        else proxy.for_server(server),
    )


def _token(user: Mapping[str, Any], path: Path, context: ssl.SSLContext) -> Callable[[], str]:
    """Where the user's token comes from; a client certificate goes into the context."""
    if not set(user) <= _PLAIN:
        return _by_package(path, context)
    if user.get("client-certificate") or user.get("client-certificate-data"):
        _client_certificate(context, user, path.parent)
    token = str(user.get("token") or "").strip()
    if token and not _TOKEN.match(token):
        raise SettingsError("token: must be one line of printable ASCII characters")
    if user.get("tokenFile"):
        return TokenFile(path.parent / str(user["tokenFile"]), token)
    return lambda: token


def _entry(document: Mapping[str, Any], section: str, key: str, name: str) -> Mapping[str, Any]:
    entries = document.get(section)
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("name") == name:
            value = entry.get(key)
            return value if isinstance(value, dict) else {}
    raise SettingsError(f'no entry "{name}" in {section}')


def _ssl_context(cluster: Mapping[str, Any], folder: Path) -> ssl.SSLContext:
    authority = cluster.get("certificate-authority-data")
    if authority:
        context = ssl.create_default_context(
            cadata=_decoded(authority, "certificate-authority-data").decode("ascii")
        )
    elif cluster.get("certificate-authority"):
        context = ssl.create_default_context(cafile=str(folder / str(cluster["certificate-authority"])))
    else:
        context = ssl.create_default_context()
    # Python 3.13 began to ask for extensions that the authorities of many clusters do not have.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _client_certificate(context: ssl.SSLContext, user: Mapping[str, Any], folder: Path) -> None:
    # The library reads certificates from files only; the key must not stay on disk.
    descriptor = os.memfd_create("client-certificate", os.MFD_CLOEXEC)
    try:
        for name in ("client-certificate", "client-key"):
            data = user.get(f"{name}-data")
            if not data and not user.get(name):
                raise SettingsError(f"the user has a client certificate but no {name}")
            part = _decoded(data, f"{name}-data") if data else (folder / str(user[name])).read_bytes()
            os.write(descriptor, part.rstrip() + b"\n")
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def _decoded(value: object, field: str) -> bytes:
    try:
        return base64.b64decode(str(value), validate=True)
    except binascii.Error as problem:
        raise SettingsError(f"{field}: not base64: {problem}") from None


def _by_package(path: Path, context: ssl.SSLContext) -> Callable[[], str]:
    from kubernetes import client, config

    settings = client.Configuration()
    try:
        config.load_kube_config(str(path), client_configuration=settings, persist_config=False)  # type: ignore[no-untyped-call]
    except Exception as problem:
        raise SettingsError(str(problem)) from problem
    if settings.cert_file:
        context.load_cert_chain(settings.cert_file, settings.key_file)

    def token() -> str:
        # Asks for a new one when the old one expires. Releases of the package differ in the name of this entry
        # and in whether the scheme is part of it.
        found = settings.get_api_key_with_prefix("BearerToken", "authorization") or ""
        return found.removeprefix("Bearer ")

    return token
