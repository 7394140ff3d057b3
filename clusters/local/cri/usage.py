"""What sandboxes and containers use: nothing, as their programs are tasks of this process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from clusters.containers.model import ContainerStatus, Sandbox
from clusters.local.cri.answers import container_metadata, sandbox_metadata
from node_api.gen import cri_v1_pb2 as pb


def filesystem(folder: Path, at: int) -> pb.FilesystemUsage:
    """Usage of the file system that a folder is on."""
    found = os.statvfs(folder)
    return pb.FilesystemUsage(
        timestamp=at,
        fs_id=pb.FilesystemIdentifier(mountpoint=str(folder)),
        used_bytes=_number((found.f_blocks - found.f_bfree) * found.f_frsize),
        inodes_used=_number(found.f_files - found.f_ffree),
    )


def container(found: ContainerStatus, folder: Path, at: int) -> pb.ContainerStats:
    """Usage of a container; `folder` is where containers write."""
    return pb.ContainerStats(
        attributes=pb.ContainerAttributes(
            id=found.id,
            metadata=container_metadata(found.config),
            labels=found.config.labels,
            annotations=found.config.annotations,
        ),
        cpu=_cpu(at),
        memory=_memory(at),
        writable_layer=pb.FilesystemUsage(
            timestamp=at,
            fs_id=pb.FilesystemIdentifier(mountpoint=str(folder)),
            used_bytes=_number(0),
            inodes_used=_number(0),
        ),
        swap=pb.SwapUsage(timestamp=at, swap_available_bytes=_number(0), swap_usage_bytes=_number(0)),
    )


def sandbox(
    found: Sandbox, containers: Sequence[ContainerStatus], folder: Path, at: int
) -> pb.PodSandboxStats:
    """Usage of a sandbox and of its running containers."""
    interface = pb.NetworkInterfaceUsage(
        name="eth0", rx_bytes=_number(0), rx_errors=_number(0), tx_bytes=_number(0), tx_errors=_number(0)
    )
    return pb.PodSandboxStats(
        attributes=pb.PodSandboxAttributes(
            id=found.id,
            metadata=sandbox_metadata(found.config),
            labels=found.config.labels,
            annotations=found.config.annotations,
        ),
        linux=pb.LinuxPodSandboxStats(
            cpu=_cpu(at),
            memory=_memory(at),
            network=pb.NetworkUsage(timestamp=at, default_interface=interface, interfaces=[interface]),
            process=pb.ProcessUsage(timestamp=at, process_count=_number(len(containers))),
            containers=[container(one, folder, at) for one in containers],
        ),
    )


def _number(value: int) -> pb.UInt64Value:
    return pb.UInt64Value(value=value)


def _cpu(at: int) -> pb.CpuUsage:
    return pb.CpuUsage(timestamp=at, usage_core_nano_seconds=_number(0), usage_nano_cores=_number(0))


def _memory(at: int) -> pb.MemoryUsage:
    return pb.MemoryUsage(
        timestamp=at,
        working_set_bytes=_number(0),
        available_bytes=_number(0),
        usage_bytes=_number(0),
        rss_bytes=_number(0),
        page_faults=_number(0),
        major_page_faults=_number(0),
    )
