"""URLs as Go's `net/url` reads and prints them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..gotext import quote
from .addresses import AddressError, parse_address

_ALNUM: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~")
_PATH: Final = _ALNUM | frozenset(b"$&+,/:;=@")
_HOST: Final = _ALNUM | frozenset(b"!$&'()*+,;=:[]<>\"")
_FRAGMENT: Final = _ALNUM | frozenset(b"$&+,/:;=?@!()*")
_USER: Final = _ALNUM | frozenset(b"$&+,;=")
_KEPT_IN_PATH: Final = frozenset(b"!$&'()*+,;=:@[]%")
_USERINFO: Final = frozenset("-._:~!$&'()*+,;=%@")
_HEX: Final = frozenset("0123456789abcdefABCDEF")


class UrlError(ValueError):
    """Text that is no URL; the message is Go's."""


@dataclass(frozen=True, slots=True)
class Url:
    """The parts of a URL. `path` is as it is escaped in the text, the rest as Go keeps them."""

    scheme: str = ""
    opaque: str = ""
    user: str | None = None
    host: str = ""
    path: str = ""
    query: str = ""
    fragment: str = ""
    force_query: bool = False
    omit_host: bool = False

    @property
    def escaped_path(self) -> str:
        """The path with escapes."""
        return self.path

    def split_host(self) -> tuple[str, str]:
        """Name and port of the host; brackets are removed."""
        host, port = self.host, ""
        colon = host.rfind(":")
        if colon >= 0 and _is_port(host[colon:]):
            host, port = host[:colon], host[colon + 1 :]
        return (host[1:-1] if host.startswith("[") and host.endswith("]") else host), port

    def __str__(self) -> str:
        text = f"{self.scheme}:" if self.scheme else ""
        if self.opaque:
            text += self.opaque
        else:
            if self.scheme or self.host or self.user is not None:
                empty = not self.host and self.user is None
                if not (self.omit_host and empty):
                    if self.host or self.path or self.user is not None:
                        text += "//"
                    text += "" if self.user is None else f"{self.user}@"
                    text += _escape(self.host, _HOST)
            path = self.path
            if path and not path.startswith("/") and self.host:
                text += "/"
            if not text and ":" in path.split("/", 1)[0]:
                text += "./"
            text += path
        if self.force_query or self.query:
            text += f"?{self.query}"
        return text + (f"#{self.fragment}" if self.fragment else "")


def check_request_uri(text: str) -> None:
    """Whether the text is an absolute URL or path. Raises UrlError."""
    try:
        _parse(text, request=True)
    except ValueError as error:
        raise UrlError(f"parse {quote(text)}: {error}") from None


def parse(text: str) -> Url:
    """Read a URL. Raises UrlError."""
    head, _, fragment = text.partition("#")
    try:
        url = _parse(head, request=False)
    except ValueError as error:
        raise UrlError(f"parse {quote(head)}: {error}") from None
    if not fragment:
        return url
    try:
        plain = _unescape(fragment, "fragment")
    except ValueError as error:
        raise UrlError(f"parse {quote(text)}: {error}") from None
    shown = fragment if _valid_encoded(fragment, _FRAGMENT) else _escape_bytes(plain, _FRAGMENT)
    return Url(
        url.scheme, url.opaque, url.user, url.host, url.path, url.query, shown, url.force_query, url.omit_host
    )


def query_values(query: str) -> dict[str, list[str]]:
    """Names and values of a query; broken parts are left out."""
    found: dict[str, list[str]] = {}
    for part in query.split("&"):
        if not part or ";" in part:
            continue
        name, _, value = part.partition("=")
        try:
            key, text = _unescape(name, "query"), _unescape(value, "query")
        except ValueError:
            continue
        found.setdefault(_text(key), []).append(_text(text))
    return found


def _text(octets: bytes) -> str:
    return octets.decode("utf-8", "surrogateescape")


def _parse(text: str, *, request: bool) -> Url:
    if any(ord(char) < 0x20 or ord(char) == 0x7F for char in text):
        raise ValueError("net/url: invalid control character in URL")
    if not text and request:
        raise ValueError("empty url")
    if text == "*":
        return Url(path="*")
    scheme, rest = _scheme(text)
    force_query = rest.endswith("?") and rest.count("?") == 1
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return Url(scheme, opaque=rest, query=query, force_query=force_query)
        if request:
            raise ValueError("invalid URI for request")
        if ":" in rest.split("/", 1)[0]:
            raise ValueError("first path segment in URL cannot contain colon")
    user, host, omit_host = None, "", False
    if (scheme or (not request and not rest.startswith("///"))) and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        user, host = _authority(scheme, authority)
    elif scheme and rest.startswith("/"):
        omit_host = True
    plain = _unescape(rest, "path")
    path = rest if _valid_encoded(rest, _PATH) else _escape_bytes(plain, _PATH)
    return Url(scheme, "", user, host, path, query, "", force_query, omit_host)


def _scheme(text: str) -> tuple[str, str]:
    for position, char in enumerate(text):
        if char.isascii() and char.isalpha():
            continue
        if char in "0123456789+-.":
            if position == 0:
                return "", text
        elif char == ":":
            if position == 0:
                raise ValueError("missing protocol scheme")
            return text[:position].lower(), text[position + 1 :]
        else:
            return "", text
    return "", text


def _authority(scheme: str, text: str) -> tuple[str | None, str]:
    info, at, host_text = text.rpartition("@")
    host = _host(scheme, host_text)
    if not at:
        return None, host
    if not all((char.isascii() and char.isalnum()) or char in _USERINFO for char in info):
        raise ValueError("net/url: invalid userinfo")
    name, colon, password = info.partition(":")
    user = _escape_bytes(_unescape(name, "user"), _USER)
    if colon:
        user += ":" + _escape_bytes(_unescape(password, "user"), _USER)
    return user, host


def _host(scheme: str, host: str) -> str:
    bracket = host.rfind("[")
    if bracket > 0:
        raise ValueError("invalid IP-literal")
    if bracket == 0:
        return _literal(host)
    colon = host.find(":")
    if colon >= 0:
        if scheme not in ("http", "https"):
            colon = host.rfind(":")
        if not _is_port(host[colon:]):
            raise ValueError(f"invalid port {quote(host[colon:])} after host")
    return _text(_unescape(host, "host"))


def _literal(host: str) -> str:
    end = host.rfind("]")
    if end < 0:
        raise ValueError("missing ']' in host")
    port = host[end + 1 :]
    if not _is_port(port):
        raise ValueError(f"invalid port {quote(port)} after host")
    name = host[1:end]
    zone = name.find("%25")
    before, after = (name[:zone], name[zone:]) if zone >= 0 else (name, "")
    plain = _unescape(before, "host") + _unescape(after, "zone")
    try:
        address = parse_address(_text(plain))
    except AddressError as error:
        raise ValueError(f"invalid host: {error}") from None
    if address.bits == 32:
        raise ValueError("invalid IP-literal")
    return f"[{_text(plain)}]{port}"


def _is_port(text: str) -> bool:
    return not text or (text[0] == ":" and all(char in "0123456789" for char in text[1:]))


def _unescape(text: str, mode: str) -> bytes:
    octets = text.encode("utf-8", "surrogateescape")
    found = bytearray()
    position = 0
    while position < len(octets):
        octet = octets[position]
        if octet == 0x25:
            escape = octets[position : position + 3].decode("latin-1")
            if len(escape) < 3 or not _HEX.issuperset(escape[1:]):
                raise ValueError(f"invalid URL escape {quote(escape)}")
            value = int(escape[1:], 16)
            if mode == "host" and value < 0x80 and escape != "%25":
                raise ValueError(f"invalid URL escape {quote(escape)}")
            if mode == "zone" and escape != "%25" and value != 0x20 and value not in _HOST:
                raise ValueError(f"invalid URL escape {quote(escape)}")
            found.append(value)
            position += 3
            continue
        if mode in ("host", "zone") and octet < 0x80 and octet not in _HOST:
            raise ValueError(f"invalid character {quote(chr(octet))} in host name")
        found.append(0x20 if octet == 0x2B and mode == "query" else octet)
        position += 1
    return bytes(found)


def _escape(text: str, kept: frozenset[int]) -> str:
    return _escape_bytes(text.encode("utf-8", "surrogateescape"), kept)


def _escape_bytes(octets: bytes, kept: frozenset[int]) -> str:
    return "".join(chr(octet) if octet in kept else f"%{octet:02X}" for octet in octets)


def _valid_encoded(text: str, kept: frozenset[int]) -> bool:
    """Whether the text may stand as it is, because every character is kept or allowed."""
    octets = text.encode("utf-8", "surrogateescape")
    return all(octet in kept or octet in _KEPT_IN_PATH for octet in octets)
