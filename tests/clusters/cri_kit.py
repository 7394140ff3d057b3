"""What the tests of the CRI server share: a served node, and a kubelet's calls to it."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from clusters.clock import Clock
from clusters.local.cri.config import NodeConfig
from clusters.local.cri.server import CriServer
from node_api.gen import cri_v1_pb2 as pb
from node_api.gen import cri_v1_pb2_grpc as stubs

PATIENCE = 10.0


@dataclass
class Node:
    """A node that is served, with clients of its two services."""

    root: Path
    config: NodeConfig
    server: CriServer
    runtime: Any
    images: Any

    async def sandbox(self, name: str = "pod", *, attempt: int = 0, **fields: Any) -> str:
        """Run a sandbox as a kubelet does; returns its id."""
        handler = fields.pop("handler", "")
        config = pb.PodSandboxConfig(
            metadata=pb.PodSandboxMetadata(
                name=name, uid=f"uid-{name}", namespace="default", attempt=attempt
            ),
            **{
                "hostname": name,
                "log_directory": str(self.root / "logs" / name),
                "labels": {"io.kubernetes.pod.name": name},
                "annotations": {"note": "kept"},
                **fields,
            },
        )
        answer = await self.runtime.RunPodSandbox(
            pb.RunPodSandboxRequest(config=config, runtime_handler=handler)
        )
        return str(answer.pod_sandbox_id)

    async def container(
        self,
        sandbox: str,
        command: Sequence[str],
        *,
        name: str = "c",
        attempt: int = 0,
        image: str = "busybox",
        **fields: Any,
    ) -> str:
        """Create a container; returns its id."""
        config = pb.ContainerConfig(
            metadata=pb.ContainerMetadata(name=name, attempt=attempt),
            image=pb.ImageSpec(image=image),
            command=command,
            log_path=f"{name}/{attempt}.log",
            labels={"io.kubernetes.container.name": name},
            **fields,
        )
        answer = await self.runtime.CreateContainer(
            pb.CreateContainerRequest(pod_sandbox_id=sandbox, config=config)
        )
        return str(answer.container_id)

    async def started(self, *command: str, **fields: Any) -> str:
        """A started container in a sandbox of its own."""
        container = await self.container(await self.sandbox(), command, **fields)
        await self.runtime.StartContainer(pb.StartContainerRequest(container_id=container))
        return container

    async def status(self, container: str) -> Any:
        """The status of a container."""
        answer = await self.runtime.ContainerStatus(pb.ContainerStatusRequest(container_id=container))
        return answer.status

    async def ended(self, container: str) -> Any:
        """The status of a container once it has exited."""
        async with asyncio.timeout(PATIENCE):
            while (status := await self.status(container)).state != pb.CONTAINER_EXITED:
                await asyncio.sleep(0.01)
        return status

    async def log(self, container: str, lines: int = 0) -> list[str]:
        """The texts in the log of a container, once there are `lines` of them."""
        path = Path((await self.status(container)).log_path)
        async with asyncio.timeout(PATIENCE):
            while len(found := path.read_text().splitlines()) < lines:
                await asyncio.sleep(0.01)
        return [line.split(" ", 3)[3] for line in found]


@asynccontextmanager
async def serving(clock: Clock | None = None) -> AsyncIterator[Node]:
    """A served node in a folder that vanishes."""
    root = Path(tempfile.mkdtemp(prefix="cri"))
    (root / "cdi").mkdir()
    config = NodeConfig("n1", root / "cri.sock", (root / "cdi",), root / "runtime", "10.244.7.0/24")
    server = CriServer(clock or Clock())
    try:
        await server.serve([config])
        async with connected(config.socket) as (runtime, images):
            yield Node(root, config, server, runtime, images)
    finally:
        await server.close()
        shutil.rmtree(root)


@asynccontextmanager
async def connected(socket: Path) -> AsyncIterator[tuple[Any, Any]]:
    """Clients of the two services on a socket."""
    options = (("grpc.default_authority", "localhost"), ("grpc.use_local_subchannel_pool", 1))
    async with grpc.aio.insecure_channel(f"unix:{socket}", options=options) as channel:
        yield stubs.RuntimeServiceStub(channel), stubs.ImageServiceStub(channel)


async def refusal(call: Any) -> tuple[grpc.StatusCode, str]:
    """Code and text of a call that must fail."""
    try:
        answer = await call
    except grpc.aio.AioRpcError as problem:
        return problem.code(), problem.details() or ""
    raise AssertionError(f"was not refused: {answer}")


def limits(**values: Any) -> Mapping[str, Any]:
    """The part of a ContainerConfig that gives limits."""
    return {"linux": pb.LinuxContainerConfig(resources=pb.LinuxContainerResources(**values))}
