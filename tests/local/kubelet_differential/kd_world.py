"""What a scenario works with: drivers, claims and Pods on one node of a cluster of either kind, which may have more."""

from __future__ import annotations

import contextlib
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from kd_driver import ScriptedDriver
from kd_history import PodHistory, collapsed, event_lines, masked, pod_state

from clusters.client import ClientError
from clusters.interface import Cluster, WholeNode
from conformance.cluster.kit_driver import Call, Faults

DRA: Final = "resource.k8s.io/v1"
PATIENCE: Final = 240.0
_POLL: Final = 0.05
_DEVICES: Final = 8
_QUIET: Final = 2.0
Object = dict[str, Any]


class World:
    """One scenario: a namespace, drivers by short names, and what is remembered of all."""

    def __init__(self, cluster: Cluster, name: str, node: WholeNode) -> None:
        self.cluster, self.name, self.node = cluster, name, node
        self.client = cluster.client()
        self.namespace = f"kd-{name}"
        self.drivers: dict[str, ScriptedDriver] = {}
        self.noted: dict[str, Any] = {}
        self._words: dict[str, str] = {self.namespace: "NAMESPACE", node.name: "NODE"}
        self._made: list[tuple[str, str, str]] = []
        self.client.create("v1", "namespaces", _object("v1", "Namespace", self.namespace))
        self.until(
            lambda: (
                self.client.find("v1", "serviceaccounts", "default", self.namespace)
                and self.client.find("v1", "configmaps", "kube-root-ca.crt", self.namespace)
            ),
            "the namespace is complete",
        )
        self.history = PodHistory(self.client, self.namespace)

    # --- waiting

    def until(self, condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
        """Wait for a true value and return it."""
        deadline = time.monotonic() + seconds
        while True:
            found = condition()
            if found:
                return found
            assert time.monotonic() < deadline, f"{self.name}: not within {seconds:g} s: {what}"
            time.sleep(_POLL)

    def stays(self, condition: Callable[[], Any], what: str, seconds: float) -> None:
        """A condition must hold all the time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            assert condition(), f"{self.name}: no longer: {what}"
            time.sleep(_POLL)

    # --- drivers

    def driver(
        self, label: str = "d", *, start: bool = True, per_node: bool = False, **parts: Any
    ) -> ScriptedDriver:
        """A driver with slices and a class; slices for all nodes outlive the kubelet."""
        name = f"{label}.{zlib.crc32(self.name.encode()):x}.example.com"
        self._words[name] = label
        paths = replace(self.node.paths, registry=self.node.paths.kubelet_registry)
        driver = ScriptedDriver(name, self.node.name, paths, self.client, **parts)
        self.drivers[label] = driver
        if start:
            driver.start()
            self.until(driver.notified, f"{label} is registered")
        place: Object = {"nodeName": self.node.name} if per_node else {"allNodes": True}
        pool = {"name": f"{label}-{self.name}", "generation": 1, "resourceSliceCount": 1}
        self._words[pool["name"]] = f"pool-{label}"  # type: ignore[index]
        devices = [{"name": f"dev-{number}"} for number in range(_DEVICES)]
        self._create(DRA, "resourceslices", _object(DRA, "ResourceSlice", name, spec={
            "driver": name, "pool": pool, **place, "devices": devices}))  # fmt: skip
        selector = {"cel": {"expression": f'device.driver == "{name}"'}}
        self._create(DRA, "deviceclasses", _object(DRA, "DeviceClass", name, spec={"selectors": [selector]}))
        return driver

    def slices(self, label: str = "d") -> int:
        """How many slices there are of a driver."""
        name = self.drivers[label].name
        return len(self.client.list(DRA, "resourceslices", fieldSelector=f"spec.driver={name}"))

    # --- objects

    def claim(self, name: str, *labels: str, count: int = 1) -> Object:
        """A claim with a request of each driver."""
        requests = [
            {"name": f"r-{label}", "exactly": {"deviceClassName": self.drivers[label].name, "count": count}}
            for label in labels or ("d",)
        ]
        return self._create(
            DRA,
            "resourceclaims",
            _object(DRA, "ResourceClaim", name, spec={"devices": {"requests": requests}}),
        )

    def pod(
        self,
        name: str,
        *claims: str,
        command: Sequence[str] = ("sleep", "10000"),
        use: Any = None,
        **spec: Any,
    ) -> Object:
        """A Pod with a container that uses these claims; `use` replaces what the container uses."""
        container: Object = {"name": "c", "image": "busybox", "command": list(command)}
        if claims:
            container["resources"] = {"claims": [{"name": claim} for claim in claims] if use is None else use}
        spec = {
            "containers": [container],
            "nodeSelector": {"kubernetes.io/hostname": self.node.name},
            "resourceClaims": [{"name": claim, "resourceClaimName": claim} for claim in claims],
            "terminationGracePeriodSeconds": 1,
            **spec,
        }
        return self._create("v1", "pods", _object("v1", "Pod", name, spec=spec))

    def _create(self, version: str, resource: str, obj: Object) -> Object:
        namespace = None if resource in ("resourceslices", "deviceclasses") else self.namespace
        made = self.client.create(version, resource, obj, namespace)
        self._words[made["metadata"]["uid"]] = f"UID-{resource}-{made['metadata']['name']}"
        if namespace is None:
            self._made.append((version, resource, made["metadata"]["name"]))
        return made

    def find(self, name: str) -> Object | None:
        """A Pod."""
        return self.client.find("v1", "pods", name, self.namespace)

    def delete(self, name: str, *, force: bool = False) -> None:
        """Delete a Pod."""
        body = {"gracePeriodSeconds": 0} if force else None
        self.client.delete("v1", "pods", name, self.namespace, body)

    def wait_phase(self, name: str, phase: str, seconds: float = PATIENCE) -> None:
        """Wait until a Pod has a phase, and is ready if that is Running."""

        def there() -> bool:
            status = (self.find(name) or {}).get("status") or {}
            ready = any(
                each["type"] == "Ready" and each["status"] == "True"
                for each in status.get("conditions") or []
            )
            return status.get("phase") == phase and (ready or phase != "Running")

        self.until(there, f"Pod {name} is {phase}", seconds)

    def wait_gone(self, name: str, seconds: float = PATIENCE) -> None:
        """Wait until a Pod is gone."""
        self.until(lambda: self.find(name) is None, f"Pod {name} is gone", seconds)

    def wait_scheduled(self, name: str) -> None:
        """Wait until a Pod is on the node."""
        self.until(
            lambda: ((self.find(name) or {}).get("spec") or {}).get("nodeName"), f"Pod {name} is scheduled"
        )

    def wait_event(self, text: str) -> None:
        """Wait until an event of the kubelet has a text in its line."""
        self.until(
            lambda: any(text in line for line in self.events()),
            f"an event with {text!r}",
        )

    def wait_calls(self, count: int, method: str, label: str = "d", seconds: float = PATIENCE) -> None:
        """Wait until a driver was called so many times."""
        short = {"prepare": "NodePrepareResources", "unprepare": "NodeUnprepareResources"}[method]
        self.until(
            lambda: len(self.drivers[label].calls(short)) >= count,
            f"{count} calls of {method} to {label}",
            seconds,
        )

    # --- what is compared

    def events(self) -> list[str]:
        """Lines of the kubelet's events on Pods so far."""
        return event_lines(self.client.list("v1", "events", self.namespace), self._words)

    def note(self, label: str, name: str) -> None:
        """Remember the state of a Pod at this point, once it does not change any more."""

        def state() -> Object | None:
            pod = self.find(name)
            return None if pod is None else pod_state(pod, self._words)

        self.noted[f"{label}: Pod {name}"] = self._settled(state)

    def _settled(self, look: Callable[[], Any]) -> Any:
        found, since = look(), time.monotonic()
        deadline = since + PATIENCE
        while time.monotonic() < min(since + _QUIET, deadline):
            time.sleep(_POLL)
            again = look()
            if again != found:
                found, since = again, time.monotonic()
        return found

    def calls(self) -> dict[str, list[str]]:
        """The calls to each driver with their claims, repetitions left out; registration apart."""
        result = {}
        for label, driver in self.drivers.items():
            lines = [_line(call) for call in driver.calls() if call.claims]
            result[label] = collapsed(lines)
            result[f"{label} registration"] = collapsed(
                call.method for call in driver.calls() if not call.claims
            )
        return result

    def words(self, text: str) -> str:
        """A text without what differs from run to run."""
        return masked(text, self._words)

    def end(self) -> dict[str, Any]:
        """Clean up; everything that is compared."""
        record = {"noted": self.noted, "events": self._settled(self.events), "calls": self.calls()}
        for driver in self.drivers.values():
            driver.faults.block_prepare.clear()
            driver.faults.block_unprepare.clear()
            driver.faults = Faults()
            driver.answers.clear()
        for pod in self.client.list("v1", "pods", self.namespace):
            with contextlib.suppress(ClientError):
                self.client.delete(
                    "v1", "pods", pod["metadata"]["name"], self.namespace, {"gracePeriodSeconds": 0}
                )
        # The kubelet lets go of what it holds while the drivers are there.
        deadline = time.monotonic() + 10
        while any(driver.prepared for driver in self.drivers.values()) and time.monotonic() < deadline:
            time.sleep(_POLL)
        record["states"] = self.history.states(self._words)
        self.history.end()
        for driver in self.drivers.values():
            driver.stop()
        for version, resource, name in self._made:
            with contextlib.suppress(ClientError):
                self.client.delete(version, resource, name)
        with contextlib.suppress(ClientError):
            self.client.delete("v1", "namespaces", self.namespace)
        return record


def _line(call: Call) -> str:
    """A call with its claims: those to prepare are in the order of the Pod, those to let go of in that of a map."""
    names = [name for _, name, _ in call.claims]
    if call.method == "NodeUnprepareResources":
        names.sort()
    return f"{call.method}({', '.join(names)})"


def _object(version: str, kind: str, name: str, **more: Any) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **more}
