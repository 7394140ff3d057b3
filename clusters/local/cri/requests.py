"""From messages of the CRI to the records of the runtime."""

from __future__ import annotations

from collections.abc import Callable

from clusters.containers.model import (
    HANDLERS,
    ContainerConfig,
    Device,
    LinuxResources,
    Mount,
    Propagation,
    RuntimeServiceError,
    SandboxConfig,
)
from node_api.gen import cri_v1_pb2 as pb


def sandbox_config(config: pb.PodSandboxConfig, handler: str) -> SandboxConfig:
    """A sandbox to run. Raises RuntimeServiceError for a handler that is not there."""
    if handler not in HANDLERS:
        raise RuntimeServiceError(
            "Unknown",
            f'failed to get sandbox runtime: no runtime for "{handler}" is configured',
        )
    options = config.linux.security_context.namespace_options
    return SandboxConfig(
        name=config.metadata.name,
        namespace=config.metadata.namespace,
        uid=config.metadata.uid,
        attempt=config.metadata.attempt,
        hostname=config.hostname,
        log_directory=config.log_directory,
        labels=dict(config.labels),
        annotations=dict(config.annotations),
        host_network=options.network == pb.NODE,
        pid_namespace=pb.NamespaceMode.Name(options.pid),
        ipc_namespace=pb.NamespaceMode.Name(options.ipc),
        runtime_handler=handler,
    )


def container_config(config: pb.ContainerConfig, image_folder: Callable[[str], str]) -> ContainerConfig:
    """A container to create; `image_folder` gives a folder with the content of an image that is mounted."""
    security = config.linux.security_context
    return ContainerConfig(
        name=config.metadata.name,
        attempt=config.metadata.attempt,
        image=config.image.image,
        command=tuple(config.command),
        args=tuple(config.args),
        working_dir=config.working_dir,
        envs=tuple((env.key, env.value.decode("utf-8", "surrogateescape")) for env in config.envs),
        mounts=tuple(_mount(mount, image_folder) for mount in config.mounts),
        devices=tuple(
            Device(device.container_path, device.host_path, device.permissions) for device in config.devices
        ),
        cdi_devices=tuple(device.name for device in config.CDI_devices),
        resources=resources(config.linux.resources),
        log_path=config.log_path,
        labels=dict(config.labels),
        annotations=dict(config.annotations),
        run_as_user=security.run_as_user.value if security.HasField("run_as_user") else None,
        run_as_group=security.run_as_group.value if security.HasField("run_as_group") else None,
        supplemental_groups=tuple(security.supplemental_groups),
        privileged=security.privileged,
        stop_signal=config.stop_signal,
    )


def _mount(mount: pb.Mount, image_folder: Callable[[str], str]) -> Mount:
    if mount.HasField("image"):
        return Mount(mount.container_path, image_folder(mount.image.image), readonly=True)
    return Mount(
        mount.container_path,
        mount.host_path,
        mount.readonly,
        mount.recursive_read_only,
        Propagation(pb.MountPropagation.Name(mount.propagation)),
    )


def resources(given: pb.LinuxContainerResources) -> LinuxResources:
    """Limits; zero is "not given" on both sides."""
    return LinuxResources(
        cpu_period=given.cpu_period,
        cpu_quota=given.cpu_quota,
        cpu_shares=given.cpu_shares,
        memory_limit_in_bytes=given.memory_limit_in_bytes,
        oom_score_adj=given.oom_score_adj,
        cpuset_cpus=given.cpuset_cpus,
        cpuset_mems=given.cpuset_mems,
        hugepage_limits={limit.page_size: limit.limit for limit in given.hugepage_limits},
        memory_swap_limit_in_bytes=given.memory_swap_limit_in_bytes,
        unified=dict(given.unified),
    )
