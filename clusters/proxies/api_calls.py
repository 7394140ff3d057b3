"""The log of an API proxy: who called what, and how it ended."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypedDict, Unpack

import yaml

from clusters.request_info import RequestInfo
from dra_api import wire
from dra_api.schema import GVK

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"

# Clients name the kind inside of the envelope.
_NO_KIND: Final = GVK("", "", "")

# Bodies that hold credentials are not kept.
_SECRET_RESOURCES: Final = {("authentication.k8s.io", "tokenreviews"), ("", "secrets")}


class Where(TypedDict, total=False):
    """Which calls are meant: a missing key or None fits every call, `verbs` any of its members."""

    identity: str | None
    verbs: Container[str] | None
    group: str | None
    resource: str | None
    subresource: str | None
    namespace: str | None
    name: str | None


def fits(where: Where, identity: str, info: RequestInfo) -> bool:
    """Whether a call of this client is meant."""
    verbs = where.get("verbs")
    return (
        where.get("identity") in (None, identity)
        and (verbs is None or info.verb in verbs)
        and where.get("group") in (None, info.group)
        and where.get("resource") in (None, info.resource)
        and where.get("subresource") in (None, info.subresource)
        and where.get("namespace") in (None, info.namespace)
        and where.get("name") in (None, info.name)
    )


@dataclass
class ApiCall:
    """One request through the proxy.

    `time` is wall-clock time and `monotonic` the clock of `since`, both in seconds at the start of the request.
    `status` is 0 while no answer exists: the connection was cut or the server could not be reached (`fault` says
    so). `duration` in seconds is complete once `done`; a watch is logged when it opens and done when it ends.
    `fault` names what the proxy did to the call, empty if nothing.
    """

    time: float
    monotonic: float
    identity: str
    user_agent: str
    method: str
    info: RequestInfo
    query: Mapping[str, str]
    content_type: str = ""
    raw_body: bytes = field(default=b"", repr=False)
    status: int = 0
    duration: float = 0.0
    done: bool = False
    fault: str = ""
    logged: bool = field(default=False, repr=False)

    @property
    def verb(self) -> str:
        """The verb as authorization names it."""
        return self.info.verb

    @property
    def group(self) -> str:
        """API group, empty for core and for non-resource requests."""
        return self.info.group

    @property
    def version(self) -> str:
        """API version without the group."""
        return self.info.version

    @property
    def resource(self) -> str:
        """Plural resource name, empty for non-resource requests."""
        return self.info.resource

    @property
    def subresource(self) -> str:
        """Subresource, mostly empty."""
        return self.info.subresource

    @property
    def namespace(self) -> str:
        """Namespace of the URL."""
        return self.info.namespace

    @property
    def name(self) -> str:
        """Object name of the URL or of the field selector; empty for a create."""
        return self.info.name

    @property
    def body(self) -> Any:
        """The decoded request body (JSON, YAML or protobuf); None without one or if it cannot be decoded.

        Bodies of secrets and token reviews are never kept.
        """
        return decode_body(self.raw_body, self.content_type)

    def __str__(self) -> str:
        what = self.info.path
        if self.info.is_resource:
            place = f" in {self.namespace}" if self.namespace and self.resource != "namespaces" else ""
            group = f".{self.group}" if self.group else ""
            name = f" {self.name}" if self.name else ""
            sub = f"/{self.subresource}" if self.subresource else ""
            what = f"{self.resource}{group}{sub}{name}{place}"
        clock = time.strftime("%H:%M:%S", time.localtime(self.time)) + f"{self.time % 1:.3f}"[1:]
        end = f"{self.duration:.3f} s" if self.done else "open"
        fault = f" [{self.fault}]" if self.fault else ""
        return f"{clock} {self.identity} {self.verb} {what} -> {self.status or 'no answer'} ({end}){fault}"


def keeps_body(info: RequestInfo) -> bool:
    """Whether the request body may be recorded."""
    return (info.group, info.resource) not in _SECRET_RESOURCES


def decode_body(data: bytes, content_type: str) -> Any:
    """A body as plain data; None if there is none or it cannot be read."""
    if not data:
        return None
    kind = content_type.split(";", 1)[0].strip().lower()
    try:
        if kind == PROTOBUF:
            return wire.decode_object(data, _NO_KIND)
        if kind.endswith("yaml"):
            return yaml.safe_load(data)
        return json.loads(data)
    except (ValueError, yaml.YAMLError):
        return None


class CallLog:
    """All calls in the order of their answers. Thread safe."""

    def __init__(self) -> None:
        self._calls: list[ApiCall] = []
        self._changed = threading.Condition()

    def add(self, call: ApiCall) -> None:
        """Record one call, if it is not yet, and wake whoever waits for it."""
        with self._changed:
            if not call.logged:
                call.logged = True
                self._calls.append(call)
            self._changed.notify_all()

    def finish(self, call: ApiCall, monotonic: float) -> None:
        """Record a call as complete."""
        call.duration = monotonic - call.monotonic
        call.done = True
        self.add(call)

    def calls(
        self, *, since: float | None = None, status: int | None = None, **where: Unpack[Where]
    ) -> list[ApiCall]:
        """The calls that are meant and began after `since` (time.monotonic()) with that status."""
        with self._changed:
            known = list(self._calls)
        return [
            call
            for call in known
            if (since is None or call.monotonic >= since)
            and status in (None, call.status)
            and fits(where, call.identity, call.info)
        ]

    def wait_for(
        self,
        predicate: Callable[[ApiCall], bool],
        timeout: float,
        reason: str,
        *,
        since: float | None = None,
    ) -> ApiCall:
        """The first call that satisfies the predicate, recorded already (after `since`) or within the timeout.

        TimeoutError says the reason and which calls came instead.
        """
        deadline = time.monotonic() + timeout
        with self._changed:
            while True:
                seen = [call for call in self._calls if since is None or call.monotonic >= since]
                for call in seen:
                    if predicate(call):
                        return call
                left = deadline - time.monotonic()
                if left <= 0:
                    last = "; ".join(str(call) for call in seen[-5:]) or "none"
                    raise TimeoutError(f"{reason}: not seen within {timeout:g} s; last calls: {last}")
                self._changed.wait(left)
