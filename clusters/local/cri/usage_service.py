"""The part of the RuntimeService that tells what is used."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from clusters.clock import Clock
from clusters.containers.model import ContainerState, ContainerStatus, Sandbox, SandboxState
from clusters.containers.runtime import Runtime
from clusters.local.cri import answers, usage
from clusters.local.cri.filters import container_matches, sandbox_matches
from clusters.local.cri.rpc import Call, Stream
from node_api.gen import cri_v1_pb2 as pb


class UsageService:
    """Answers for one node."""

    def __init__(self, runtime: Runtime, clock: Clock, root: Path) -> None:
        """`root` is the folder of the runtime."""
        self._runtime, self._clock, self._root = runtime, clock, root

    def calls(self) -> Mapping[str, Call | Stream]:
        """What answers, by name of the method."""
        return {
            "ContainerStats": self._container_stats,
            "ListContainerStats": self._list_container_stats,
            "StreamContainerStats": self._stream_container_stats,
            "PodSandboxStats": self._pod_sandbox_stats,
            "ListPodSandboxStats": self._list_pod_sandbox_stats,
            "StreamPodSandboxStats": self._stream_pod_sandbox_stats,
            "ListMetricDescriptors": self._list_metric_descriptors,
            "ListPodSandboxMetrics": self._list_pod_sandbox_metrics,
            "StreamPodSandboxMetrics": self._stream_pod_sandbox_metrics,
        }

    @property
    def _now(self) -> int:
        return answers.nanoseconds(self._clock.now())

    def _container(self, found: ContainerStatus) -> pb.ContainerStats:
        return usage.container(found, self._root, self._now)

    async def _sandbox(self, found: Sandbox) -> pb.PodSandboxStats:
        containers = [
            one
            for one in await self._runtime.list_containers()
            if one.sandbox_id == found.id and one.state is ContainerState.RUNNING
        ]
        return usage.sandbox(found, containers, self._root, self._now)

    async def _containers(self, wanted: pb.ContainerStatsFilter) -> list[pb.ContainerStats]:
        return [
            self._container(found)
            for found in await self._runtime.list_containers()
            if found.state is ContainerState.RUNNING and container_matches(wanted, found)
        ]

    async def _sandboxes(self, wanted: pb.PodSandboxStatsFilter) -> list[pb.PodSandboxStats]:
        return [
            await self._sandbox(found)
            for found in await self._runtime.list_pod_sandboxes()
            if found.state is SandboxState.READY and sandbox_matches(wanted, found)
        ]

    async def _container_stats(self, request: pb.ContainerStatsRequest) -> pb.ContainerStatsResponse:
        found = await self._runtime.container_status(request.container_id)
        return pb.ContainerStatsResponse(stats=self._container(found))

    async def _list_container_stats(
        self, request: pb.ListContainerStatsRequest
    ) -> pb.ListContainerStatsResponse:
        return pb.ListContainerStatsResponse(stats=await self._containers(request.filter))

    async def _stream_container_stats(
        self, request: pb.StreamContainerStatsRequest
    ) -> AsyncIterator[pb.StreamContainerStatsResponse]:
        for stats in await self._containers(request.filter):
            yield pb.StreamContainerStatsResponse(container_stats=[stats])

    async def _pod_sandbox_stats(self, request: pb.PodSandboxStatsRequest) -> pb.PodSandboxStatsResponse:
        found = await self._runtime.pod_sandbox_status(request.pod_sandbox_id)
        return pb.PodSandboxStatsResponse(stats=await self._sandbox(found))

    async def _list_pod_sandbox_stats(
        self, request: pb.ListPodSandboxStatsRequest
    ) -> pb.ListPodSandboxStatsResponse:
        return pb.ListPodSandboxStatsResponse(stats=await self._sandboxes(request.filter))

    async def _stream_pod_sandbox_stats(
        self, request: pb.StreamPodSandboxStatsRequest
    ) -> AsyncIterator[pb.StreamPodSandboxStatsResponse]:
        for stats in await self._sandboxes(request.filter):
            yield pb.StreamPodSandboxStatsResponse(pod_sandbox_stats=[stats])

    async def _list_metric_descriptors(
        self, _request: pb.ListMetricDescriptorsRequest
    ) -> pb.ListMetricDescriptorsResponse:
        return pb.ListMetricDescriptorsResponse()

    async def _metrics(self) -> list[pb.PodSandboxMetrics]:
        return [
            pb.PodSandboxMetrics(pod_sandbox_id=one.id) for one in await self._runtime.list_pod_sandboxes()
        ]

    async def _list_pod_sandbox_metrics(
        self, _request: pb.ListPodSandboxMetricsRequest
    ) -> pb.ListPodSandboxMetricsResponse:
        return pb.ListPodSandboxMetricsResponse(pod_metrics=await self._metrics())

    async def _stream_pod_sandbox_metrics(
        self, _request: pb.StreamPodSandboxMetricsRequest
    ) -> AsyncIterator[pb.StreamPodSandboxMetricsResponse]:
        for metrics in await self._metrics():
            yield pb.StreamPodSandboxMetricsResponse(pod_sandbox_metrics=[metrics])
