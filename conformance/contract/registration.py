"""Tests of registration: the driver's registration socket and the kubelet's handshake."""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Callable

from conformance.catalogue import requirement
from conformance.contract import plugin
from conformance.contract.bench import Bench
from conformance.contract.plugin import CallFailed
from conformance.model import Failed, check
from conformance.waiting import poll
from node_api import services, sockets

_CODE = "drakit-made-up-failure"
_WORDS_SECONDS = 15.0


@requirement("DRV-REG-01")
def registration_service(bench: Bench) -> None:
    bench.info()


@requirement("DRV-REG-02")
def plugin_type(bench: Bench) -> None:
    info = bench.info()
    check(info.type == services.PLUGIN_TYPE, f"type {services.PLUGIN_TYPE}", f"type {info.type!r}")


@requirement("DRV-REG-03")
def plugin_name(bench: Bench) -> None:
    info = bench.info()
    check(info.name == bench.descriptor.name, f"name {bench.descriptor.name}", f"name {info.name!r}")


@requirement("DRV-REG-04")
def endpoint(bench: Bench) -> None:
    path = bench.info().endpoint
    if not path:
        return
    check(path.startswith("/"), "an absolute path", f"endpoint {path!r}")
    try:
        sockets.check_socket_path(path)
        mode = bench.node.stat(path).st_mode
    except sockets.SocketPathError as error:
        raise Failed("a path that a socket can have", str(error)) from None
    except OSError as error:
        raise Failed("an existing socket", f"endpoint {path!r}: {error.strerror}") from None
    check(stat.S_ISSOCK(mode), "a socket", f"endpoint {path!r} is something else")


@requirement("DRV-REG-05")
def supported_versions(bench: Bench) -> None:
    listed = bench.info().supported_versions
    known = [version for version in listed if version in services.DRA_SERVICES]
    check(bool(known), " or ".join(services.DRA_SERVICES), f"versions {', '.join(listed) or 'none'}")


@requirement("DRV-REG-06")
def versions_served(bench: Bench) -> None:
    for version in bench.versions():
        for call in (plugin.prepare, plugin.unprepare):
            _check_answers(bench, call, version)


def _check_answers(bench: Bench, call: Callable[..., object], version: str) -> None:
    """Raise Failed unless the driver itself answers a call without claims, if only with an error."""
    try:
        call(bench.service_socket(), version, [], timeout=plugin.INFO_SECONDS)
    except CallFailed as error:
        check(error.answered, f"an answer of {version}", error)


@requirement("DRV-REG-07")
def service_before_registration(bench: Bench) -> None:
    bench.start(wait=False)
    # The kit's own look at the socket is quicker than a kubelet's, which ticks once a second.
    _check_answers(bench, plugin.prepare, bench.version())


@requirement("DRV-REG-08")
def failure_is_reported(bench: Bench) -> None:
    bench.start()
    # Answering with an error, or ending, are ways to take note of it as well.
    with contextlib.suppress(CallFailed):
        plugin.notify(bench.registration_socket(), registered=False, error=_CODE)
    poll(
        lambda: _CODE in bench.process.output(),
        _WORDS_SECONDS,
        f"the text {_CODE!r} in the driver's output",
        bench.last_words,
    )


@requirement("DRV-REG-09")
def kubelet_restart(bench: Bench) -> None:
    bench.start()
    bench.node.kubelet.restart()
    bench.wait_registered()
    bench.unprepare(bench.claims.never_created())


@requirement("DRV-REG-10")
def sigkill_and_stale_sockets(bench: Bench) -> None:
    bench.start()
    bench.process.kill()
    bench.start(wait=False)
    bench.wait_answering()


@requirement("DRV-REG-11")
def handshake(bench: Bench) -> None:
    bench.start()
