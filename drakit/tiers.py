"""The kinds of clusters that can be started, by name: which versions they have, what they can do, how they start.

Whoever holds a Tier needs not know which it is. What a kind of cluster consists of is loaded when it is used: that
takes its time, and has to come after `drakit.quiet`.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, Self

from clusters import gates
from clusters.existing.settings import Settings
from clusters.interface import Cluster, ClusterError, ClusterSpec, Component, NodeSpec
from conformance.planner import Target

if TYPE_CHECKING:
    from clusters.binaries import Binaries
    from clusters.kind.cluster import KindCluster
    from clusters.kind.tools import Tools
    from clusters.log_files import LogCommand

Progress = Callable[[str], None]
Begun = Callable[[str, Path], None]


class RunningCluster(Cluster, Protocol):
    """What a started cluster of every tier can do beyond what tests need."""

    root: Path
    """Folder of everything that it keeps."""

    @property
    def url(self) -> str:
        """Where its API server listens."""
        ...

    @property
    def owner(self) -> str:
        """The mark in the environment of every process that it starts."""
        ...

    def components(self) -> Mapping[str, Component]:
        """Every component by the name of its log; drivers are none."""
        ...

    def ended(self) -> list[str]:
        """The names of components that do not run."""
        ...

    def log_commands(self) -> Mapping[str, LogCommand]:
        """How to print the logs that are no files in the folder of logs."""
        ...

    def wait_ready(self, timeout: float = ...) -> None:
        """Wait until its nodes are Ready. Raises ClusterError."""
        ...

    def write_kubeconfig(self, path: Path, name: str = ...) -> None:
        """Write an administrator's kubeconfig. Raises OSError."""
        ...

    def redact(self, text: str) -> str:
        """The text without its credentials."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


class Tier(ABC):
    """One kind of cluster in one Kubernetes version."""

    name: str
    article: str
    """For sentences such as "starting an embedded cluster"."""
    patience: float = 1.0
    """What waiting times of tests are multiplied by: real components retry later and take more of the machine."""
    settings: Settings = Settings()
    """How tests make objects."""
    gates: Mapping[str, bool] | None = None
    """Gates other than by default of the one cluster that there is; None where clusters are started as needed."""
    lent_nodes: int = 3
    """How many nodes a cluster has beside the shared ones for tests that want one alone; with none they take turns."""

    def __init__(self, version: str) -> None:
        """`version` is a Kubernetes minor. Raises ClusterError for one that this kind does not have."""
        gates_version = minor(version)
        if gates_version not in gates.VERSIONS:
            raise ClusterError(
                f"Kubernetes {version} is not known; there are {', '.join(reversed(gates.VERSIONS))}"
            )
        self.version = gates_version

    @property
    @abstractmethod
    def capabilities(self) -> frozenset[str]:
        """What clusters of this kind can do, in the words of `needs` of requirements."""

    @property
    def options(self) -> tuple[str, ...]:
        """The words of a command line that choose this tier, none for the default one."""
        return ()

    def target(self, settled_gates: Mapping[str, bool]) -> Target:
        """What requirements are held against; `settled_gates` are those that clusters are started with."""
        return Target(self.version, settled_gates, self.capabilities)

    def beginning(self, spec: ClusterSpec, what: str) -> str:
        """What is said when a cluster is started, `what` being what it consists of."""
        return f"starting {self.article} {self.name} cluster (Kubernetes {spec.version}): {what}"

    def check_driver(self, driver: str) -> None:
        """Raise ClusterError when a driver of this name cannot run on such a cluster here."""
        from clusters.base import check_room

        check_room(driver)

    @abstractmethod
    def check(self, spec: ClusterSpec) -> None:
        """Tell what can be told before anything is fetched or started.

        Raises ValueError for a scheduler configuration that is wrong, and ClusterError for what we may not do here.
        """

    @abstractmethod
    def get_ready(self, progress: Progress) -> None:
        """Fetch what has to be there before a cluster can start; this may take a while. Raises ClusterError."""

    @abstractmethod
    def start(
        self,
        spec: ClusterSpec,
        *,
        port: int = 0,
        begun: Begun | None = None,
        beside: Sequence[RunningCluster] = (),
    ) -> RunningCluster:
        """A cluster that has been started, its API server on `port` (0 takes a free one). Raises ClusterError.

        `begun` is called before anything is started, with the mark of all processes and the folder. `beside` are
        clusters of this tier that run and will end after it: it may use what they have.
        """

    def prepare_namespace(self, namespace: str) -> None:  # noqa: B027 - most tiers have nothing to do
        """Give a namespace what Pods of tests need in it."""

    def close(self) -> None:  # noqa: B027 - most tiers hold nothing
        """Let go of what `get_ready` has got ready; clusters have ended before."""


class _Embedded(Tier):
    name, article = "embedded", "an"

    def __init__(self, version: str) -> None:
        super().__init__(version)
        if self.version != gates.LATEST:
            raise ClusterError(
                f"an embedded cluster is Kubernetes {gates.LATEST} and no other; --tier local has {version}"
            )
        wanted = version.removeprefix("v")
        if wanted != gates.LATEST:
            from clusters.embedded.apiserver.discovery import VERSION

            release = VERSION["gitVersion"].removeprefix("v")
            if wanted != release:
                raise ClusterError(
                    f"an embedded cluster is Kubernetes {release} and no other patch release; give {gates.LATEST} "
                    f"or --tier local for {wanted}"
                )

    @property
    def capabilities(self) -> frozenset[str]:
        from clusters.embedded.cluster import EmbeddedCluster

        return EmbeddedCluster.CAPABILITIES

    def check(self, spec: ClusterSpec) -> None:
        from clusters.embedded.scheduler.config import load_config

        load_config(spec.scheduler_config, gates.effective(dict(spec.gates)))
        if spec.ledger:
            from clusters.embedded.ledger import check_server

            check_server(spec.ledger)

    def get_ready(self, progress: Progress) -> None:
        pass

    def start(
        self,
        spec: ClusterSpec,
        *,
        port: int = 0,
        begun: Begun | None = None,
        beside: Sequence[RunningCluster] = (),
    ) -> RunningCluster:
        from clusters.embedded.cluster import EmbeddedCluster

        return EmbeddedCluster(spec, port=port, begun=begun)


class _Real(Tier):
    """Components of Kubernetes' own, in every minor that is known or in a patch release that the user names."""

    article = "a"

    def __init__(self, version: str) -> None:
        super().__init__(version)
        self._wanted = version.removeprefix("v")
        self._lock = threading.Lock()

    @property
    def options(self) -> tuple[str, ...]:
        words = ("--tier", self.name)
        return words if self._wanted == gates.LATEST else (*words, "--kubernetes-version", self._wanted)


class _Local(_Real):
    name, patience = "local", 2.0

    def __init__(self, version: str, folder: Path | None) -> None:
        super().__init__(version)
        self._folder = folder
        self._binaries: Binaries | None = None

    @property
    def capabilities(self) -> frozenset[str]:
        from clusters.local.cluster import LocalCluster

        return LocalCluster.CAPABILITIES

    @property
    def options(self) -> tuple[str, ...]:
        return (
            super().options if self._folder is None else (*super().options, "--binaries", str(self._folder))
        )

    def check(self, spec: ClusterSpec) -> None:
        """What is wrong in a configuration the scheduler itself says."""
        from clusters.local.cluster import check_rights

        check_rights(spec)

    def get_ready(self, progress: Progress) -> None:
        from clusters import binaries
        from clusters.local.cluster import COMPONENTS

        with self._lock:
            if self._binaries is None:
                self._binaries = binaries.find(
                    self._wanted, COMPONENTS, folder=self._folder, progress=progress
                )

    def start(
        self,
        spec: ClusterSpec,
        *,
        port: int = 0,
        begun: Begun | None = None,
        beside: Sequence[RunningCluster] = (),
    ) -> RunningCluster:
        from clusters.local.cluster import LocalCluster

        self.get_ready(lambda text: None)
        assert self._binaries is not None  # noqa: S101 - get_ready raises otherwise
        return LocalCluster(spec, self._binaries, port=port, begun=begun)


class _Kind(_Real):
    name, patience = "kind", 3.0
    lent_nodes = 0

    def __init__(self, version: str, *, keep: bool = False) -> None:
        """With `keep`, clusters stay when they have been used, and are used again."""
        super().__init__(version)
        self._keep = keep
        self._tools: Tools | None = None
        self._progress: Progress = lambda text: None

    @property
    def capabilities(self) -> frozenset[str]:
        from clusters.kind.cluster import KindCluster

        return KindCluster.CAPABILITIES

    @property
    def options(self) -> tuple[str, ...]:
        return (*super().options, "--keep") if self._keep else super().options

    def beginning(self, spec: ClusterSpec, what: str) -> str:
        """Whether a kept cluster runs is found out later, and said then."""
        if not self._keep:
            return super().beginning(spec, what)
        return f"looking for a kept kind cluster (Kubernetes {spec.version}): {what}"

    def check(self, spec: ClusterSpec) -> None:
        """What is wrong in a configuration the scheduler itself says."""
        from clusters.kind.cluster import check

        check(spec)

    def get_ready(self, progress: Progress) -> None:
        from clusters.kind import tools

        with self._lock:
            self._progress = progress
            if self._tools is None:
                self._tools = tools.find(self._wanted, progress)

    def start(
        self,
        spec: ClusterSpec,
        *,
        port: int = 0,
        begun: Begun | None = None,
        beside: Sequence[RunningCluster] = (),
    ) -> RunningCluster:
        from clusters.kind.bare import BareCluster
        from clusters.kind.cluster import KindCluster

        self.get_ready(self._progress)
        assert self._tools is not None  # noqa: S101 - get_ready raises otherwise
        if spec.control_plane and not self._keep:
            return KindCluster(spec, self._tools, port=port, begun=begun, progress=self._progress)
        if spec.control_plane:
            return self._kept(spec, self._tools, begun)
        host = next((cluster for cluster in beside if isinstance(cluster, KindCluster)), None)
        if host is not None:
            return BareCluster(spec, host, begun=begun, progress=self._progress)
        if self._keep:
            host = self._kept(replace(spec, nodes=(NodeSpec(),), control_plane=True), self._tools, None)
        else:
            host = KindCluster(spec, self._tools, progress=self._progress)
        return BareCluster(spec, host, owns_host=True, begun=begun, progress=self._progress)

    def _kept(self, spec: ClusterSpec, tools: Tools, begun: Begun | None) -> KindCluster:
        """A cluster in the background, which is started unless it runs. Raises ClusterError."""
        from clusters.kind.attached import AttachedKindCluster
        from drakit import kept

        record = kept.ensure(self.name, spec, self._wanted, self._progress)
        name = record.nodes[0].removesuffix("-control-plane")
        return AttachedKindCluster(
            spec, tools, name=name, home=kept.root(record), begun=begun, progress=self._progress
        )

    def close(self) -> None:
        with self._lock:
            found, self._tools = self._tools, None
        if found is not None:
            found.engine.close()


def minor(version: str) -> str:
    """The minor of a version: "1.36" for "v1.36.3"."""
    return ".".join(version.removeprefix("v").split(".")[:2])


def find(name: str, version: str = "", binaries: Path | None = None, *, keep: bool = False) -> Tier:
    """The tier of a name, by default in its latest version; `binaries` is a folder that the user names.

    With `keep` clusters stay when they have been used, and are used again. Raises ClusterError for what the tier does
    not have.
    """
    if name not in NAMES:
        raise ClusterError(f'no tier "{name}"; there are {", ".join(NAMES)}')
    if keep and name != _Kind.name:
        raise ClusterError(
            f"--keep: {_Kind.name} clusters can be kept, and no others; give --tier kind as well"
        )
    wanted = version or gates.LATEST
    if name == _Local.name:
        return _Local(wanted, binaries)
    if binaries is not None:
        why = (
            "an embedded cluster uses none"
            if name == _Embedded.name
            else "a kind cluster has those of its node image"
        )
        raise ClusterError(f"--binaries: {why}; give --tier local as well")
    return _Kind(wanted, keep=keep) if name == _Kind.name else _Embedded(wanted)


NAMES: Final = (_Embedded.name, _Local.name, _Kind.name)
DEFAULT: Final = NAMES[0]
