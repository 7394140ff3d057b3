"""Components of a kind cluster: static Pods and systemd units inside the nodes, which are containers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from clusters.interface import ClusterError
from clusters.log_files import LogCommand

Run = Callable[..., str]
"""Runs a command in one node: `run(*words, timeout=SECONDS)` is what it printed. Raises ClusterError."""

MANIFESTS: Final = "/etc/kubernetes/manifests"
ASIDE: Final = "/etc/kubernetes/drakit-aside"
"""Where the manifests of stopped components are; the kubelet does not look there."""

STATIC_PODS: Final[Mapping[str, str]] = {
    "etcd": "etcd",
    "apiserver": "kube-apiserver",
    "controller-manager": "kube-controller-manager",
    "scheduler": "kube-scheduler",
}
"""The static Pods of a control plane by our names, each with that of its container, manifest and program."""

_STOP_SECONDS: Final = 120
_START_SECONDS: Final = 180
_LINES: Final = 200
_AFTER: Final = 10.0
"""Seconds that a command in a node may take longer than the wait inside it."""


class StaticPod:
    """A component that the kubelet of the control plane runs from a manifest in a folder; it stops with its manifest.

    All of `clusters.interface.Component`.
    """

    def __init__(self, name: str, run: Run, *, process: str = "") -> None:
        """`name` is that of its container and manifest, `process` how its command line begins, where that differs."""
        self._run = run
        self._name = name
        self._manifest = f"{MANIFESTS}/{name}.yaml"
        self._aside = f"{ASIDE}/{name}.yaml"
        self._pattern = f"^{process or name}( |$)"

    def start(self) -> None:
        """Put the manifest back and wait for the process. Raises ClusterError when it does not come."""
        script = 'if [ -e "$1" ]; then mv "$1" "$2"; fi; until pgrep -f "$3" >/dev/null; do sleep 0.1; done'
        self._wait(script, self._aside, self._manifest, self._pattern, seconds=_START_SECONDS, state="start")

    def stop(self) -> None:
        """Take the manifest away and wait until the process has ended. Raises ClusterError when it does not."""
        self._end("")

    def kill(self) -> None:
        """Take the manifest away and kill the process."""
        # The kubelet would start a killed one again: the manifest goes first, and its polite stop comes too late.
        self._end('pkill -KILL -f "$3"; ')

    def restart(self) -> None:
        """Stop and start."""
        self.stop()
        self.start()

    def _end(self, first: str) -> None:
        script = (
            f'mkdir -p {ASIDE}; if [ -e "$1" ]; then mv "$1" "$2"; fi; {first}'
            'while pgrep -f "$3" >/dev/null; do sleep 0.1; done'
        )
        self._wait(script, self._manifest, self._aside, self._pattern, seconds=_STOP_SECONDS, state="end")

    def _wait(self, script: str, *words: str, seconds: int, state: str) -> None:
        try:
            self._run("timeout", str(seconds), "sh", "-c", script, "sh", *words, timeout=seconds + _AFTER)
        except ClusterError as error:
            raise ClusterError(f"{self._name} does not {state} within {seconds} s: {error}") from None

    @property
    def running(self) -> bool:
        """Whether its process is there."""
        return succeeds(self._run, "pgrep", "-f", self._pattern)

    @property
    def log_command(self) -> LogCommand:
        """Prints the log of its latest container."""

        def words(option: str) -> tuple[str, ...]:
            script = (
                f'id=$(crictl ps -a -q --latest --name "^{self._name}$"); '
                f'[ -n "$id" ] && exec crictl logs {option} "$id" 2>&1'
            )
            return ("sh", "-c", script)

        return LogCommand(words(""), words("-f"))

    def logs(self) -> list[str]:
        """The last lines of its log."""
        return _lines(self._run, self.log_command)


class Unit:
    """A component that is a systemd unit of a node: its kubelet or its container runtime.

    All of `clusters.interface.Component`.
    """

    def __init__(self, unit: str, run: Run) -> None:
        self._run = run
        self._unit = unit

    def start(self) -> None:
        """Start the unit. Raises ClusterError."""
        self._run("systemctl", "start", self._unit)

    def stop(self) -> None:
        """Stop the unit. Raises ClusterError."""
        self._run("systemctl", "stop", self._unit)

    def kill(self) -> None:
        """Kill its processes. Raises ClusterError."""
        # systemd starts a killed unit again unless it is told to stop it, which then has nothing left to do.
        script = 'systemctl kill --signal=KILL "$1" 2>/dev/null; systemctl stop "$1"'
        self._run("sh", "-c", script, "sh", self._unit)

    def restart(self) -> None:
        """Stop and start."""
        self.stop()
        self.start()

    @property
    def running(self) -> bool:
        """Whether it is active."""
        return succeeds(self._run, "systemctl", "is-active", "--quiet", self._unit)

    @property
    def log_command(self) -> LogCommand:
        """Prints what it wrote to the journal of the node."""
        words = ("journalctl", "--no-pager", "--output=cat", "--lines=all", "--unit", self._unit)
        return LogCommand(words, (*words, "--follow"))

    def logs(self) -> list[str]:
        """The last lines of its log."""
        return _lines(self._run, self.log_command)


KindComponent = StaticPod | Unit


def ended(run: Run, components: Mapping[str, KindComponent]) -> list[str]:
    """Which of the components of one node do not run, asked with one command; all when the node has gone."""
    script = "".join(
        f"pgrep -f '{component._pattern}' >/dev/null || echo {name}\n"
        if isinstance(component, StaticPod)
        else f"systemctl is-active --quiet {component._unit} || echo {name}\n"
        for name, component in components.items()
    )
    try:
        return run("sh", "-c", script + "true").split()
    except ClusterError:
        return list(components)


def succeeds(run: Run, *words: str) -> bool:
    """Whether a command in a node ends with 0."""
    try:
        run(*words)
    except ClusterError:
        return False
    return True


def _lines(run: Run, command: LogCommand) -> list[str]:
    try:
        return run(*command.once).splitlines()[-_LINES:]
    except ClusterError:
        return []
