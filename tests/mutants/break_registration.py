"""Mutants of registration."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc

from driver.sdk import listening, log, plugin, services
from driver.sdk.readiness import Readiness
from tests.mutants.registry import mutant


class _Nothing:
    present = True

    def close(self, grace: float | None = None) -> None: ...


@mutant("never-registers")
def never_registers() -> None:
    """It serves its plugin service, but no registration socket."""
    real = listening.serve
    listening.serve = lambda server, path, **more: (  # type: ignore[assignment]
        _Nothing() if str(path).endswith("-reg.sock") else real(server, path, **more)
    )


@mutant("wrong-type")
def wrong_type() -> None:
    """GetInfo answers the type of another kind of plugin."""
    services.PLUGIN_TYPE = "CSIPlugin"  # type: ignore[misc]


@mutant("wrong-name")
def wrong_name() -> None:
    """GetInfo answers a name that is not the one in the slices."""
    real = plugin.registration_server
    plugin.registration_server = lambda driver, *rest: real(f"x{driver}", *rest)


@mutant("relative-endpoint")
def relative_endpoint() -> None:
    """GetInfo answers an endpoint that is right only in the driver's own directory."""
    real = plugin.registration_server
    plugin.registration_server = lambda driver, endpoint, ready: real(driver, Path(endpoint).name, ready)


@mutant("bare-versions")
def bare_versions() -> None:
    """GetInfo lists version numbers, as was right before Kubernetes 1.32."""
    services.DRA_SERVICES = ("1.0.0",)  # type: ignore[assignment]


@mutant("unserved-version")
def unserved_version() -> None:
    """GetInfo lists v1beta1.DRAPlugin, which the plugin service does not serve."""
    plugin.plugin_server = lambda claims, ready: services._server(
        [services._Plugin(services.dra_v1_pb2, claims, share_ids=True).handler(services.DRA_V1)]
    )


@mutant("late-service")
def late_service() -> None:
    """It registers two seconds before its plugin service listens."""
    real = listening.serve

    def serve(server: Any, path: Any, **more: Any) -> Any:
        if str(path).endswith("-reg.sock"):
            return real(server, path, **more)
        timer = threading.Timer(2.0, real, (server, path), more)
        timer.daemon = True
        timer.start()
        return _Nothing()

    listening.serve = serve


@mutant("silent-refusal")
def silent_refusal() -> None:
    """A refused registration is not reported anywhere."""
    services.log = SimpleNamespace(info=log.info, warning=log.warning, error=lambda *words, **more: None)  # type: ignore[assignment]
    real = Readiness.set
    Readiness.set = lambda self, name, reason="": None if name == "registered" else real(self, name, reason)  # type: ignore[method-assign]


def _handlers(server: Any) -> Any:
    return server._state.generic_handlers[0]._method_handlers


@mutant("registers-once")
def registers_once() -> None:
    """After a registration has succeeded, GetInfo is not answered for a second kubelet."""
    real = plugin.registration_server

    def registration_server(*arguments: Any) -> Any:
        server = real(*arguments)
        handlers = _handlers(server)
        info, notify = (
            next(name for name in handlers if name.endswith(end)) for end in ("GetInfo", "Status")
        )
        done = threading.Event()
        answer, note = handlers[info].unary_unary, handlers[notify].unary_unary

        def get_info(request: Any, context: Any) -> Any:
            if done.is_set():
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, "already registered")
            return answer(request, context)

        def notified(request: Any, context: Any) -> Any:
            done.set()
            return note(request, context)

        handlers[info] = handlers[info]._replace(unary_unary=get_info)
        handlers[notify] = handlers[notify]._replace(unary_unary=notified)
        return server

    plugin.registration_server = registration_server


@mutant("dies-on-stale-socket")
def dies_on_stale_socket() -> None:
    """A socket file left by a killed predecessor makes it give up."""
    real = listening.serve

    def serve(server: Any, path: Any, **more: Any) -> Any:
        if Path(path).exists():
            raise OSError(98, "Address already in use", str(path))
        return real(server, path, **more)

    listening.serve = serve


@mutant("refuses-notification")
def refuses_notification() -> None:
    """NotifyRegistrationStatus is answered with an error, so the kubelet takes the plugin out again."""
    real = plugin.registration_server

    def registration_server(*arguments: Any) -> Any:
        server = real(*arguments)
        handlers = _handlers(server)
        name = next(name for name in handlers if name.endswith("Status"))

        def notified(request: Any, context: Any) -> Any:
            context.abort(grpc.StatusCode.INTERNAL, "cannot take notifications")

        handlers[name] = handlers[name]._replace(unary_unary=notified)
        return server

    plugin.registration_server = registration_server
