"""Ports for processes, and looks at whether a process serves yet."""

from __future__ import annotations

import contextlib
import fcntl
import socket
import ssl
import struct
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Final

_SECONDS: Final = 2.0
_GET_ADDRESS: Final = 0x8915  # SIOCGIFADDR
_NAME_BYTES: Final = 15

_lock = threading.Lock()
_given: set[int] = set()


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody listens on, and that this process has not given away before.

    Another process may take it before it is used: whoever starts a server must be ready to try again.
    """
    while True:
        with socket.socket() as probe:
            probe.bind((host, 0))
            port: int = probe.getsockname()[1]
        with _lock:
            if port not in _given:
                _given.add(port)
                return port


def host_address() -> str:
    """The first IPv4 address of this machine that is neither loopback nor link-local; "" when there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # A UDP socket "connects" without a packet: the kernel says which address it would use.
        with contextlib.suppress(OSError):
            probe.connect(("192.0.2.1", 9))
            if _fits(address := str(probe.getsockname()[0])):
                return address
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                request = struct.pack("256s", name.encode()[:_NAME_BYTES])
                address = socket.inet_ntoa(fcntl.ioctl(probe.fileno(), _GET_ADDRESS, request)[20:24])
                if _fits(address):
                    return address
    return ""


def _fits(address: str) -> bool:
    return not address.startswith(("127.", "169.254.", "0."))


def https(url: str, context: ssl.SSLContext, token: str = "") -> Callable[[], bool]:
    """A look at whether a URL answers 200."""
    handlers = (urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    opener = urllib.request.build_opener(*handlers)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - a URL of ours

    def look() -> bool:
        try:
            with opener.open(request, timeout=_SECONDS) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    return look


def unix(path: Path) -> Callable[[], bool]:
    """A look at whether somebody listens on a Unix socket; the file of one that was killed is still there."""

    def look() -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(_SECONDS)
            return probe.connect_ex(str(path)) == 0

    return look


def http(url: str) -> Callable[[], bool]:
    """The same without TLS."""
    return https(url, ssl.create_default_context())
