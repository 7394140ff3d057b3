"""What a kubelet did, without what differs from run to run: uids, times, addresses, paths, numbers of tries."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final

from urllib3.exceptions import HTTPError

from clusters.client import Client, ClientError

_MASKS: Final = [
    (re.compile(r"kube-api-access-[a-z0-9]{5}"), "kube-api-access-X"),
    (re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"), "UID"),
    (re.compile(r"/[\w./-]*\.sock"), "SOCKET"),
    (re.compile(r"\b10\.\d+\.\d+\.\d+\b"), "IP"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "ID"),
    (re.compile(r"\b\d+(?:\.\d+)?(?:ms|s|m)\b"), "DURATION"),
]
_WATCH_SECONDS: Final = 60.0


def masked(text: str, words: Mapping[str, str] | None = None) -> str:
    """The text with `words` replaced by what they stand for, and with masks."""
    for word, stands_for in sorted((words or {}).items(), key=lambda item: -len(item[0])):
        text = text.replace(word, stands_for)
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    return text


def collapsed(entries: Iterable[Any]) -> list[Any]:
    """The entries without those that only repeat the one before."""
    result: list[Any] = []
    for entry in entries:
        if not result or result[-1] != entry:
            result.append(entry)
    return result


def pod_state(pod: Mapping[str, Any], words: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Conditions and containers as text, one line each."""
    status = pod.get("status") or {}
    conditions = {
        each["type"]: " ".join(
            filter(None, (each["status"], each.get("reason"), masked(each.get("message", ""), words)))
        )
        for each in status.get("conditions") or []
    }
    result: dict[str, Any] = {
        "phase": status.get("phase"),
        "reason": status.get("reason", ""),
        "deleted": "deletionTimestamp" in pod["metadata"],
        "conditions": conditions,
        "has IP": bool(status.get("podIP")),
        "has start": "startTime" in status,
        "qos": status.get("qosClass"),
    }
    for kind in ("initContainerStatuses", "containerStatuses"):
        for each in status.get(kind) or []:
            result[f"{kind}/{each['name']}"] = _container(each, words)
    return result


def _container(status: Mapping[str, Any], words: Mapping[str, str] | None) -> dict[str, Any]:
    result = {
        "state": _state(status.get("state") or {}, words),
        "last": _state(status.get("lastState") or {}, words),
        "ready": status["ready"],
        "started": status.get("started"),
        "restarts": status["restartCount"],
        "has id": bool(status.get("containerID")),
        "has image": bool(status.get("imageID")),
        "image": status.get("image"),
    }
    health = status.get("allocatedResourcesStatus")
    if health is not None:
        # A real kubelet keeps claims and drivers in maps: their order is chance.
        result["resources"] = sorted(
            masked(str({**each, "resources": sorted(each["resources"], key=str)}), words) for each in health
        )
    known = {"name", "state", "lastState", "ready", "started", "restartCount", "containerID", "imageID", "image",
             "allocatedResourcesStatus"}  # fmt: skip
    result["more"] = {key: masked(str(value), words) for key, value in status.items() if key not in known}
    return result


def _state(state: Mapping[str, Any], words: Mapping[str, str] | None) -> str:
    for kind, content in state.items():
        parts = [
            f"{key}={masked(str(content[key]), words)}"
            for key in ("reason", "message", "exitCode")
            if key in content
        ]
        return " ".join([kind, *parts])
    return "none"


def event_lines(events: Iterable[Mapping[str, Any]], words: Mapping[str, str] | None = None) -> list[str]:
    """The events of kubelets as sorted lines, each once."""
    lines = {
        " | ".join(
            (
                each["involvedObject"]["kind"] + "/" + masked(each["involvedObject"]["name"], words),
                each["involvedObject"].get("fieldPath", ""),
                each["type"],
                each["reason"],
                masked(each["message"], words),
            )
        )
        for each in events
        if (each.get("source") or {}).get("component") == "kubelet"
    }
    return sorted(lines)


class PodHistory:
    """Follows the Pods of a namespace from the start and keeps every change."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client, self._namespace = client, namespace
        self._ended = threading.Event()
        self.changes: list[tuple[str, str, dict[str, Any]]] = []
        """Kind of change, name and Pod."""
        self._version = client.request("GET", f"/api/v1/namespaces/{namespace}/pods")["metadata"][
            "resourceVersion"
        ]
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        while not self._ended.is_set():
            try:
                for event in self._client.watch(
                    "v1", "pods", self._namespace, timeout=_WATCH_SECONDS, resourceVersion=self._version
                ):
                    pod = event["object"]
                    self._version = pod["metadata"]["resourceVersion"]
                    self.changes.append((event["type"], pod["metadata"]["name"], pod))
                    if self._ended.is_set():
                        return
            except (ClientError, HTTPError, OSError):
                self._ended.wait(0.1)

    def end(self) -> None:
        """Follow no longer; the last watch ends with the client or its time."""
        self._ended.set()

    def states(self, words: Mapping[str, str] | None = None) -> dict[str, list[dict[str, Any]]]:
        """The states of each Pod one after the other."""
        found: dict[str, list[dict[str, Any]]] = {}
        for kind, name, pod in list(self.changes):
            state = {"gone": True} if kind == "DELETED" else pod_state(pod, words)
            found.setdefault(name, []).append(state)
        return {name: collapsed(states) for name, states in found.items()}


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Where two records of a scenario differ, as lines; the first is the real kubelet's."""
    found = []
    for label in sorted(set(one["calls"]) | set(other["calls"])):
        if one["calls"].get(label) != other["calls"].get(label):
            found.append(f"calls of {label}: {one['calls'].get(label)} != {other['calls'].get(label)}")
    found += [f"event of the real one only: {line}" for line in one["events"] if line not in other["events"]]
    found += [
        f"event of the embedded one only: {line}" for line in other["events"] if line not in one["events"]
    ]
    for label in one["noted"]:
        found += _unequal(label, _flat(one["noted"][label] or {}), _flat(other["noted"].get(label) or {}))
    for name in one["states"]:
        steps, others = _steps(one["states"][name]), _steps(other["states"].get(name, []))
        for key in sorted(set(steps) | set(others)):
            first, second = steps.get(key, []), others.get(key, [])
            # Kubelets write statuses late and leave out what is no longer true by then.
            if not (_within(first, second) or _within(second, first)):
                found.append(f"steps of Pod {name} {key}: {first} != {second}")
    return found


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        return {
            key: each for name, part in value.items() for key, each in _flat(part, f"{path}/{name}").items()
        }
    if isinstance(value, list):
        return {f"{path}[{number}]": each for number, each in enumerate(value)}
    return {path: value}


def _unequal(label: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    keys = sorted(set(one) | set(other))
    return [
        f"{label} {key}: {one.get(key)} != {other.get(key)}" for key in keys if one.get(key) != other.get(key)
    ]


def _steps(states: Iterable[Any]) -> dict[str, list[Any]]:
    """The values of each field one after the other."""
    flat = [_flat(state) for state in states]
    keys = {key for state in flat for key in state}
    return {key: collapsed(state.get(key) for state in flat) for key in keys}


def _within(one: Iterable[Any], other: Iterable[Any]) -> bool:
    """Whether the first sequence is the second with some left out."""
    rest = iter(other)
    return all(each in rest for each in one)
