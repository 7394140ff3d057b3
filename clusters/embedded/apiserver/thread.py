"""The API server in a thread of its own, for synchronous callers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from clusters.embedded.apiserver.config import ServerConfig
from clusters.embedded.apiserver.server import ApiServer, ServerState

_STOP_SECONDS = 10.0


class ServerThread:
    """Starts and stops an API server; its objects, certificates and port survive a restart."""

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self._state: ServerState | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stopping: asyncio.Event | None = None
        self._url = ""
        self._failure: BaseException | None = None

    @property
    def url(self) -> str:
        """https://HOST:PORT of the server that was started last."""
        return self._url

    @property
    def ca_pem(self) -> bytes:
        """The certificate authority, as PEM; known after the first start."""
        if self._state is None:
            raise RuntimeError("the API server was not started yet")
        return self._state.certificates.ca_pem

    @property
    def state(self) -> ServerState:
        """What survives a restart; to be used while the server is stopped, or in its loop."""
        if self._state is None:
            raise RuntimeError("the API server was not started yet")
        return self._state

    def start(self) -> ServerThread:
        """Start and wait until the server listens. Raises ListenError when it cannot."""
        if self._thread is not None:
            raise RuntimeError("the API server runs already")
        ready = threading.Event()
        self._failure = None
        self._thread = threading.Thread(target=self._run, args=(ready,), name="apiserver", daemon=True)
        self._thread.start()
        ready.wait()
        if self._failure is not None:
            self._thread.join()
            self._thread = None
            raise self._failure
        return self

    def call(self, function: Callable[[], None]) -> None:
        """Run a function in the server's loop, such as `store.compact`, and wait for its end."""
        loop = self._loop
        if loop is None:
            raise RuntimeError("the API server is not running")

        async def run() -> None:
            function()

        asyncio.run_coroutine_threadsafe(run(), loop).result()

    def stop(self) -> None:
        """End all watches and connections and wait for the thread; stopping twice does no harm."""
        thread, loop, stopping = self._thread, self._loop, self._stopping
        if thread is None or loop is None or stopping is None:
            return
        loop.call_soon_threadsafe(stopping.set)
        thread.join(_STOP_SECONDS)
        if thread.is_alive():
            raise RuntimeError(f"the API server did not stop within {_STOP_SECONDS:.0f} s")
        self._thread = self._loop = self._stopping = None

    def _run(self, ready: threading.Event) -> None:
        try:
            asyncio.run(self._main(ready))
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits in start()
            self._failure = error
        finally:
            ready.set()

    async def _main(self, ready: threading.Event) -> None:
        server = ApiServer(self._config, self._state)
        await server.start()
        self._state, self._url = server.state, server.url
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        ready.set()
        await self._stopping.wait()
        await server.stop()
