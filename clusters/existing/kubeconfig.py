"""Who the kit is towards a cluster of the user's, from a kubeconfig file.

The plain kinds of credentials (token, token file, client certificate) are read here; everything else (exec plugins,
auth providers) is left to the `kubernetes` package, whose import takes its time.
"""

from __future__ import annotations

import base64
import binascii
import logging
import os
import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from clusters.client import Client, Credentials
from clusters.document import DocumentError, did_you_mean, load_yaml
from clusters.existing import proxy
from clusters.interface import ClusterError

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


@dataclass(frozen=True)
class Connection:
    """A cluster as a context of a kubeconfig names it: where it is, and who the kit is there."""

    context: str
    server: str
    credentials: Credentials

    def client(self) -> Client:
        """A client of this identity."""
        return Client.of(self.server, self.credentials)


class _TokenFile:
    """A token that is read anew for each request, because it is rotated."""

    def __init__(self, path: Path, fallback: str) -> None:
        self._path = path
        self._last = fallback

    def __call__(self) -> str:
        """The token of the file, or the last good one. Raises OSError when there has never been one."""
        problem = "must hold one line of printable ASCII characters"
        try:
            found = self._path.read_text(encoding="ascii", errors="replace").strip()
            if _TOKEN.match(found):
                self._last, problem = found, ""
        except OSError as error:
            problem = str(error.strerror)
        if problem and not self._last:
            raise OSError(f"token file {self._path}: {problem}")
        return self._last


def load(path: Path, context: str = "") -> Connection:
    """Read a kubeconfig; without `context` its current one is used. Raises ClusterError naming file and mistake."""
    try:
        return _load(path, context)
    except DocumentError as error:
        raise ClusterError(f"--kubeconfig {error}") from None
    except (ClusterError, OSError, ValueError) as error:
        text = " ".join(str(error).split())
        raise ClusterError(f"--kubeconfig {path}: {text}") from None


def _load(path: Path, wanted: str) -> Connection:
    document = load_yaml(path)
    if not isinstance(document, dict) or not {"clusters", "contexts", "current-context"} & set(document):
        raise ClusterError("not a kubeconfig: there are neither clusters nor contexts in it")
    names = _names(document, "contexts")
    name = wanted or str(document.get("current-context") or "")
    if not name:
        raise ClusterError(
            f"it has no current-context; choose one with --context: {', '.join(names) or 'it has none'}"
        )
    if name not in names:
        whose = "--context" if wanted else "current-context"
        there = ", ".join(names) or "none"
        raise ClusterError(f'{whose} "{name}": no such context{did_you_mean(name, names)}; there is {there}')
    context = _entry(document, "contexts", "context", name)
    cluster = _entry(document, "clusters", "cluster", str(context.get("cluster") or ""))
    user = _entry(document, "users", "user", str(context.get("user") or ""))
    server = str(cluster.get("server") or "").rstrip("/")
    if not re.match(r"https?://[^/\s]", server):
        raise ClusterError(f'server "{server}" of context {name}: must be a URL that begins with https://')
    if given := [field for field in _IMPERSONATION if user.get(field)]:
        raise ClusterError(
            f"{given[0]}: acting as somebody else is not supported; give that account's own credentials"
        )
    trust = _ssl_context(cluster, path.parent)
    through = str(cluster.get("proxy-url") or "")
    credentials = Credentials(
        ssl_context=trust,
        token=_token(user, path, name, trust),
        server_name=str(cluster.get("tls-server-name") or ""),
        proxy=proxy.given(through) if through else proxy.for_server(server),
    )
    return Connection(name, server, credentials)


def _token(user: Mapping[str, Any], path: Path, context: str, trust: ssl.SSLContext) -> Callable[[], str]:
    """Where the user's token comes from; a client certificate goes into the TLS context."""
    if not set(user) <= _PLAIN:
        return _by_package(path, context, trust)
    if user.get("client-certificate") or user.get("client-certificate-data"):
        _client_certificate(trust, user, path.parent)
    token = str(user.get("token") or "").strip()
    if token and not _TOKEN.match(token):
        raise ClusterError("token: must be one line of printable ASCII characters")
    if user.get("tokenFile"):
        source = _TokenFile(path.parent / str(user["tokenFile"]), token)
        source()
        return source
    return lambda: token


def _names(document: Mapping[str, Any], section: str) -> Sequence[str]:
    entries = document.get(section)
    found = (
        [entry.get("name") for entry in entries if isinstance(entry, dict)]
        if isinstance(entries, list)
        else []
    )
    return [str(name) for name in found if name]


def _entry(document: Mapping[str, Any], section: str, key: str, name: str) -> Mapping[str, Any]:
    entries = document.get(section)
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("name") == name:
            value = entry.get(key)
            return value if isinstance(value, dict) else {}
    raise ClusterError(f'no entry "{name}" in {section}')


def _ssl_context(cluster: Mapping[str, Any], folder: Path) -> ssl.SSLContext:
    data, file = cluster.get("certificate-authority-data"), cluster.get("certificate-authority")
    try:
        if data:
            text = _decoded(data, "certificate-authority-data").decode("ascii")
            context = ssl.create_default_context(cadata=text)
        elif file:
            context = ssl.create_default_context(cafile=str(folder / str(file)))
        else:
            context = ssl.create_default_context()
    except FileNotFoundError:
        raise ClusterError(f"certificate-authority: no file {folder / str(file)}") from None
    except (ssl.SSLError, UnicodeDecodeError) as error:
        field = "certificate-authority-data" if data else f"certificate-authority {folder / str(file)}"
        raise ClusterError(f"{field}: no PEM certificates: {error}") from None
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
                raise ClusterError(f"the user has a client certificate but no {name}")
            os.write(descriptor, _part(data, name, folder / str(user.get(name))).rstrip() + b"\n")
        try:
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        except ssl.SSLError as error:
            raise ClusterError(
                f"client-certificate and client-key: not a pair of PEM texts: {error}"
            ) from None
    finally:
        os.close(descriptor)


def _part(data: object, name: str, path: Path) -> bytes:
    if data:
        return _decoded(data, f"{name}-data")
    try:
        return path.read_bytes()
    except OSError as error:
        raise ClusterError(f"{name} {path}: {error.strerror}") from None


def _decoded(value: object, field: str) -> bytes:
    try:
        return base64.b64decode(str(value), validate=True)
    except binascii.Error as error:
        raise ClusterError(f"{field}: not base64: {error}") from None


class _Heard(logging.Handler):
    """Collects what the package only logs when a plugin does not work."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the text."""
        self.lines.append(record.getMessage())


def _by_package(path: Path, context: str, trust: ssl.SSLContext) -> Callable[[], str]:
    from kubernetes import client, config

    settings = client.Configuration()
    said = _Heard()
    logging.getLogger().addHandler(said)
    try:
        config.load_kube_config(  # type: ignore[no-untyped-call]
            str(path), context=context, client_configuration=settings, persist_config=False
        )
    except Exception as error:  # noqa: BLE001 - plugins of the user's may raise whatever they like
        raise ClusterError(str(error) or type(error).__name__) from None
    finally:
        logging.getLogger().removeHandler(said)
    if settings.cert_file:
        trust.load_cert_chain(settings.cert_file, settings.key_file)

    def token() -> str:
        # Asks for a new one when the old one expires. Releases of the package differ in the name of this entry
        # and in whether the scheme is part of it.
        try:
            found = settings.get_api_key_with_prefix("BearerToken", "authorization") or ""
        except Exception as error:  # noqa: BLE001 - as above
            raise OSError(f"no token: {error}") from None
        return str(found).removeprefix("Bearer ")

    if not settings.cert_file and not token():
        why = f": {said.lines[-1]}" if said.lines else ""
        raise ClusterError(f"its user has credentials that give neither a token nor a certificate{why}")
    return token
