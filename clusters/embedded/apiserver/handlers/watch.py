"""Watch streams (api-machinery section 11)."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable
from typing import Any, Final

from aiohttp import web

from clusters.api_status import ApiError
from clusters.chance import CHANCE
from clusters.embedded.apiserver import negotiation
from clusters.embedded.apiserver import options as request_options
from clusters.embedded.apiserver.call import Call
from clusters.embedded.apiserver.changes import Notice, Watcher
from clusters.embedded.apiserver.codec import dump_json, encode_changed
from clusters.embedded.apiserver.handlers.read import indexed_term, predicate
from clusters.embedded.apiserver.negotiation import Negotiated
from clusters.embedded.apiserver.options import ListOptions
from clusters.embedded.apiserver.resources import Served
from clusters.embedded.apiserver.storage import ExpiredError, Object
from clusters.embedded.apiserver.transform import Transformer
from clusters.embedded.apiserver.views import empty, from_storage
from clusters.embedded.apiserver.warning_headers import add_warnings
from dra_api import wire

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
# A bookmark comes this long before the timeout, so that a client resumes from a fresh revision.
_LAST_BOOKMARK: Final = 2.0
# What a client that fell too far behind gets to read what is on its way, in seconds.
_CATCH_UP: Final = 1.0


class _Stream:
    """Writes events of one watch in the form that the client asked for."""

    def __init__(self, call: Call, served: Served, form: Negotiated, transformer: Transformer) -> None:
        self._served = served
        self._form = form
        self._transformer = transformer
        self._cache_key = (served.api_version, form, transformer.shared_key)
        self.response = web.StreamResponse()
        self._call = call
        self._abort: asyncio.TimerHandle | None = None

    def give_up(self) -> None:
        """End the connection of a client that does not read, unless it catches up soon."""
        self.response.force_close()
        transport = self._call.http.transport
        if transport is not None:
            self._abort = asyncio.get_running_loop().call_later(_CATCH_UP, transport.abort)

    def finished(self) -> None:
        """Nothing hangs any more."""
        if self._abort is not None:
            self._abort.cancel()

    async def open(self, headers: dict[str, str]) -> None:
        response = self.response
        response.headers.update(headers)
        media_type = self._form.media_type
        if media_type != negotiation.JSON:
            media_type += ";stream=watch"
        response.headers["Content-Type"] = media_type
        add_warnings(response.headers, self._call.warnings)
        await response.prepare(self._call.http)
        # The header must reach the client before the first event.
        await response.write(b"")

    def frame(self, kind: str, obj: Object) -> bytes:
        """One event with an object in the version of the request, already transformed."""
        if self._form.media_type == negotiation.PROTOBUF:
            return wire.encode_watch_frame(kind, obj)
        line = dump_json({"type": kind, "object": obj})
        if self._form.media_type == negotiation.YAML:
            return b"---\n" + line
        return line

    def event(self, kind: str, obj: Object) -> bytes:
        """One event with a stored object."""
        return self.frame(kind, self._transformer.event(from_storage(obj, self._served)))

    def notice(self, notice: Notice) -> bytes:
        """One event for a change; equal streams share the encoding."""
        if self._transformer.shared_key is None:
            return self.event(notice.type, notice.object)
        key = (notice.type, notice.object is notice.change.object, *self._cache_key)
        data = notice.change.encoded.get(key)
        if data is None:
            data = notice.change.encoded[key] = self._encode(notice)
        return data

    def _encode(self, notice: Notice) -> bytes:
        if self._form.media_type != negotiation.JSON or self._form.transform:
            return self.event(notice.type, notice.object)
        obj = from_storage(notice.object, self._served)
        if obj is not notice.object:
            return self.event(notice.type, notice.object)
        line = encode_changed(notice.change, obj, self._served.api_version)
        return b'{"type":"%b","object":%b}\n' % (notice.type.encode(), line[:-1])

    def bookmark(self, revision: int, *, initial_end: bool = False) -> bytes:
        metadata: dict[str, Any] = {"resourceVersion": str(revision)}
        if initial_end:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        return self.frame("BOOKMARK", self._transformer.event({**empty(self._served), "metadata": metadata}))

    async def write(self, frames: Iterable[bytes]) -> None:
        data = b"".join(frames)
        if data:
            await self.response.write(data)


def _too_old(error: ExpiredError) -> Object:
    message = f"too old resource version: {error.revision} ({error.oldest})"
    return ApiError(410, "Expired", message).status()


def _start(options: ListOptions) -> tuple[int | None, bool]:
    """The revision to watch from (None: now) and whether present objects come first."""
    text = options.resource_version
    try:
        revision = request_options.parse_revision(text) if text else 0
    except ValueError as error:
        raise ApiError(500, "", str(error)) from error
    if options.send_initial_events is not None:
        if options.send_initial_events:
            return None, True
        return (revision or None), False
    return (revision, False) if revision else (None, True)


def _timeout(call: Call, options: ListOptions) -> float:
    if options.timeout is not None and options.timeout > 0:
        return float(options.timeout)
    low, high = call.api.config.watch_timeout
    return CHANCE.uniform(low, high)


async def watch(call: Call, served: Served, headers: dict[str, str]) -> web.StreamResponse:
    """A watch request: answers with a stream that lasts until its timeout."""
    options = request_options.list_options(call.query, watch=True)
    form = negotiation.negotiate(call.accept, negotiation.WATCH)
    transformer = Transformer(served, form, call.query.get("includeObject", ""), call.api.now)
    matches = _watch_predicate(call, served, options)
    since, initial = _start(options)
    store, key = call.api.store, served.resource.key
    selects = indexed_term(served, options)
    namespace = call.info.namespace if served.resource.namespaced and call.info.namespace else None
    if options.send_initial_events and since is None and options.resource_version not in ("", "0"):
        await _wait_fresh(call, options)
    deadline = time.monotonic() + _timeout(call, options)
    stream = _Stream(call, served, form, transformer)
    try:
        watcher = store.watch(key, since, namespace, matches, selects)
    except ExpiredError as error:
        await stream.open(headers)
        await stream.write([stream.frame("ERROR", _too_old(error))])
        return stream.response
    watcher.on_overflow = stream.give_up
    try:
        # Snapshot and watcher begin at the same revision: nothing can be written in between.
        present = store.list(*key, namespace) if initial else []
        revision = store.revision
        await stream.open(headers)
        frames = [stream.event("ADDED", obj) for obj in present if matches is None or matches(obj)]
        if options.send_initial_events and options.bookmarks:
            frames.append(stream.bookmark(revision, initial_end=True))
        await stream.write(frames)
        try:
            await _follow(call, stream, watcher, deadline, bookmarks=options.bookmarks, since=revision)
        except ConnectionError:
            return stream.response
        except Exception as error:
            call.api.config.log.exception("watch of %s failed", served.resource.qualified)
            failure = ApiError(500, "InternalError", f"Internal error occurred: {error}")
            await stream.write([stream.frame("ERROR", failure.status())])
    finally:
        store.unwatch(key, watcher, selects)
        stream.finished()
    with contextlib.suppress(ConnectionError):
        await stream.response.write_eof()
    return stream.response


def _watch_predicate(call: Call, served: Served, options: ListOptions) -> Any:
    matches = predicate(served, options)
    name = call.info.parts[1] if len(call.info.parts) > 1 else ""
    if not name:
        return matches

    # The deprecated form /watch/.../NAME follows one object.
    def one(obj: Object) -> bool:
        return obj["metadata"]["name"] == name and (matches is None or matches(obj))

    return one


async def _wait_fresh(call: Call, options: ListOptions) -> None:
    asked = request_options.parse_revision(options.resource_version)
    if not await call.api.store.reached(asked, 3.0):
        raise request_options.too_large_revision(asked, call.api.store.revision)


async def _follow(
    call: Call, stream: _Stream, watcher: Watcher, deadline: float, *, bookmarks: bool, since: int
) -> None:
    """Send changes until the deadline, the watcher's end or the client's leave."""
    interval = call.api.config.bookmark_interval
    told = since
    next_bookmark = min(time.monotonic() + interval, deadline - _LAST_BOOKMARK)
    while True:
        now = time.monotonic()
        if now >= deadline:
            return
        due = next_bookmark if bookmarks and next_bookmark > now else deadline
        notices = await watcher.take(max(min(due, deadline) - now, 0.001))
        if notices:
            told = notices[-1].change.revision
            await stream.write([stream.notice(notice) for notice in notices])
        elif watcher.closed:
            return
        now = time.monotonic()
        if bookmarks and now >= next_bookmark:
            revision = call.api.store.revision
            if revision > told:
                await stream.write([stream.bookmark(revision)])
                told = revision
            last = deadline - _LAST_BOOKMARK
            next_bookmark = min(now + interval, last) if now < last else deadline + 1
        if call.http.transport is None or call.http.transport.is_closing():
            return
        await asyncio.sleep(0)
