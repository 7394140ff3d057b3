"""`drakit up` with a ledger that cannot be used: what it says, and when."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from clusters_kit import Up

pytestmark = pytest.mark.process
SCHEDULERS = ("--schedulers", "2")


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        yield found


def place(server: socket.socket) -> str:
    return f"127.0.0.1:{server.getsockname()[1]}"


def test_the_ledger_is_named_before_it_has_answered(up: Up, silent: socket.socket) -> None:
    where = place(silent)
    process = up.start("up", *SCHEDULERS, "--ledger", f"redis://me:secret@{where}/1")
    assert process.stderr is not None
    assert process.stderr.readline() == f"drakit: asking the ledger at redis://me:***@{where}/1\n"
    silent.close()
    done = up.cli.finish(process)
    assert (done.code, done.out) == (2, "")
    (line,) = done.lines()
    assert line.startswith(f"drakit: --ledger: the ledger at redis://me:***@{where}/1 cannot be used: ")


def test_a_server_that_does_not_answer_is_refused(up: Up, silent: socket.socket) -> None:
    where = place(silent)
    done = up("up", "--json", *SCHEDULERS, "--ledger", f"redis://:secret@{where}?socket_timeout=0.1")
    problem = f"the ledger at redis://:***@{where} cannot be used: Timeout reading from {where}"
    assert (done.code, done.out, done.lines()) == (2, "", [f"drakit: --ledger: {problem}"])


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        (
            "redis://:secret@h/zero",
            "redis://:***@h/zero: behind the host only the number of a database can be, such as /0",
        ),
        ("redis://:secret@h?db=x", "redis://:***@h: db has to be the number of a database"),
    ],
)
def test_a_url_that_cannot_be_is_wrong_usage(up: Up, url: str, problem: str) -> None:
    done = up("up", *SCHEDULERS, "--ledger", url)
    assert (done.code, done.out, done.lines()) == (2, "", [f"drakit: --ledger: {problem}"])
    done = up("up", *SCHEDULERS, DRAKIT_LEDGER=url)
    assert (done.code, done.out, done.lines()) == (2, "", [f"drakit: DRAKIT_LEDGER: {problem}"])
