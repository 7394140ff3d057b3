"""What a URL of a ledger may say, and that its password is never shown."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from allocator.ledger.address import parse, without_password
from allocator.ledger.remote import connect
from clusters import tls


@pytest.mark.parametrize(
    ("url", "where", "options"),
    [
        ("redis://host", "redis://host", {"host": "host"}),
        ("redis://host:6379/1", "redis://host:6379/1", {"host": "host", "port": 6379, "db": 1}),
        ("redis://host/", "redis://host/", {"host": "host"}),
        ("redis:///2", "redis:///2", {"db": 2}),
        ("redis://[::1]:7000", "redis://[::1]:7000", {"host": "::1", "port": 7000}),
        ("redis://:secret@host/1", "redis://:***@host/1", {"host": "host", "password": "secret", "db": 1}),
        ("redis://:a%2Fb%23c%3Fd%40e@host", "redis://:***@host", {"host": "host", "password": "a/b#c?d@e"}),
        ("redis://:se@cret@host", "redis://:***@host", {"host": "host", "password": "se@cret"}),
        ("redis://me@host", "redis://***@host", {"host": "host", "username": "me"}),
        (
            "REDISS://me:secret@host?ssl_cert_reqs=none&ssl_check_hostname=no",
            "REDISS://me:***@host",
            {
                "host": "host",
                "username": "me",
                "password": "secret",
                "ssl_cert_reqs": "none",
                "ssl_check_hostname": False,
            },
        ),
        (
            "unix:///run/r%20s.sock?password=se%2Bcret&db=3",
            "unix:///run/r%20s.sock",
            {"path": "/run/r s.sock", "password": "se+cret", "db": 3},
        ),
        (
            "unix://me:secret@/run/redis.sock",
            "unix://me:***@/run/redis.sock",
            {"path": "/run/redis.sock", "username": "me", "password": "secret"},
        ),
        (
            "unix:///run/a@b.sock?password=x@y",
            "unix:///run/a@b.sock",
            {"path": "/run/a@b.sock", "password": "x@y"},
        ),
        (
            "redis://h?socket_timeout=2.5&socket_connect_timeout=1&socket_keepalive=True",
            "redis://h",
            {"host": "h", "socket_timeout": 2.5, "socket_connect_timeout": 1.0, "socket_keepalive": True},
        ),
        (
            "redis://h?protocol=3&client_name=drakit&health_check_interval=30",
            "redis://h",
            {"host": "h", "protocol": 3, "client_name": "drakit", "health_check_interval": 30},
        ),
    ],
)
def test_what_a_url_says(url: str, where: str, options: dict[str, Any]) -> None:
    found = parse(url)
    assert (found.where, found.options, found.scheme) == (where, options, url.partition(":")[0].lower())
    assert "secret" not in repr(found)

    async def make() -> None:
        await connect(url, "test").close()

    asyncio.run(make())


ESCAPES = "in a password / is %2F, # is %23, ? is %3F and @ is %40"
NO_HOST = "the host is neither a name nor an IP address; one of version 6 is in [ ]"
SCHEMES = "it has to begin with redis://, rediss:// or unix://"
DATABASE = "behind the host only the number of a database can be, such as /0"
UNCLEAR = f"there is a # in it, or an @ behind the first / or ?; {ESCAPES}"
WHOLE_PATH = "a socket is given by its whole path, such as unix:///run/redis.sock"
SIGNS = "it has a space or another sign that cannot be in a URL; a space is %20"
COMMON = "client_name, db, health_check_interval, password, protocol, socket_connect_timeout"
TCP = f"{COMMON}, socket_keepalive, socket_timeout, username"
SOCKET = f"{COMMON}, socket_timeout, username"


@pytest.mark.parametrize(
    ("url", "text"),
    [
        # What it begins with.
        ("", f"the ledger's URL: {SCHEMES}"),
        ("host:6379", f"the ledger's URL: {SCHEMES}"),
        (":secret@host", f"the ledger's URL: {SCHEMES}"),
        ("redis:/secret", f"the ledger's URL: {SCHEMES}"),
        (":secret://x@host", f"the ledger's URL: {SCHEMES}"),
        ("http://:secret@host", f"http://:***@host: {SCHEMES}"),
        # Passwords with signs that end them.
        ("redis://:se#cret@host", f"redis://***: {UNCLEAR}"),
        ("redis://me:12#secret@host", f"redis://***: {UNCLEAR}"),
        ("redis://me:12/secret@host", f"redis://***: {UNCLEAR}"),
        ("redis://me:12?secret@host", f"redis://***: {UNCLEAR}"),
        ("redis://host?password=a:secret@b", f"redis://***: {UNCLEAR}"),
        ("unix://:12/secret@/run/redis.sock", f"unix://***: {UNCLEAR}"),
        ("redis://host/0#1", f"redis://host/0: {UNCLEAR}"),
        ("redis://me:secret", f"redis://me:***: the port is no number; {ESCAPES}"),
        ("redis://:%ff@host", "redis://:***@host: the password is no UTF-8 text behind its %"),
        ("redis://:secret%00@host", "redis://:***@host: the password is no UTF-8 text behind its %"),
        ("redis://me:sec\u2100ret@a\u2100..b", f"redis://me:***@a\u2100..b: {NO_HOST}"),
        # Signs that no URL has.
        ("redis://:secret@host\n", f"redis://:***@host?: {SIGNS}"),
        ("redis://:sec ret@host", f"redis://:***@host: {SIGNS}"),
        ("redis://:secret\udcff@host", f"redis://:***@host: {SIGNS}"),
        # Where it is.
        ("redis://host:99999", "redis://host:99999: the port has to be one from 1 to 65535"),
        ("redis://host:0", "redis://host:0: the port has to be one from 1 to 65535"),
        ("redis://host:x", f"redis://host:***: the port is no number; {ESCAPES}"),
        ("redis://::1", f"redis://:***: the port is no number; {ESCAPES}"),
        ("redis://[::1", f"redis://[::1: {NO_HOST}"),
        ("redis://[host]", f"redis://[host]: {NO_HOST}"),
        ("redis://a..b", f"redis://a..b: {NO_HOST}"),
        ("redis://a%20b", f"redis://a%20b: {NO_HOST}"),
        (f"redis://{'a' * 64}", f"redis://{'a' * 64}: {NO_HOST}"),
        ("redis://h/zero", f"redis://h/zero: {DATABASE}"),
        ("redis://h/1/2", f"redis://h/1/2: {DATABASE}"),
        ("redis://h/-1", f"redis://h/-1: {DATABASE}"),
        ("redis://h/%31", f"redis://h/%31: {DATABASE}"),
        ("redis://h/9999999999", f"redis://h/9999999999: {DATABASE}"),
        ("unix://run/redis.sock", f"unix://run/redis.sock: {WHOLE_PATH}"),
        ("unix://", f"unix://: {WHOLE_PATH}"),
        ("unix:///run/%00", "unix:///run/%00: the path is no UTF-8 text behind its %"),
        # Options that there are not, or that would break a connection later.
        ("redis://h?color=blue", f"redis://h: there is no option color behind the ?; there are {TCP}"),
        ("redis://h?retry_on_error=1", f"redis://h: there is no option retry_on_error behind the ?; there are {TCP}"),
        ("redis://h?max_connections=1", f"redis://h: there is no option max_connections behind the ?; there are {TCP}"),
        ("redis://h?encoding=x", f"redis://h: there is no option encoding behind the ?; there are {TCP}"),
        ("redis://h?host=other", f"redis://h: there is no option host behind the ?; there are {TCP}"),
        ("redis://h?ssl_cert_reqs=none", f"redis://h: there is no option ssl_cert_reqs behind the ?; there are {TCP}"),
        ("redis://h?secret", f"redis://h: there is no such option behind the ?; there are {TCP}"),
        ("redis://h?Secret1=", f"redis://h: there is no such option behind the ?; there are {TCP}"),
        (
            "unix:///s?socket_keepalive=yes",
            f"unix:///s: there is no option socket_keepalive behind the ?; there are {SOCKET}",
        ),
        # Their values.
        ("redis://h?db=x", "redis://h: db has to be the number of a database"),
        ("redis://h?db=", "redis://h: db has to be the number of a database"),
        ("redis://h/1?db=1", "redis://h/1: db is given twice"),
        ("redis://:secret@h?password=secret", "redis://:***@h: password is given twice"),
        ("redis://h?password=", "redis://h: password has to be some text"),
        ("redis://h?password=%ffsecret", "redis://h: password is no UTF-8 text behind its %"),
        ("redis://h?socket_timeout=abc", "redis://h: socket_timeout has to be a number of seconds above 0"),
        ("redis://h?socket_timeout=0", "redis://h: socket_timeout has to be a number of seconds above 0"),
        ("redis://h?socket_timeout=nan", "redis://h: socket_timeout has to be a number of seconds above 0"),
        ("redis://h?socket_timeout=inf", "redis://h: socket_timeout has to be a number of seconds above 0"),
        ("redis://h?socket_keepalive=maybe", "redis://h: socket_keepalive has to be yes or no"),
        ("redis://h?health_check_interval=1.5", "redis://h: health_check_interval has to be a whole number of seconds"),
        ("redis://h?protocol=9", "redis://h: protocol has to be 2 or 3"),
        ("redis://h?client_name=a%20b", "redis://h: client_name has to be a word of ASCII signs"),
        ("rediss://h?ssl_cert_reqs=some", "rediss://h: ssl_cert_reqs has to be none, optional or required"),
        ("rediss://h?ssl_ca_certs=/none", "rediss://h: ssl_ca_certs has to be a file that there is"),
        ("rediss://h?ssl_ca_path=/none", "rediss://h: ssl_ca_path has to be a folder that there is"),
    ],
)  # fmt: skip
def test_a_url_that_cannot_be_is_refused_in_one_line(url: str, text: str) -> None:
    with pytest.raises(ValueError) as caught:
        connect(url, "test")
    assert str(caught.value) == text
    assert text.startswith(without_password(url))
    assert "\n" not in text and "secret" not in text.lower()
    assert caught.value.__cause__ is None and caught.value.__suppress_context__


@pytest.mark.parametrize("option", ["ssl_ca_certs", "ssl_certfile"])
def test_a_file_that_is_no_certificate_is_refused_before_it_is_used(tmp_path: Path, option: str) -> None:
    file = tmp_path / "some.pem"
    file.write_text("no certificate")
    with pytest.raises(ValueError, match=r"^rediss://h: certificates or keys of its options cannot be used$"):
        connect(f"rediss://h?{option}={file}", "test")


def test_certificates_of_its_own_are_taken(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_bytes(tls.generate("127.0.0.1").ca_pem)

    async def make() -> None:
        await connect(f"rediss://h?ssl_ca_certs={file}", "test").close()

    asyncio.run(make())
