"""The ledger in a real Redis server: the contract, the simulation, and processes that are killed."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import secrets
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ledger_contract import check_contract
from ledger_machine import Backend, play
from ledger_workers import Table, work
from redis.asyncio import Redis

from allocator.ledger import Caller, LedgerUnavailableError
from allocator.ledger.remote import RedisLedger, connect

pytestmark = pytest.mark.go

PROCESSES, CLAIMS, DEVICES = 8, 1000, 1000


class Server:
    """redis-server on a Unix socket. With `persistent` it has everything again when it starts anew."""

    def __init__(self, folder: Path, persistent: bool) -> None:
        self.socket = folder / "redis.sock"
        self._appends = "yes" if persistent else "no"
        self.url = f"unix://{self.socket}"
        self.start()

    def start(self) -> None:
        words = ["redis-server", "--port", "0", "--unixsocket", str(self.socket), "--unixsocketperm", "700"]
        words += ["--save", "", "--appendonly", self._appends, "--appendfsync", "always"]
        words += ["--dir", str(self.socket.parent)]
        self._process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while not self.socket.exists():
            assert self._process.poll() is None, "redis-server has ended"
            assert time.monotonic() < deadline, "redis-server makes no socket"
            time.sleep(0.02)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self.socket.unlink(missing_ok=True)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    # A Unix socket's path is short.
    folder = Path(f"/tmp/ledger-{secrets.token_hex(4)}")
    folder.mkdir(mode=0o700)
    found = Server(folder, persistent=getattr(request, "param", False))
    yield found
    found.kill()
    shutil.rmtree(folder)


def test_the_contract_holds(server: Server) -> None:
    asyncio.run(check_contract(lambda: connect(server.url, secrets.token_hex(4))))


def test_no_device_is_given_away_twice_and_none_is_lost(server: Server) -> None:
    async def make(clock: Callable[[], float]) -> Backend:
        ledger = RedisLedger(Redis.from_url(server.url), secrets.token_hex(4), remembered=3)
        return Backend(ledger, ledger.remove)

    play(make, examples=10, steps=40, patience=0.001)


@pytest.mark.parametrize("server", [False, True], indirect=True, ids=["in memory", "persistent"])
def test_a_server_that_has_started_anew_counts_as_empty(server: Server) -> None:
    async def check() -> None:
        ledger = connect(server.url, "test")
        await ledger.fill(Caller((await ledger.open("first")).id, "a#1", 0))
        assert await ledger.open("other") == ("first", True)
        server.kill()
        server.start()
        assert await ledger.open("second") == ("second", False)
        await ledger.close()

    asyncio.run(check())


def test_a_user_who_cannot_learn_whether_the_server_has_started_anew_is_refused(server: Server) -> None:
    async def check() -> None:
        admin = Redis.from_url(server.url)
        await admin.execute_command("ACL", "SETUSER", "some", "on", ">word", "~*", "+@all", "-info")
        await admin.aclose()
        ledger = connect(server.url.replace("unix://", "unix://some:word@"), "test")
        with pytest.raises(LedgerUnavailableError, match="INFO cannot be used"):
            await ledger.open("x")
        await ledger.close()

    asyncio.run(check())


@pytest.mark.parametrize(
    ("limit", "policy", "fits"),
    [("0", "allkeys-lru", True), ("100mb", "noeviction", True), ("100mb", "volatile-ttl", False)],
)
def test_a_server_that_throws_keys_away_is_refused(
    server: Server, limit: str, policy: str, fits: bool
) -> None:
    async def check() -> None:
        admin = Redis.from_url(server.url)
        await admin.config_set("maxmemory", limit)
        await admin.config_set("maxmemory-policy", policy)
        await admin.aclose()
        ledger = connect(server.url, "test")
        try:
            assert await ledger.open("x") == ("x", False)
        except LedgerUnavailableError as error:
            assert "set maxmemory-policy noeviction" in str(error)
            assert not fits
        else:
            assert fits
        await ledger.close()

    asyncio.run(check())


@pytest.mark.timeout(1200)
def test_killed_processes_neither_double_nor_lose_a_device(server: Server, tmp_path: Path) -> None:
    seed = int(os.environ.get("LEDGER_SEED") or random.SystemRandom().randrange(2**32))
    print(f"LEDGER_SEED={seed}")  # noqa: T201 - a failure shows it
    chance = random.Random(seed)
    table = Table(tmp_path / "claims.db")
    table.make(PROCESSES * CLAIMS)
    context = multiprocessing.get_context("spawn")

    def start(number: int) -> multiprocessing.process.BaseProcess:
        arguments = (number, PROCESSES, DEVICES, server.url, table.path, chance.random())
        process = context.Process(target=work, args=arguments, daemon=True)
        process.start()
        return process

    workers = {number: start(number) for number in range(PROCESSES)}
    kills = losses = 0
    deadline = time.monotonic() + 1100
    while any(process.is_alive() or process.exitcode != 0 for process in workers.values()):
        time.sleep(chance.uniform(0.2, 1.5))
        assert time.monotonic() < deadline, table.progress()
        alive = [number for number, process in workers.items() if process.is_alive()]
        if alive and kills < 24:
            victim = workers[chance.choice(alive)]
            assert victim.pid is not None
            os.kill(victim.pid, signal.SIGKILL)
            victim.join()
            kills += 1
        if kills % 10 == 9 and losses < kills // 10 + 1:
            server.kill()
            server.start()
            losses += 1
        for number, process in workers.items():
            if not process.is_alive() and process.exitcode != 0:
                workers[number] = start(number)
    print(f"{kills} processes and {losses} servers killed")  # noqa: T201
    assert kills >= 20
    assert table.doubled() == []
    # Every claim has had its device, and all devices are free or held by the claims that are left.
    assert table.progress() == {"done": PROCESSES * CLAIMS - DEVICES, "held": DEVICES}
    assert Counter(table.holders().values()) == dict.fromkeys((f"dev-{n}" for n in range(DEVICES)), 1)
