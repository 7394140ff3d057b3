"""Which HTTP proxy leads to an API server: the rules of Kubernetes' Go clients."""

from __future__ import annotations

import ipaddress
import os
from urllib.parse import urlsplit

from node_api.access.errors import AccessError


def given(url: str) -> str:
    """The proxy of a `proxy-url`. Raises AccessError for one that cannot be used, without showing its password."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        shown = f"{parts.scheme}://{parts.hostname or ''}"
        raise AccessError(
            f"proxy {shown}: must be an HTTP proxy (http:// or https://); others are not supported"
        )
    return url


def for_server(server: str) -> str:
    """The proxy that HTTPS_PROXY or HTTP_PROXY names for a server, "" for none.

    NO_PROXY lists hosts, domains, IP addresses and networks that are reached without; this machine always is.
    """
    parts = urlsplit(server)
    url = _variable(f"{parts.scheme}_proxy")
    host = (parts.hostname or "").rstrip(".")
    if not url or _is_here(host) or any(_matches(host, parts.port, item) for item in _exceptions()):
        return ""
    return given(url if "://" in url else f"http://{url}")


def _variable(name: str) -> str:
    return os.environ.get(name.upper()) or os.environ.get(name) or ""


def _exceptions() -> list[str]:
    return [item.strip().lower() for item in _variable("no_proxy").split(",") if item.strip()]


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return None


def _is_here(host: str) -> bool:
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def _matches(host: str, port: int | None, item: str) -> bool:
    if item == "*":
        return True
    name, colon, number = item.rpartition(":")
    if colon and number.isdigit() and _address(item) is None:
        if int(number) != port:
            return False
        item = name
    address = _address(host)
    if address is None:
        # A leading dot stands for the names below it only.
        domain = item.removeprefix("*").removeprefix(".")
        return host.endswith(f".{domain}") or host == item
    try:
        return address in ipaddress.ip_network(item.strip("[]"), strict=False)
    except ValueError:
        return False
