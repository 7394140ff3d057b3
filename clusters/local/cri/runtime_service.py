"""The RuntimeService of the CRI: sandboxes and containers of one node."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

from clusters.clock import Clock
from clusters.containers import probe
from clusters.containers.model import (
    HANDLER_FEATURES,
    HANDLERS,
    RUNTIME_NAME,
    RUNTIME_VERSION,
    ContainerState,
    ContainerStatus,
    RuntimeServiceError,
    Sandbox,
)
from clusters.containers.runtime import Runtime
from clusters.local.cri import answers, requests
from clusters.local.cri.filters import container_matches, sandbox_matches
from clusters.local.cri.rpc import Call, Stream
from clusters.local.cri.usage_service import UsageService
from node_api.gen import cri_v1_pb2 as pb

_API_VERSION: Final = "v1"
_INTERFACE_VERSION: Final = "0.1.0"
"""What kubelets give and ask for as version of their side of the interface."""
_NO_PROCESSES: Final = (
    "this is drakit's simulated container runtime: its containers are not real processes, so {what}; "
    "have a container print what you want to know (its command probe prints all that it sees) and read its log "
    "with kubectl logs"
)
_REFUSED: Final = {
    "Exec": "no command can be run in them",
    "Attach": "nothing can be attached to them",
    "PortForward": "no port of theirs can be reached",
    "CheckpointContainer": "no checkpoint can be made of them",
    "CheckpointPod": "no checkpoint can be made of them",
    "RestorePod": "none can be restored from a checkpoint",
}


class RuntimeService:
    """Answers for one node."""

    def __init__(self, runtime: Runtime, clock: Clock, root: Path) -> None:
        """`root` is the folder of the runtime."""
        self._runtime, self._clock, self._root = runtime, clock, root
        self._usage = UsageService(runtime, clock, root)

    def calls(self) -> Mapping[str, Call | Stream]:
        """What answers, by name of the method."""
        return {
            "Version": self._version,
            "Status": self._status,
            "RuntimeConfig": self._runtime_config,
            "UpdateRuntimeConfig": self._update_runtime_config,
            "RunPodSandbox": self._run_pod_sandbox,
            "StopPodSandbox": self._stop_pod_sandbox,
            "RemovePodSandbox": self._remove_pod_sandbox,
            "PodSandboxStatus": self._pod_sandbox_status,
            "ListPodSandbox": self._list_pod_sandbox,
            "StreamPodSandboxes": self._stream_pod_sandboxes,
            "UpdatePodSandboxResources": self._update_pod_sandbox_resources,
            "CreateContainer": self._create_container,
            "StartContainer": self._start_container,
            "StopContainer": self._stop_container,
            "RemoveContainer": self._remove_container,
            "ListContainers": self._list_containers,
            "StreamContainers": self._stream_containers,
            "ContainerStatus": self._container_status,
            "UpdateContainerResources": self._update_container_resources,
            "ReopenContainerLog": self._reopen_container_log,
            "GetContainerEvents": self._get_container_events,
            "ExecSync": self._exec_sync,
            **{name: _refusal(what) for name, what in _REFUSED.items()},
            **self._usage.calls(),
        }

    # The runtime itself

    async def _version(self, _request: pb.VersionRequest) -> pb.VersionResponse:
        return pb.VersionResponse(
            version=_INTERFACE_VERSION,
            runtime_name=RUNTIME_NAME,
            runtime_version=RUNTIME_VERSION,
            runtime_api_version=_API_VERSION,
        )

    async def _status(self, _request: pb.StatusRequest) -> pb.StatusResponse:
        conditions = [
            pb.RuntimeCondition(type=kind, status=True) for kind in ("RuntimeReady", "NetworkReady")
        ]
        features = pb.RuntimeHandlerFeatures(
            recursive_read_only_mounts=HANDLER_FEATURES["recursiveReadOnlyMounts"],
            user_namespaces=HANDLER_FEATURES["userNamespaces"],
        )
        return pb.StatusResponse(
            status=pb.RuntimeStatus(conditions=conditions),
            runtime_handlers=[pb.RuntimeHandler(name=name, features=features) for name in HANDLERS],
            features=pb.RuntimeFeatures(supplemental_groups_policy=True),
        )

    async def _runtime_config(self, _request: pb.RuntimeConfigRequest) -> pb.RuntimeConfigResponse:
        return pb.RuntimeConfigResponse(linux=pb.LinuxRuntimeConfiguration(cgroup_driver=pb.CGROUPFS))

    async def _update_runtime_config(
        self, _request: pb.UpdateRuntimeConfigRequest
    ) -> pb.UpdateRuntimeConfigResponse:
        # The addresses are the configuration's: containerd ignores the kubelet's too, if CNI is configured.
        return pb.UpdateRuntimeConfigResponse()

    # Sandboxes

    async def _run_pod_sandbox(self, request: pb.RunPodSandboxRequest) -> pb.RunPodSandboxResponse:
        config = requests.sandbox_config(request.config, request.runtime_handler)
        return pb.RunPodSandboxResponse(pod_sandbox_id=await self._runtime.run_pod_sandbox(config))

    async def _stop_pod_sandbox(self, request: pb.StopPodSandboxRequest) -> pb.StopPodSandboxResponse:
        await self._runtime.stop_pod_sandbox(request.pod_sandbox_id)
        return pb.StopPodSandboxResponse()

    async def _remove_pod_sandbox(self, request: pb.RemovePodSandboxRequest) -> pb.RemovePodSandboxResponse:
        await self._runtime.remove_pod_sandbox(request.pod_sandbox_id)
        return pb.RemovePodSandboxResponse()

    async def _pod_sandbox_status(self, request: pb.PodSandboxStatusRequest) -> pb.PodSandboxStatusResponse:
        found = await self._runtime.pod_sandbox_status(request.pod_sandbox_id)
        containers = [
            answers.container_status(status)
            for status in await self._runtime.list_containers()
            if status.sandbox_id == found.id
        ]
        return pb.PodSandboxStatusResponse(
            status=answers.sandbox_status(found),
            info={"info": json.dumps({"pid": 0})} if request.verbose else {},
            containers_statuses=containers,
            timestamp=answers.nanoseconds(self._clock.now()),
        )

    async def _sandboxes(self, wanted: pb.PodSandboxFilter) -> list[Sandbox]:
        return [found for found in await self._runtime.list_pod_sandboxes() if sandbox_matches(wanted, found)]

    async def _list_pod_sandbox(self, request: pb.ListPodSandboxRequest) -> pb.ListPodSandboxResponse:
        found = await self._sandboxes(request.filter)
        return pb.ListPodSandboxResponse(items=[answers.sandbox(one) for one in found])

    async def _stream_pod_sandboxes(
        self, request: pb.StreamPodSandboxesRequest
    ) -> AsyncIterator[pb.StreamPodSandboxesResponse]:
        for one in await self._sandboxes(request.filter):
            yield pb.StreamPodSandboxesResponse(pod_sandboxes=[answers.sandbox(one)])

    async def _update_pod_sandbox_resources(
        self, request: pb.UpdatePodSandboxResourcesRequest
    ) -> pb.UpdatePodSandboxResourcesResponse:
        # Nothing shows the limits of a sandbox, here as with containerd.
        await self._runtime.pod_sandbox_status(request.pod_sandbox_id)
        return pb.UpdatePodSandboxResourcesResponse()

    # Containers

    async def _create_container(self, request: pb.CreateContainerRequest) -> pb.CreateContainerResponse:
        config = requests.container_config(request.config, self._image_folder)
        container_id = await self._runtime.create_container(request.pod_sandbox_id, config)
        return pb.CreateContainerResponse(container_id=container_id)

    def _image_folder(self, image: str) -> str:
        """Images have no content, so a volume that is one is an empty folder."""
        folder = self._root / "images" / image.rpartition(":")[2].replace("/", "_")
        folder.mkdir(parents=True, exist_ok=True)
        return str(folder)

    async def _start_container(self, request: pb.StartContainerRequest) -> pb.StartContainerResponse:
        await self._runtime.start_container(request.container_id)
        return pb.StartContainerResponse()

    async def _stop_container(self, request: pb.StopContainerRequest) -> pb.StopContainerResponse:
        await self._runtime.stop_container(request.container_id, request.timeout)
        return pb.StopContainerResponse()

    async def _remove_container(self, request: pb.RemoveContainerRequest) -> pb.RemoveContainerResponse:
        await self._runtime.remove_container(request.container_id)
        return pb.RemoveContainerResponse()

    async def _containers(self, wanted: pb.ContainerFilter) -> list[ContainerStatus]:
        return [found for found in await self._runtime.list_containers() if container_matches(wanted, found)]

    async def _list_containers(self, request: pb.ListContainersRequest) -> pb.ListContainersResponse:
        found = await self._containers(request.filter)
        return pb.ListContainersResponse(containers=[answers.container(one) for one in found])

    async def _stream_containers(
        self, request: pb.StreamContainersRequest
    ) -> AsyncIterator[pb.StreamContainersResponse]:
        for one in await self._containers(request.filter):
            yield pb.StreamContainersResponse(containers=[answers.container(one)])

    async def _container_status(self, request: pb.ContainerStatusRequest) -> pb.ContainerStatusResponse:
        found = await self._runtime.container_status(request.container_id)
        info = {}
        if request.verbose:
            seen = self._runtime.container_view(found.id)
            document: dict[str, Any] = {
                "sandboxID": found.sandbox_id,
                "pid": 0,
                "removing": False,
                "probe": probe.document(seen, seen.environment),
            }
            info["info"] = json.dumps(document)
        return pb.ContainerStatusResponse(status=answers.container_status(found), info=info)

    async def _update_container_resources(
        self, request: pb.UpdateContainerResourcesRequest
    ) -> pb.UpdateContainerResourcesResponse:
        await self._runtime.update_container_resources(
            request.container_id, requests.resources(request.linux)
        )
        return pb.UpdateContainerResourcesResponse()

    async def _reopen_container_log(
        self, request: pb.ReopenContainerLogRequest
    ) -> pb.ReopenContainerLogResponse:
        found = await self._runtime.container_status(request.container_id)
        if found.state is not ContainerState.RUNNING:
            raise RuntimeServiceError("Unknown", "container is not running")
        await self._runtime.reopen_container_log(request.container_id)
        return pb.ReopenContainerLogResponse()

    async def _get_container_events(
        self, _request: pb.GetEventsRequest
    ) -> AsyncIterator[pb.ContainerEventResponse]:
        async for event in self._runtime.events():
            yield answers.event(event)

    async def _exec_sync(self, request: pb.ExecSyncRequest) -> pb.ExecSyncResponse:
        result = await self._runtime.exec_sync(request.container_id, tuple(request.cmd), request.timeout)
        return pb.ExecSyncResponse(
            stdout=result.stdout.encode("utf-8", "surrogateescape"),
            stderr=result.stderr.encode("utf-8", "surrogateescape"),
            exit_code=result.exit_code,
        )


def _refusal(what: str) -> Call:
    async def refuse(_request: Any) -> NoReturn:
        raise RuntimeServiceError("Unimplemented", _NO_PROCESSES.format(what=what))

    return refuse
