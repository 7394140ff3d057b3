"""Faults that an API proxy injects: wrong answers, delays, cut connections, expired watches."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from clusters.api_status import ApiError, conflict, invalid, qualified
from clusters.proxies.api_calls import Where, fits
from clusters.request_info import RequestInfo
from dra_api.errors import FieldError

INJECTED: Final = "injected by the API proxy of the test"

Cut = Literal["before", "after"]
WatchFault = Literal["cut", "expire"]


@dataclass(eq=False)
class Fault:
    """One fault: which calls it hits and what happens to them.

    `times` bounds the number of hits. `status` answers with that code instead of the server; `delay` (seconds)
    comes before anything else; `cut` resets the connection before or after the server has handled the request;
    `watch` ends matching watches, open ones included: "cut" resets the connection, "expire" sends the ERROR
    event 410. `reason`, `message` and `retry_after` (seconds) change the answer of `status`.
    """

    where: Where
    times: int | None = None
    status: int | None = None
    reason: str | None = None
    message: str | None = None
    retry_after: int | None = None
    delay: float = 0.0
    cut: Cut | None = None
    watch: WatchFault | None = None
    _hits: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        actions = [self.status is not None, self.cut is not None, self.watch is not None]
        if sum(actions) > 1 or not (any(actions) or self.delay):
            raise ValueError("a fault needs one of status, cut and watch, or a delay")
        if self.status is not None and self.status not in _BUILDERS:
            known = ", ".join(str(code) for code in sorted(_BUILDERS))
            raise ValueError(f"no answer with status {self.status} can be made; possible: {known}")
        if isinstance(self.where.get("verbs"), str):
            raise TypeError("verbs is a sequence of verbs, not one string")

    @property
    def hits(self) -> int:
        """How often the fault struck."""
        with self._lock:
            return self._hits

    def take(self, identity: str, info: RequestInfo) -> bool:
        """Whether the fault strikes this call now; counts the hit."""
        if not fits(self.where, identity, info):
            return False
        with self._lock:
            if self.times is not None and self._hits >= self.times:
                return False
            self._hits += 1
            return True

    def __str__(self) -> str:
        if self.status is not None:
            return f"answered {self.status}"
        if self.cut is not None:
            return f"cut {self.cut} the server handled it"
        if self.watch is not None:
            return "watch expired" if self.watch == "expire" else "watch cut"
        return f"delayed {self.delay:g} s"


def answer(fault: Fault, info: RequestInfo, body: Any) -> ApiError:
    """The answer of a status fault, as the API server words it; `body` is the decoded request body."""
    assert fault.status is not None  # noqa: S101 - the caller chose a status fault
    name = info.name
    if not name and isinstance(body, dict):
        metadata = body.get("metadata") or {}
        name = metadata.get("name") or metadata.get("generateName") or ""
    error = _BUILDERS[fault.status](info, name)
    if fault.reason:
        error.reason = fault.reason
    if fault.message:
        error.message = fault.message
        if error.details and "causes" in error.details:
            causes = [{**cause, "message": fault.message} for cause in error.details["causes"]]
            error.details = {**error.details, "causes": causes}
    if fault.retry_after is not None:
        error.headers["Retry-After"] = str(fault.retry_after)
    return error


def expired() -> dict[str, Any]:
    """The Status of a watch whose resource version is too old."""
    return _expired(RequestInfo("", ""), "").status()


def _details(info: RequestInfo, name: str) -> dict[str, Any]:
    pairs = (("name", name), ("group", info.group), ("kind", info.resource))
    return {key: value for key, value in pairs if value}


def _conflict(info: RequestInfo, name: str) -> ApiError:
    if info.verb == "create":
        text = f'{qualified(info.resource, info.group)} "{name}" already exists'
        return ApiError(409, "AlreadyExists", text, _details(info, name))
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(info.resource, info.group, name, why)


def _expired(info: RequestInfo, name: str) -> ApiError:
    return ApiError(410, "Expired", "The resourceVersion for the provided watch is too old.")


def _invalid(info: RequestInfo, name: str) -> ApiError:
    return invalid(info.resource, info.group, name, [FieldError("Invalid", "spec", INJECTED, "")])


def _too_many(info: RequestInfo, name: str) -> ApiError:
    text = "Too many requests, please try again later."
    return ApiError(429, "TooManyRequests", text, {"retryAfterSeconds": 1}, {"Retry-After": "1"})


def _internal(info: RequestInfo, name: str) -> ApiError:
    details = {"causes": [{"message": INJECTED}]}
    return ApiError(500, "InternalError", f"Internal error occurred: {INJECTED}", details)


_BUILDERS: Final[dict[int, Callable[[RequestInfo, str], ApiError]]] = {
    401: lambda info, name: ApiError(401, "Unauthorized", "Unauthorized"),
    403: lambda info, name: ApiError(
        403,
        "Forbidden",
        f'{qualified(info.resource, info.group)} "{name}" is forbidden: {INJECTED}',
        _details(info, name),
    ),
    404: lambda info, name: ApiError(
        404, "NotFound", f'{qualified(info.resource, info.group)} "{name}" not found', _details(info, name)
    ),
    409: _conflict,
    410: _expired,
    422: _invalid,
    429: _too_many,
    500: _internal,
    503: lambda info, name: ApiError(503, "ServiceUnavailable", f"the server is unavailable: {INJECTED}"),
    504: lambda info, name: ApiError(
        504, "Timeout", "Timeout: request did not complete within the allotted duration"
    ),
}
