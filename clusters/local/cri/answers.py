"""From the records of the runtime to messages of the CRI."""

from __future__ import annotations

from clusters.containers.model import (
    ContainerConfig,
    ContainerStatus,
    Image,
    LinuxResources,
    Mount,
    Sandbox,
    SandboxConfig,
)
from clusters.containers.runtime.changes import Event
from node_api.gen import cri_v1_pb2 as pb


def nanoseconds(moment: float | None) -> int:
    """Seconds since the epoch as CRI counts them; microseconds are what a float holds today."""
    return 0 if moment is None else round(moment * 1_000_000) * 1000


def sandbox_metadata(config: SandboxConfig) -> pb.PodSandboxMetadata:
    """What a sandbox is called by the kubelet."""
    return pb.PodSandboxMetadata(
        name=config.name, uid=config.uid, namespace=config.namespace, attempt=config.attempt
    )


def container_metadata(config: ContainerConfig) -> pb.ContainerMetadata:
    """What a container is called by the kubelet."""
    return pb.ContainerMetadata(name=config.name, attempt=config.attempt)


def sandbox(found: Sandbox) -> pb.PodSandbox:
    """A sandbox in a list."""
    return pb.PodSandbox(
        id=found.id,
        metadata=sandbox_metadata(found.config),
        state=found.state,
        created_at=nanoseconds(found.created_at),
        labels=found.config.labels,
        annotations=found.config.annotations,
        runtime_handler=found.config.runtime_handler,
    )


def sandbox_status(found: Sandbox) -> pb.PodSandboxStatus:
    """All about a sandbox."""
    options = pb.NamespaceOption(
        network=pb.NODE if found.config.host_network else pb.POD,
        pid=found.config.pid_namespace,
        ipc=found.config.ipc_namespace,
    )
    return pb.PodSandboxStatus(
        id=found.id,
        metadata=sandbox_metadata(found.config),
        state=found.state,
        created_at=nanoseconds(found.created_at),
        network=pb.PodSandboxNetworkStatus(ip=found.ip),
        linux=pb.LinuxPodSandboxStatus(namespaces=pb.Namespace(options=options)),
        labels=found.config.labels,
        annotations=found.config.annotations,
        runtime_handler=found.config.runtime_handler,
    )


def container(found: ContainerStatus) -> pb.Container:
    """A container in a list."""
    return pb.Container(
        id=found.id,
        pod_sandbox_id=found.sandbox_id,
        metadata=container_metadata(found.config),
        image=pb.ImageSpec(image=found.image),
        image_ref=found.image_ref,
        image_id=found.image_id,
        state=found.state,
        created_at=nanoseconds(found.created_at),
        labels=found.config.labels,
        annotations=found.config.annotations,
    )


def container_status(found: ContainerStatus) -> pb.ContainerStatus:
    """All about a container."""
    user = pb.LinuxContainerUser(
        uid=found.user.uid, gid=found.user.gid, supplemental_groups=found.user.groups
    )
    return pb.ContainerStatus(
        id=found.id,
        metadata=container_metadata(found.config),
        state=found.state,
        created_at=nanoseconds(found.created_at),
        started_at=nanoseconds(found.started_at),
        finished_at=nanoseconds(found.finished_at),
        exit_code=found.exit_code,
        image=pb.ImageSpec(image=found.image),
        image_ref=found.image_ref,
        image_id=found.image_id,
        reason=found.reason,
        message=found.message,
        labels=found.config.labels,
        annotations=found.config.annotations,
        mounts=[_mount(mount) for mount in found.config.mounts],
        log_path=found.log_path,
        resources=pb.ContainerResources(linux=_resources(found.config.resources)),
        user=pb.ContainerUser(linux=user),
        stop_signal=found.config.stop_signal,
    )


def _mount(mount: Mount) -> pb.Mount:
    return pb.Mount(
        container_path=mount.container_path,
        host_path=mount.host_path,
        readonly=mount.readonly,
        recursive_read_only=mount.recursive_readonly,
        propagation=mount.propagation,
    )


def _resources(given: LinuxResources) -> pb.LinuxContainerResources:
    return pb.LinuxContainerResources(
        cpu_period=given.cpu_period,
        cpu_quota=given.cpu_quota,
        cpu_shares=given.cpu_shares,
        memory_limit_in_bytes=given.memory_limit_in_bytes,
        oom_score_adj=given.oom_score_adj,
        cpuset_cpus=given.cpuset_cpus,
        cpuset_mems=given.cpuset_mems,
        hugepage_limits=[
            pb.HugepageLimit(page_size=size, limit=limit) for size, limit in given.hugepage_limits.items()
        ],
        memory_swap_limit_in_bytes=given.memory_swap_limit_in_bytes,
        unified=given.unified,
    )


def image(found: Image) -> pb.Image:
    """An image that is present; it runs as root."""
    by_digest = "@" in found.name
    return pb.Image(
        id=found.id,
        repo_tags=[] if by_digest else [found.name],
        repo_digests=[found.ref],
        size=found.size,
    )


def event(found: Event) -> pb.ContainerEventResponse:
    """Something that happened."""
    return pb.ContainerEventResponse(
        container_id=found.id,
        container_event_type=found.kind,
        created_at=nanoseconds(found.at),
        pod_sandbox_status=sandbox_status(found.sandbox),
        containers_statuses=[container_status(status) for status in found.containers],
    )
