"""The runtimes of several nodes, each served on a socket of its own, in one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import grpc

from clusters.clock import Clock
from clusters.containers.runtime import Runtime
from clusters.local.cri.config import NodeConfig
from clusters.local.cri.image_service import ImageService
from clusters.local.cri.rpc import service
from clusters.local.cri.runtime_service import RuntimeService
from node_api.sockets import AioServedSocket, serve_aio

_MESSAGE_BYTES: Final = 16 * 1024 * 1024
"""Largest message that a kubelet sends and takes."""
_OPTIONS: Final = (
    # Without this option gRPC lets several servers bind one address, which hides a second instance.
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", _MESSAGE_BYTES),
    ("grpc.max_send_message_length", _MESSAGE_BYTES),
)


@dataclass(frozen=True)
class _Served:
    config: NodeConfig
    runtime: Runtime
    socket: AioServedSocket

    async def close(self) -> None:
        # Ending the runtime first ends the calls that wait for containers, and the streams of events.
        self.socket.unlink()
        await self.runtime.close()
        await self.socket.close()


class CriServer:
    """Serves nodes. All methods belong to one event loop."""

    def __init__(self, clock: Clock) -> None:
        """`clock` is the time of all containers."""
        self._clock = clock
        self._served: dict[str, _Served] = {}

    async def serve(self, nodes: Iterable[NodeConfig]) -> None:
        """Serve these nodes and no others; those that are served already go on as they are.

        Raises:
            ValueError: for a node that would have to be changed.
            OSError, SocketPathError: for a socket or a folder that cannot be made.
        """
        wanted = {node.name: node for node in nodes}
        for name, served in self._served.items():
            if name in wanted and wanted[name] != served.config:
                raise ValueError(f"node {name}: a runtime that is served cannot be changed")
        for name in [name for name in self._served if name not in wanted]:
            await self._served.pop(name).close()
        for name, node in wanted.items():
            if name not in self._served:
                self._served[name] = await self._start(node)

    async def close(self) -> None:
        """End all runtimes with their containers, and remove the sockets."""
        served, self._served = list(self._served.values()), {}
        await asyncio.gather(*(one.close() for one in served))

    async def _start(self, node: NodeConfig) -> _Served:
        node.root.mkdir(parents=True, exist_ok=True)
        runtime = Runtime(node.cdi_dirs, node.root, self._clock, node.pod_cidr, hostname=node.name)
        server = grpc.aio.server(options=_OPTIONS)
        server.add_generic_rpc_handlers(
            (
                service("RuntimeService", RuntimeService(runtime, self._clock, node.root).calls()),
                service("ImageService", ImageService(runtime, self._clock, node.root).calls()),
            )
        )
        return _Served(node, runtime, await serve_aio(server, node.socket))
