"""Which sandboxes and containers a filter of the CRI lets through; a field that is not given lets all through."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from clusters.containers.model import ContainerStatus, Sandbox
from node_api.gen import cri_v1_pb2 as pb


class _Common(Protocol):
    @property
    def id(self) -> str: ...

    @property
    def label_selector(self) -> Mapping[str, str]: ...


class _OfContainers(_Common, Protocol):
    @property
    def pod_sandbox_id(self) -> str: ...


def _common(wanted: _Common, found: str, labels: Mapping[str, str]) -> bool:
    return wanted.id in ("", found) and all(
        labels.get(key) == value for key, value in wanted.label_selector.items()
    )


def _differs(wanted: pb.PodSandboxFilter | pb.ContainerFilter, state: int) -> bool:
    return wanted.HasField("state") and wanted.state.state != state


def sandbox_matches(wanted: _Common, found: Sandbox) -> bool:
    """Whether a sandbox is wanted; a state is looked at if the filter has one."""
    if isinstance(wanted, pb.PodSandboxFilter) and _differs(wanted, pb.PodSandboxState.Value(found.state)):
        return False
    return _common(wanted, found.id, found.config.labels)


def container_matches(wanted: _OfContainers, found: ContainerStatus) -> bool:
    """Whether a container is wanted; a state is looked at if the filter has one."""
    if isinstance(wanted, pb.ContainerFilter) and _differs(wanted, pb.ContainerState.Value(found.state)):
        return False
    return wanted.pod_sandbox_id in ("", found.sandbox_id) and _common(wanted, found.id, found.config.labels)
