"""The URL of the Redis server that has a ledger: everything it says is checked before anything is connected to.

Whatever it could mean that was not meant (part of a password as host, database 0 for one that is misspelt) is refused,
and no message has a password, nor what may be a part of one.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, unquote_plus

_PARTS: Final = re.compile(r"([^/?#]*)([^?#]*)(?:\?([^#]*))?(#.*)?", re.DOTALL)
_PLACE: Final = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{0,9}))?")
_DATABASE: Final = re.compile(r"/?([0-9]{0,9})/?")
_ESCAPES: Final = "in a password / is %2F, # is %23, ? is %3F and @ is %40"
_NO_HOST: Final = "the host is neither a name nor an IP address; one of version 6 is in [ ]"
_UNCLEAR: Final = "***"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is. `where` may be shown."""

    scheme: str
    where: str
    options: Mapping[str, Any] = field(repr=False)
    """What a connection is made with, in the words of redis-py."""


class _WrongError(ValueError):
    """The text says what, without the URL."""


def parse(url: str) -> Address:
    """Read redis://, rediss:// or unix://. Raises ValueError; its text is one line that says what is allowed."""
    where = without_password(url)
    try:
        scheme, options = _parse(url)
    except _WrongError as problem:
        raise ValueError(f"{where}: {problem}") from None
    return Address(scheme, where, options)


def without_password(url: str) -> str:
    """The URL as it may be shown, also one that cannot be."""
    scheme, mark, rest = url.partition("://")
    if not mark or not re.fullmatch("[A-Za-z][A-Za-z0-9+.-]*", scheme):
        return "the ledger's URL"
    authority, path, query, fragment = _parts(rest)
    is_socket = scheme.lower() == "unix" and not authority
    if not is_socket and "@" in path + query + fragment:
        # Where the password ends is unknown.
        return f"{scheme}://{_UNCLEAR}"
    credentials, at, place = authority.rpartition("@")
    user, colon, _ = credentials.partition(":")
    if at:
        user = f"{user}:{_UNCLEAR}@" if colon else f"{_UNCLEAR}@"
    host, colon, port = place.partition(":")
    if colon and not place.startswith("[") and not re.fullmatch("[0-9]*", port):
        # A password whose host is missing.
        place = f"{host}:{_UNCLEAR}"
    return _printable(f"{scheme}://{user}{place}{path}")


def _printable(text: str) -> str:
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def _parts(rest: str) -> tuple[str, str, str, str]:
    found = _PARTS.fullmatch(rest)
    assert found is not None  # noqa: S101 - every text has these parts
    authority, path, query, fragment = found.groups(default="")
    return authority, path, query, fragment


def _parse(url: str) -> tuple[str, dict[str, Any]]:
    scheme, mark, rest = url.partition("://")
    scheme = scheme.lower()
    if not mark or scheme not in ("redis", "rediss", "unix"):
        raise _WrongError("it has to begin with redis://, rediss:// or unix://")
    if any(sign.isspace() or not sign.isprintable() for sign in url):
        raise _WrongError("it has a space or another sign that cannot be in a URL; a space is %20")
    authority, path, query, fragment = _parts(rest)
    credentials, _, place = authority.rpartition("@")
    if fragment or ("@" in path + query and not (scheme == "unix" and not authority)):
        raise _WrongError(f"there is a # in it, or an @ behind the first / or ?; {_ESCAPES}")
    user, _, password = credentials.partition(":")
    found = {
        "username": _decoded(user, "the user"),
        "password": _decoded(password, "the password"),
        **(_socket(place, path) if scheme == "unix" else _server(place, path)),
    }
    options = {name: value for name, value in found.items() if value not in ("", None)}
    known = _KNOWN[scheme]
    for word in filter(None, query.split("&")):
        name, equals, text = word.partition("=")
        if name not in known:
            named = f"option {name}" if equals and re.fullmatch("[a-z_]{1,40}", name) else "such option"
            raise _WrongError(f"there is no {named} behind the ?; there are {', '.join(sorted(known))}")
        if name in options:
            raise _WrongError(f"{name} is given twice")
        read, allowed = known[name]
        value = read(_decoded(text, name, unquote_plus))
        if value is None:
            raise _WrongError(f"{name} has to be {allowed}")
        options[name] = value
    return scheme, options


def _decoded(text: str, what: str, decode: Callable[..., str] = unquote) -> str:
    try:
        found = decode(text, errors="strict")
    except UnicodeDecodeError:
        found = "\0"
    if "\0" in found:
        raise _WrongError(f"{what} is no UTF-8 text behind its %")
    return found


def _socket(place: str, path: str) -> dict[str, Any]:
    if place or not path.startswith("/"):
        raise _WrongError("a socket is given by its whole path, such as unix:///run/redis.sock")
    return {"path": _decoded(path, "the path")}


def _server(place: str, path: str) -> dict[str, Any]:
    found = _PLACE.fullmatch(place)
    if found is None and ("[" in place or "]" in place):
        raise _WrongError(_NO_HOST)
    if found is None:
        raise _WrongError(f"the port is no number; {_ESCAPES}")
    host, port = _decoded(found[1], "the host"), found[2]
    if port and not 1 <= int(port) <= 65535:
        raise _WrongError("the port has to be one from 1 to 65535")
    database = _DATABASE.fullmatch(path)
    if database is None:
        raise _WrongError("behind the host only the number of a database can be, such as /0")
    return {
        "host": _host(host),
        "port": int(port) if port else None,
        "db": int(database[1]) if database[1] else None,
    }


def _host(text: str) -> str:
    """The host as sockets take it; none is localhost."""
    try:
        if text.startswith("["):
            return str(ipaddress.IPv6Address(text[1:-1]))
        # The resolver fails with this on names that cannot be.
        text.encode("idna")
    except ValueError:
        raise _WrongError(_NO_HOST) from None
    if any(sign.isspace() or not sign.isprintable() for sign in text):
        raise _WrongError(_NO_HOST)
    return text


# Options: how they are read (None: not at all), and what they have to be.

_Read = Callable[[str], Any]


def _text(text: str) -> str | None:
    return text or None


def _word(text: str) -> str | None:
    return text if re.fullmatch("[!-~]+", text) else None


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else None


def _seconds(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if 0 < found < math.inf else None


def _switch(text: str) -> bool | None:
    return {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}.get(text.lower())


def _one_of(*words: str) -> _Read:
    return lambda text: text if text in words else None


def _protocol(text: str) -> int | None:
    return {"2": 2, "3": 3}.get(text)


def _file(text: str) -> str | None:
    return text if Path(text).is_file() else None


def _folder(text: str) -> str | None:
    return text if Path(text).is_dir() else None


_SWITCH: Final = (_switch, "yes or no")
_SECONDS: Final = (_seconds, "a number of seconds above 0")
_FILE: Final = (_file, "a file that there is")
_EVERYWHERE: Final[Mapping[str, tuple[_Read, str]]] = {
    "client_name": (_word, "a word of ASCII signs"),
    "db": (_number, "the number of a database"),
    "health_check_interval": (_number, "a whole number of seconds"),
    "password": (_text, "some text"),
    "protocol": (_protocol, "2 or 3"),
    "socket_connect_timeout": _SECONDS,
    "socket_timeout": _SECONDS,
    "username": (_text, "some text"),
}
_TCP: Final = {**_EVERYWHERE, "socket_keepalive": _SWITCH}
_TLS: Final = {
    **_TCP,
    "ssl_ca_certs": _FILE,
    "ssl_ca_path": (_folder, "a folder that there is"),
    "ssl_cert_reqs": (_one_of("none", "optional", "required"), "none, optional or required"),
    "ssl_certfile": _FILE,
    "ssl_check_hostname": _SWITCH,
    "ssl_keyfile": _FILE,
    "ssl_password": (_text, "some text"),
}
_KNOWN: Final[Mapping[str, Mapping[str, tuple[_Read, str]]]] = {
    "redis": _TCP,
    "rediss": _TLS,
    "unix": _EVERYWHERE,
}
