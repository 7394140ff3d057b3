"""The kubelet's HTTPS server: logs of containers, Pods, health, metrics."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from aiohttp import web

from clusters import tls
from clusters.clock import Clock
from clusters.containers.log_reader import read_logs
from clusters.containers.model import ContainerState, RuntimeServiceError
from clusters.containers.runtime.runtime import Runtime
from clusters.embedded.kubelet.config import KubeletConfig
from clusters.embedded.kubelet.dra.claims import ClaimCache
from clusters.embedded.kubelet.pods import objects
from clusters.embedded.kubelet.pods.container_status import ID_PREFIX
from clusters.embedded.kubelet.pods.objects import Object
from clusters.embedded.kubelet.pods.source import PodSource
from clusters.embedded.kubelet.pods.status_manager import StatusManager
from clusters.embedded.kubelet.serving.log_options import LogRequestError, read_options, wants_previous
from clusters.embedded.kubelet.serving.metrics import Metrics
from clusters.embedded.kubelet.threads import in_thread
from clusters.tls_listener import TlsListener

_OPEN: Final = ("/healthz",)
_SHUTDOWN_SECONDS: Final = 0.2


class KubeletServer:
    """The server of one life of a kubelet."""

    def __init__(
        self,
        config: KubeletConfig,
        clock: Clock,
        source: PodSource,
        statuses: StatusManager,
        runtime: Runtime,
        cache: ClaimCache,
        metrics: Metrics,
    ) -> None:
        self._config, self._clock, self._source, self._statuses = config, clock, source, statuses
        self._runtime, self._cache, self._metrics = runtime, cache, metrics
        self._runner: web.AppRunner | None = None
        self._listener: TlsListener | None = None

    async def start(self) -> int:
        """Listen on a free port of the node's address; returns the port."""
        application = web.Application(middlewares=[self._authorize])
        application.router.add_get("/healthz", self._healthz)
        application.router.add_get("/pods", self._pods)
        application.router.add_get("/metrics", self._metrics_text)
        application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs)
        self._runner = web.AppRunner(
            application, access_log=None, handler_cancellation=True, shutdown_timeout=_SHUTDOWN_SECONDS
        )
        await self._runner.setup()
        certificates = self._config.certificates
        if certificates is None:
            certificates = await in_thread(tls.generate, self._config.node_ip)
        assert self._runner.server is not None  # noqa: S101 - made by setup
        self._listener = TlsListener(self._runner.server, certificates.server_context())
        return self._listener.start(self._config.node_ip, 0)

    async def close(self) -> None:
        """Close the socket and all connections."""
        if self._listener is not None:
            self._listener.close()
        if self._runner is not None:
            await self._runner.cleanup()
        if self._listener is not None:
            await self._listener.break_connections()

    @web.middleware
    async def _authorize(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        sent = request.headers.get("Authorization", "")
        token = self._config.api_token
        known = bool(token) and hmac.compare_digest(sent.encode(), f"Bearer {token}".encode())
        if request.path in _OPEN or known:
            return await handler(request)
        return web.Response(status=401, text="Unauthorized")

    async def _healthz(self, request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _metrics_text(self, request: web.Request) -> web.Response:
        text = self._metrics.text(self._cache.in_use())
        return web.Response(
            body=text.encode(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )

    async def _pods(self, request: web.Request) -> web.Response:
        items = []
        for pod in self._source.pods():
            plain = {key: item for key, item in pod.items() if key not in ("apiVersion", "kind")}
            status = self._statuses.get(objects.uid(pod))
            items.append({**plain, "status": status} if status is not None else plain)
        body = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}
        return web.json_response(body, dumps=lambda value: json.dumps(value, separators=(",", ":")))

    # Logs

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        info = request.match_info
        name = info["container"]
        try:
            options = read_options(request.query, self._clock.now())
            pod = self._source.find(info["namespace"], info["pod"])
            if pod is None:
                raise LogRequestError(404, f'pod "{info["pod"]}" does not exist')
            if objects.find_container(pod, name) is None:
                raise LogRequestError(404, f'container "{name}" not found in pod "{info["pod"]}"')
            status = self._statuses.get(objects.uid(pod)) or objects.status(pod)
            container_id = container_of_log(
                objects.name(pod), status, name, previous=wants_previous(request.query)
            )
        except LogRequestError as error:
            return web.Response(status=error.status, text=str(error))
        try:
            found = await self._runtime.container_status(container_id)
        except RuntimeServiceError:
            text = f"unable to retrieve container logs for {ID_PREFIX}{container_id}"
            return web.Response(text=text)
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        ended = asyncio.Event()
        watcher = asyncio.create_task(self._note_end(container_id, ended))
        try:
            # A container that never started has no log.
            with contextlib.suppress(FileNotFoundError):
                async for piece in read_logs(Path(found.log_path), options, lambda: not ended.is_set()):
                    await response.write(piece)
        finally:
            watcher.cancel()
        await response.write_eof()
        return response

    async def _note_end(self, container_id: str, ended: asyncio.Event) -> None:
        changes = self._runtime.changes()
        with contextlib.suppress(RuntimeServiceError):
            while (await self._runtime.container_status(container_id)).state is not ContainerState.EXITED:
                await anext(changes)
        ended.set()


def container_of_log(pod_name: str, status: Object, name: str, *, previous: bool) -> str:
    """The id of the container whose log is meant. Raises LogRequestError (400) when there is none."""
    everyone = [
        *(status.get("containerStatuses") or []),
        *(status.get("initContainerStatuses") or []),
    ]
    found = next((item for item in everyone if item["name"] == name), None)
    where = f'container "{name}" in pod "{pod_name}"'
    if found is None:
        raise LogRequestError(400, f"{where} is not available")
    state, last = found["state"], (found.get("lastState") or {}).get("terminated")
    ended = state.get("terminated")
    if previous:
        if last is None or not last.get("containerID"):
            raise LogRequestError(
                400, f'previous terminated container "{name}" in pod "{pod_name}" not found'
            )
        chosen = last["containerID"]
    elif "running" in state:
        chosen = found["containerID"]
    elif ended is not None or last is not None:
        chosen = (ended or {}).get("containerID") or (last or {}).get("containerID")
        if not chosen:
            raise LogRequestError(400, f"{where} is terminated")
    else:
        reason = (state.get("waiting") or {}).get("reason")
        if reason is None and "waiting" not in state:
            raise LogRequestError(400, f"{where} is waiting to start - no logs yet")
        raise LogRequestError(400, f"{where} is waiting to start: {reason or ''}")
    return str(chosen).removeprefix(ID_PREFIX)
