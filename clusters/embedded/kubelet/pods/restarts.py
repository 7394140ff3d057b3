"""When a container that is not running is started again, and how long that waits."""

from __future__ import annotations

from clusters.containers.model import ContainerState
from clusters.embedded.kubelet.pods import objects
from clusters.embedded.kubelet.pods.objects import Object
from clusters.embedded.kubelet.pods.runtime_state import PodRuntime

INITIAL_BACKOFF = 10.0


def restarts_after(container: Object, pod: Object, exit_code: int) -> bool:
    """Whether the policies of container and Pod want a restart after this exit code."""
    policy = container.get("restartPolicy")
    if policy:
        for rule in container.get("restartPolicyRules") or []:
            codes = rule.get("exitCodes") or {}
            listed = exit_code in (codes.get("values") or [])
            if listed == (codes.get("operator") == "In"):
                return rule.get("action") in ("Restart", "RestartAllContainers")
    policy = policy or objects.restart_policy(pod)
    if policy == "OnFailure":
        return exit_code != 0
    return policy != "Never"


def should_restart(container: Object, pod: Object, runtime: PodRuntime) -> bool:
    """Whether the container has to be started: never started, stuck before its start, or wanted again."""
    if objects.deleted(pod):
        return False
    found = runtime.latest(container["name"])
    if found is None or found.state is ContainerState.CREATED:
        return True
    if found.state is ContainerState.RUNNING:
        return False
    return restarts_after(container, pod, found.exit_code)


class Backoff:
    """Waiting times by key: `initial` seconds, doubled by each failure up to `maximum`; quiet for twice that resets."""

    def __init__(self, maximum: float, initial: float = INITIAL_BACKOFF) -> None:
        self._initial, self._maximum = min(initial, maximum), maximum
        self._entries: dict[str, tuple[float, float]] = {}
        self._swept = 0.0

    def delay(self, key: str) -> float:
        """The current waiting time."""
        return self._entries.get(key, (0.0, 0.0))[0]

    def is_waiting(self, key: str, since: float, now: float) -> bool:
        """Whether a failure at `since` still has to be waited for."""
        entry = self._entries.get(key)
        if entry is None or since - entry[1] > 2 * self._maximum:
            return False
        return now - since < entry[0]

    def next(self, key: str, since: float, now: float) -> None:
        """Note a restart after the failure at `since`."""
        entry = self._entries.get(key)
        if entry is None or since - entry[1] > 2 * self._maximum:
            delay = self._initial
        else:
            delay = min(entry[0] * 2, self._maximum)
        self._entries[key] = (delay, now)
        if now - self._swept > self._maximum:
            self._swept = now
            # Of what has been quiet for so long the next failure counts as the first, known or not.
            quiet = [other for other, (_, last) in self._entries.items() if now - last > 2 * self._maximum]
            for other in quiet:
                del self._entries[other]

    def __len__(self) -> int:
        return len(self._entries)

    def forget(self, prefix: str) -> None:
        """Drop all keys that begin so."""
        for key in [key for key in self._entries if key.startswith(prefix)]:
            del self._entries[key]
