"""The Pod resources API: which devices the containers of the node's Pods have."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent import futures
from pathlib import Path
from typing import Any, Final, TypeVar

import grpc

from clusters.embedded.kubelet.dra.claims import ClaimError
from clusters.embedded.kubelet.dra.manager import ClaimManager
from clusters.embedded.kubelet.pods import objects
from clusters.embedded.kubelet.pods.objects import Object
from clusters.embedded.kubelet.pods.source import PodSource
from node_api import sockets
from node_api.gen import pod_resources_v1_pb2 as messages
from node_api.gen.pod_resources_v1_pb2_grpc import (
    PodResourcesListerServicer,
    add_PodResourcesListerServicer_to_server,
)

_ANSWER_SECONDS: Final = 10.0
Answer = TypeVar("Answer")


class PodResourcesServer(PodResourcesListerServicer):
    """The server of one life of a kubelet; answers are made in the loop of the kubelet."""

    def __init__(self, path: Path, source: PodSource, claims: ClaimManager) -> None:
        self._path, self._source, self._claims = path, source, claims
        self._served: sockets.ServedSocket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Listen. Raises OSError or SocketPathError."""
        self._loop = loop
        # The socket of a life before, which was killed, may be there still.
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
        server = grpc.server(futures.ThreadPoolExecutor(2, thread_name_prefix="pod-resources"))
        add_PodResourcesListerServicer_to_server(self, server)  # type: ignore[no-untyped-call]
        self._served = sockets.serve(server, self._path)

    def close(self) -> None:
        """Stop to listen."""
        if self._served is not None:
            self._served.close()

    def _in_loop(self, function: Callable[[], Answer]) -> Answer:
        done = threading.Event()
        outcome: list[Any] = []

        def work() -> None:
            try:
                outcome.append(function())
            except Exception as error:  # noqa: BLE001 - raised again in the thread of the call
                outcome.append(error)
            done.set()

        if self._loop is None or self._loop.is_closed():
            raise RuntimeError("the kubelet has ended")
        self._loop.call_soon_threadsafe(work)
        if not done.wait(_ANSWER_SECONDS):
            raise RuntimeError("the kubelet does not answer")
        if isinstance(outcome[0], Exception):
            raise outcome[0]
        answer: Answer = outcome[0]
        return answer

    # Names of the service's methods

    def List(  # noqa: N802
        self, request: messages.ListPodResourcesRequest, context: grpc.ServicerContext
    ) -> messages.ListPodResourcesResponse:
        """All active Pods."""

        def answer() -> messages.ListPodResourcesResponse:
            return messages.ListPodResourcesResponse(
                pod_resources=[self._pod(pod) for pod in self._source.active()]
            )

        return self._in_loop(answer)

    def Get(  # noqa: N802
        self, request: messages.GetPodResourcesRequest, context: grpc.ServicerContext
    ) -> messages.GetPodResourcesResponse:
        """One Pod."""

        def answer() -> messages.PodResources | None:
            pod = self._source.find(request.pod_namespace, request.pod_name)
            return None if pod is None else self._pod(pod)

        found = self._in_loop(answer)
        if found is None:
            text = f"pod {request.pod_name} in namespace {request.pod_namespace} not found"
            context.abort(grpc.StatusCode.UNKNOWN, text)
        return messages.GetPodResourcesResponse(pod_resources=found)

    def GetAllocatableResources(  # noqa: N802
        self, request: messages.AllocatableResourcesRequest, context: grpc.ServicerContext
    ) -> messages.AllocatableResourcesResponse:
        """No device of a driver; without a static CPU manager no CPUs either."""
        return messages.AllocatableResourcesResponse()

    def _pod(self, pod: Object) -> messages.PodResources:
        listed = [item for item in objects.init_containers(pod) if objects.is_sidecar(item)]
        return messages.PodResources(
            name=objects.name(pod),
            namespace=objects.namespace(pod),
            containers=[
                messages.ContainerResources(
                    name=container["name"], dynamic_resources=self._claimed(pod, container)
                )
                for container in (*listed, *objects.containers(pod))
            ],
        )

    def _claimed(self, pod: Object, container: Object) -> list[messages.DynamicResource]:
        try:
            infos = self._claims.container_claims(pod, container)
        except ClaimError:
            return []
        result = []
        for info in infos:
            resources = []
            for driver in sorted(info.drivers):
                # As in a real kubelet each device also lists the CDI names of those before it.
                names: list[messages.CDIDevice] = []
                for device in info.drivers[driver].devices:
                    names += [messages.CDIDevice(name=name) for name in device.cdi_device_ids]
                    resources.append(
                        messages.ClaimResource(
                            cdi_devices=names,
                            driver_name=driver,
                            pool_name=device.pool_name,
                            device_name=device.device_name,
                            share_id=device.share_id,
                        )
                    )
            result.append(
                messages.DynamicResource(
                    claim_name=info.name, claim_namespace=info.namespace, claim_resources=resources
                )
            )
        return result
