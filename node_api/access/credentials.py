"""Who one is towards an API server, from a kubeconfig.

The plain kinds of credentials (token, token file, client certificate) are read here; everything else (exec plugins,
auth providers) is left to the `kubernetes` package, whose import costs more CPU time than all the rest.
"""

from __future__ import annotations

import base64
import binascii
import logging
import os
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from node_api.access import proxy
from node_api.access.errors import AccessError

Warn = Callable[[str], None]

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
class Credentials:
    """Where an API server is and how to talk to it.

    `ssl_context` holds the authorities that are trusted and the client's certificate, if it has one. `token` gives the
    bearer token for a request, "" for none, and raises OSError when it cannot be had. `server_name` is the name in the
    server's certificate where it is not the one of the address, else "". `proxy` is the URL of the HTTP proxy to go
    through, "" for none.
    """

    server: str
    ssl_context: ssl.SSLContext
    token: Callable[[], str]
    server_name: str = ""
    proxy: str = ""

    def headers(self) -> dict[str, str]:
        """The Authorization header, if a token is used. Raises OSError if the token cannot be had."""
        token = self.token()
        return {"Authorization": f"Bearer {token}"} if token else {}


class TokenFile:
    """A token that is read anew for each request, because it is rotated."""

    def __init__(self, path: Path, fallback: str = "", warn: Warn = lambda problem: None) -> None:
        """`fallback` is the token until the file can be read; `warn` hears once why an older one is used."""
        self._path = path
        self._last = fallback
        self._warn = warn
        self._problem = ""

    def __call__(self) -> str:
        """The token of the file, or the last good one while there is none.

        Raises OSError if there has never been one. No text ever shows what is in the file.
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
            self._warn(problem)
        self._problem = problem
        return self._last


def of_context(
    document: Mapping[str, Any], path: Path, name: str, warn: Warn = lambda problem: None
) -> Credentials:
    """The credentials of a context in a kubeconfig.

    `document` is the content of the file `path`, from whose folder relative paths are meant. `warn` hears of token
    files that could not be read again. Raises AccessError, and OSError for files that cannot be read.
    """
    context = _entry(document, "contexts", "context", name)
    cluster = _entry(document, "clusters", "cluster", str(context.get("cluster") or ""))
    user = _entry(document, "users", "user", str(context.get("user") or ""))
    server = str(cluster.get("server") or "").rstrip("/")
    if not re.match(r"https?://[^/\s]", server):
        raise AccessError(f'server "{server}" of context {name}: must be a URL that begins with https://')
    if given := [field for field in _IMPERSONATION if user.get(field)]:
        raise AccessError(
            f"{given[0]}: acting as somebody else is not supported; give that account's own credentials"
        )
    trust = trusted(cluster, path.parent)
    through = str(cluster.get("proxy-url") or "")
    return Credentials(
        server=server,
        ssl_context=trust,
        token=_token(user, path, name, trust, warn),
        server_name=str(cluster.get("tls-server-name") or ""),
        proxy=proxy.given(through) if through else proxy.for_server(server),
    )


def trusted(cluster: Mapping[str, Any], folder: Path) -> ssl.SSLContext:
    """A TLS context that trusts what the `cluster` of a kubeconfig says; paths are meant from `folder`.

    Raises AccessError.
    """
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
        raise AccessError(f"certificate-authority: no file {folder / str(file)}") from None
    except (ssl.SSLError, UnicodeDecodeError) as error:
        field = "certificate-authority-data" if data else f"certificate-authority {folder / str(file)}"
        raise AccessError(f"{field}: no PEM certificates: {error}") from None
    # Python 3.13 began to ask for extensions that the authorities of many clusters do not have.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _token(
    user: Mapping[str, Any], path: Path, context: str, trust: ssl.SSLContext, warn: Warn
) -> Callable[[], str]:
    """Where the user's token comes from; a client certificate goes into the TLS context."""
    if not set(user) <= _PLAIN:
        return _by_package(path, context, trust)
    if user.get("client-certificate") or user.get("client-certificate-data"):
        _client_certificate(trust, user, path.parent)
    token = str(user.get("token") or "").strip()
    if token and not _TOKEN.match(token):
        raise AccessError("token: must be one line of printable ASCII characters")
    if user.get("tokenFile"):
        return TokenFile(path.parent / str(user["tokenFile"]), token, warn)
    return lambda: token


def _entry(document: Mapping[str, Any], section: str, key: str, name: str) -> Mapping[str, Any]:
    entries = document.get(section)
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("name") == name:
            value = entry.get(key)
            return value if isinstance(value, dict) else {}
    raise AccessError(f'no entry "{name}" in {section}')


def _client_certificate(context: ssl.SSLContext, user: Mapping[str, Any], folder: Path) -> None:
    # The library reads certificates from files only; the key must not stay on disk.
    descriptor = os.memfd_create("client-certificate", os.MFD_CLOEXEC)
    try:
        for name in ("client-certificate", "client-key"):
            data = user.get(f"{name}-data")
            if not data and not user.get(name):
                raise AccessError(f"the user has a client certificate but no {name}")
            os.write(descriptor, _part(data, name, folder / str(user.get(name))).rstrip() + b"\n")
        try:
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        except ssl.SSLError as error:
            raise AccessError(
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
        raise AccessError(f"{name} {path}: {error.strerror}") from None


def _decoded(value: object, field: str) -> bytes:
    try:
        return base64.b64decode(str(value), validate=True)
    except binascii.Error as error:
        raise AccessError(f"{field}: not base64: {error}") from None


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
        raise AccessError(str(error) or type(error).__name__) from None
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
        raise AccessError(f"its user has credentials that give neither a token nor a certificate{why}")
    return token
