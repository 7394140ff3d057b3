"""Tests of registration: the driver's registration socket and the kubelet's handshake."""

from __future__ import annotations

import re
import stat

from conformance.catalogue import requirement
from conformance.contract import plugin
from conformance.contract.bench import Bench, poll
from conformance.contract.plugin import CallFailed
from conformance.model import Failed, check
from node_api import services, sockets

_BARE_VERSION = re.compile(r"v?\d+(\.\d+)*\Z")
_CODE = "drakit-made-up-failure"


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
    sockets.check_socket_path(path)
    try:
        mode = bench.node.stat(path).st_mode
    except OSError as error:
        raise Failed("an existing socket", f"endpoint {path!r}: {error.strerror}") from None
    check(stat.S_ISSOCK(mode), "a socket", f"endpoint {path!r} is something else")


@requirement("DRV-REG-05")
def supported_versions(bench: Bench) -> None:
    listed = bench.info().supported_versions
    bare = [version for version in listed if _BARE_VERSION.match(version)]
    check(not bare, "names of gRPC services such as v1.DRAPlugin", f"versions {', '.join(listed)}")
    known = [version for version in listed if version in services.DRA_SERVICES]
    check(bool(known), f"{' or '.join(services.DRA_SERVICES)}", f"versions {', '.join(listed) or 'none'}")


@requirement("DRV-REG-06")
def versions_served(bench: Bench) -> None:
    info = bench.info()
    for version in info.dra_versions:
        try:
            plugin.prepare(bench.service_socket(), version, [])
        except CallFailed as error:
            raise Failed(f"{version} answers an empty Prepare", str(error)) from None


@requirement("DRV-REG-07")
def service_before_registration(bench: Bench) -> None:
    bench.start(wait=False)
    # The kit's own look at the socket is quicker than a kubelet's, which ticks once a second.
    for version in bench.info().dra_versions[:1]:
        try:
            plugin.prepare(bench.service_socket(), version, [], timeout=plugin.INFO_SECONDS)
        except CallFailed as error:
            raise Failed(
                "the plugin service answers at once after registration appeared", str(error)
            ) from None


@requirement("DRV-REG-08")
def failure_is_reported(bench: Bench) -> None:
    bench.start()
    try:
        plugin.notify(bench.registration_socket(), registered=False, error=_CODE)
    except CallFailed as error:
        # Answering the notification with an error is one way to take note of it; being gone is not.
        check(error.code != "UNAVAILABLE", "the driver takes the notification", error)
    poll(
        lambda: _CODE in bench.process.output(),
        5.0,
        f"the text {_CODE!r} in the driver's output",
        lambda: f"its last lines are: {bench.process.tail(5)}",
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
