"""Parts of a control plane on an API server of their own."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

from clusters.embedded.apiserver.auth.tokens import StaticTokens
from clusters.embedded.apiserver.auth.users import MASTERS, User
from clusters.embedded.apiserver.config import ServerConfig
from clusters.embedded.apiserver.thread import ServerThread
from clusters.embedded.components.client import ApiClient
from clusters.tls import client_context


@contextlib.contextmanager
def api_server() -> Iterator[ServerThread]:
    thread = ServerThread(ServerConfig(tokens=StaticTokens({"admin": User("admin", groups=(MASTERS,))})))
    thread.start()
    try:
        yield thread
    finally:
        thread.stop()


def client_of(server: ServerThread, agent: str = "test") -> ApiClient:
    return ApiClient(server.url, client_context(server.ca_pem), "admin", agent)


async def until(condition: Callable[[], bool], what: str, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def background(*work: Awaitable[Any]) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
        "data": data,
    }
