"""What a test waits for: Pods, claims, events, each with a deadline and with what was seen instead."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from clusters.client import Client
from clusters.existing.settings import Settings
from conformance.cluster.manifests import Object
from conformance.cluster.objects import Objects
from conformance.model import check
from conformance.waiting import poll

START_SECONDS = 30.0
"""How long a Pod may take to run."""
END_SECONDS = 30.0
"""How long claims and Pods may take to go."""
STAYS_SECONDS = 2.0
"""How long a state that must not change is looked at."""


class Waits(Objects):
    """Access to the API for one test that waits; how long at most is multiplied by a factor."""

    def __init__(self, client: Client, settings: Settings, factor: float) -> None:
        super().__init__(client, settings)
        self._factor = factor

    def wait_until(
        self,
        probe: Callable[[], Any],
        expected: str,
        timeout: float = START_SECONDS,
        seen: Callable[[], object] = lambda: "it did not happen",
    ) -> Any:
        """The first truthy answer. Raises Failed with what was expected and seen."""
        return poll(probe, timeout * self._factor, expected, seen)

    def wait_phase(self, name: str, *phases: str, timeout: float = START_SECONDS) -> Object:
        """Wait until a Pod is in one of the phases; the Pod."""

        def probe() -> Object | None:
            found = self.find("Pod", name)
            return found if found is not None and _phase(found) in phases else None

        expected = f"Pod {name} is {' or '.join(phases)}"
        found: Object = self.wait_until(probe, expected, timeout, lambda: self.describe_pod(name))
        return found

    def wait_running(self, *names: str, timeout: float = START_SECONDS) -> None:
        """Wait until Pods run."""
        for name in names:
            self.wait_phase(name, "Running", timeout=timeout)

    def wait_gone(self, kind: str, name: str, timeout: float = END_SECONDS) -> None:
        """Wait until an object is gone."""
        self.wait_until(
            lambda: self.find(kind, name) is None,
            f"{kind} {name} is gone",
            timeout,
            lambda: self._why_there(kind, name),
        )

    def _why_there(self, kind: str, name: str) -> str:
        """What is known about an object that should be gone."""
        metadata = (self.find(kind, name) or {}).get("metadata", {})
        since, finalizers = metadata.get("deletionTimestamp"), ", ".join(metadata.get("finalizers") or [])
        parts = [f"deleted at {since}" if since else "not deleted"]
        if finalizers:
            parts.append(f"held by the finalizers {finalizers}")
        if kind == "Pod":
            parts.append(self.describe_pod(name))
        return f"{kind} {name} is there: " + "; ".join(parts)

    def wait_scheduled(self, name: str, timeout: float = START_SECONDS) -> str:
        """Wait until a Pod has a node; the node's name."""

        def probe() -> str | None:
            found = self.find("Pod", name)
            return found["spec"].get("nodeName") if found else None

        expected = f"Pod {name} is scheduled"
        return str(self.wait_until(probe, expected, timeout, lambda: self.describe_pod(name)))

    def wait_unschedulable(self, name: str, text: str = "", timeout: float = START_SECONDS) -> str:
        """Wait until the scheduler has said that a Pod does not fit, with `text` in its message; the message."""

        def message() -> str:
            found = self.find("Pod", name) or {}
            for entry in (found.get("status") or {}).get("conditions") or []:
                if entry["type"] == "PodScheduled" and entry["status"] == "False":
                    return str(entry.get("message", ""))
            return ""

        expected = f"Pod {name} cannot be scheduled" + (f': "{text}"' if text else "")
        self.wait_until(
            lambda: message() and text in message(), expected, timeout, lambda: self.describe_pod(name)
        )
        return message()

    def wait_event(
        self, reason: str, text: str = "", name: str = "", timeout: float = START_SECONDS
    ) -> Object:
        """Wait for an event in the namespace of the test, with this reason and text, about `name` or anything."""

        def probe() -> Object | None:
            return next(
                (
                    event
                    for event in self.events(name)
                    if event.get("reason") == reason and text in event.get("message", "")
                ),
                None,
            )

        expected = f"an event {reason}" + (f' with "{text}"' if text else "")
        found: Object = self.wait_until(
            probe,
            expected,
            timeout,
            lambda: [f"{event['reason']}: {event['message']}" for event in self.events(name)],
        )
        return found

    def stays(self, probe: Callable[[], bool], expected: str, seconds: float = STAYS_SECONDS) -> None:
        """Look at something that must hold all the time. Raises Failed as soon as it does not."""
        # Impatience must not let a late change pass, and patience does not see more.
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            check(probe(), expected, "it changed")
            time.sleep(0.05)

    def generated_claim(self, pod: str, claim: str, timeout: float = START_SECONDS) -> str:
        """Wait until a Pod's claim from a template exists; its name."""

        def probe() -> str | None:
            found = self.find("Pod", pod) or {}
            for entry in (found.get("status") or {}).get("resourceClaimStatuses") or []:
                if entry["name"] == claim and entry.get("resourceClaimName"):
                    return str(entry["resourceClaimName"])
            return None

        return str(self.wait_until(probe, f"Pod {pod} has a claim made for {claim}", timeout))

    def describe_pod(self, name: str) -> str:
        """Phase, conditions and waiting reasons of a Pod, for messages."""
        found = self.find("Pod", name)
        if found is None:
            return f"Pod {name} does not exist"
        status = found.get("status") or {}
        parts = [f"phase {_phase(found)}", f"on {found['spec'].get('nodeName') or 'no node'}"]
        for entry in status.get("conditions") or []:
            if entry["status"] != "True" and entry.get("message"):
                parts.append(f"{entry['type']}: {entry['message']}")
        for entry in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
            for state, detail in (entry.get("state") or {}).items():
                parts.append(
                    f"{entry['name']} {state} {detail.get('reason', '')} {detail.get('message', '')}".rstrip()
                )
        warnings = [event["message"] for event in self.events(name) if event.get("type") == "Warning"]
        return "; ".join([*parts, *warnings[-2:]])


def _phase(pod: Mapping[str, Any]) -> str:
    return str((pod.get("status") or {}).get("phase", ""))
