"""Records that a kubelet and a container runtime exchange; names and meanings are those of the CRI, v1.

Times are seconds since the epoch as floats, None while something has not happened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

RUNTIME_NAME = "containerd"
"""What the simulated runtime behaves as; kubelets put it before the ids of containers."""
RUNTIME_VERSION = "2.1.4"
HANDLERS = ("", "runc")
"""Runtime handlers that Pods may name; the first is the default."""
HANDLER_FEATURES: Mapping[str, bool] = {"recursiveReadOnlyMounts": True, "userNamespaces": True}
"""What each handler can do, in the words of a Node's status."""

REASON_COMPLETED = "Completed"
"""Reason of a container that ended with 0; with another code it is `REASON_ERROR`. containerd's words."""
REASON_ERROR = "Error"
REASON_START_ERROR = "StartError"
"""Reason of a container that was created but could not be started; its exit code is `START_ERROR_CODE`."""
START_ERROR_CODE = 128


class SandboxState(StrEnum):
    """State of a sandbox; the values are CRI's."""

    READY = "SANDBOX_READY"
    NOTREADY = "SANDBOX_NOTREADY"


class ContainerState(StrEnum):
    """State of a container; the values are CRI's."""

    CREATED = "CONTAINER_CREATED"
    RUNNING = "CONTAINER_RUNNING"
    EXITED = "CONTAINER_EXITED"


@dataclass(frozen=True)
class SandboxConfig:
    """A sandbox to run. `log_directory` is the folder of its containers' logs; "" means that nothing is logged.

    `pid_namespace` and `ipc_namespace` are CRI's words for whose they are: POD, CONTAINER, NODE or TARGET.
    """

    name: str
    namespace: str
    uid: str
    attempt: int = 0
    hostname: str = ""
    log_directory: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    host_network: bool = False
    pid_namespace: str = "CONTAINER"
    ipc_namespace: str = "POD"
    runtime_handler: str = ""


@dataclass(frozen=True)
class Sandbox:
    """A sandbox; `ip` is "" with the network of the host, and after the sandbox has stopped."""

    id: str
    config: SandboxConfig
    state: SandboxState
    created_at: float
    ip: str = ""


class Propagation(StrEnum):
    """How mounts travel between host and container; the values are CRI's."""

    PRIVATE = "PROPAGATION_PRIVATE"
    HOST_TO_CONTAINER = "PROPAGATION_HOST_TO_CONTAINER"
    BIDIRECTIONAL = "PROPAGATION_BIDIRECTIONAL"


@dataclass(frozen=True)
class Mount:
    """A folder or file of the host, bound into the container.

    `recursive_readonly` makes the mounts below it read-only too. Mounts made later on the host show in the
    container with a propagation other than private.
    """

    container_path: str
    host_path: str
    readonly: bool = False
    recursive_readonly: bool = False
    propagation: Propagation = Propagation.PRIVATE


@dataclass(frozen=True)
class Device:
    """A device node of the host to give to the container; `permissions` are letters of rwm."""

    container_path: str
    host_path: str
    permissions: str = "rwm"


@dataclass(frozen=True)
class LinuxResources:
    """Limits of a container; 0 and "" are "not given". CPU times in microseconds, memory in bytes."""

    cpu_period: int = 0
    cpu_quota: int = 0
    cpu_shares: int = 0
    memory_limit_in_bytes: int = 0
    oom_score_adj: int = 0
    cpuset_cpus: str = ""
    cpuset_mems: str = ""
    hugepage_limits: Mapping[str, int] = field(default_factory=dict)
    memory_swap_limit_in_bytes: int = 0
    unified: Mapping[str, str] = field(default_factory=dict)

    def updated(self, change: LinuxResources) -> LinuxResources:
        """With what another one gives; what it does not give stays."""
        given = {name: value for name, value in vars(change).items() if value}
        for name in ("hugepage_limits", "unified"):
            given[name] = {**getattr(self, name), **getattr(change, name)}
        return replace(self, **given)


@dataclass(frozen=True)
class ContainerConfig:
    """A container to create; `log_path` is relative to the log directory of its sandbox.

    `image` is a name, or the id of an image that is present. `cdi_devices` are fully qualified CDI names in the order
    of the request. `run_as_user` and `run_as_group` None: the image's, which is root here. `stop_signal` is a number
    of CRI's list, 0 for the image's; it is only kept, as programs know no other signal than SIGTERM.
    """

    name: str
    attempt: int = 0
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    envs: tuple[tuple[str, str], ...] = ()
    mounts: tuple[Mount, ...] = ()
    devices: tuple[Device, ...] = ()
    cdi_devices: tuple[str, ...] = ()
    resources: LinuxResources = LinuxResources()
    log_path: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    run_as_user: int | None = None
    run_as_group: int | None = None
    supplemental_groups: tuple[int, ...] = ()
    privileged: bool = False
    stop_signal: int = 0


@dataclass(frozen=True)
class ContainerUser:
    """As whom the program of a container runs; `groups` has the primary one too."""

    uid: int = 0
    gid: int = 0
    groups: tuple[int, ...] = ()


@dataclass(frozen=True)
class ContainerStatus:
    """A container and how it fares.

    `image` is the full name of its image, `image_ref` names the content by digest, `image_id` the configuration.

    `log_path` is absolute, or "" when nothing is logged. `reason` and `message` are set when the container has ended.
    """

    id: str
    sandbox_id: str
    config: ContainerConfig
    state: ContainerState
    created_at: float
    started_at: float | None = None
    finished_at: float | None = None
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    image: str = ""
    image_ref: str = ""
    image_id: str = ""
    log_path: str = ""
    user: ContainerUser = ContainerUser()


@dataclass(frozen=True)
class Image:
    """An image that is present; `id` is the digest of its configuration, `ref` the one that statuses carry."""

    id: str
    name: str
    ref: str
    size: int


@dataclass(frozen=True)
class ExecResult:
    """How a command that was run in a container ended, and what it wrote."""

    exit_code: int
    stdout: str
    stderr: str


class RuntimeServiceError(Exception):
    """An answer of a runtime that is an error: `code` as gRPC for Go writes it ("NotFound"), and the message alone."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"rpc error: code = {code} desc = {message}")
        self.code = code
        self.message = message
