"""The registration handshake of a kubelet with one registration socket."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from clusters.embedded.kubelet.connection import Connection, RpcFailedError
from clusters.embedded.kubelet.rules import choose_health_service, choose_service
from node_api import services
from node_api.gen import registration_pb2


@dataclass(frozen=True)
class Timeouts:
    """Seconds a kubelet waits for each step."""

    dial: float = 10.0
    get_info: float = 1.0
    notify: float = 5.0
    call: float = 45.0


class RegistrationError(Exception):
    """A registration failed; it is tried again after a while. The text is the kubelet's."""


@dataclass(frozen=True)
class PluginInfo:
    """What a plugin said about itself, and what the kubelet chose from it."""

    driver: str
    endpoint: str
    supported_versions: tuple[str, ...]
    service: str
    health_service: str | None


class Handshake:
    """One attempt on one registration socket.

    `register` and `deregister` are the kubelet's own bookkeeping: register raises ValueError to refuse.
    """

    def __init__(
        self,
        socket: str,
        timeouts: Timeouts,
        register: Callable[[PluginInfo], None],
        deregister: Callable[[PluginInfo], None],
    ) -> None:
        self._socket = socket
        self._timeouts = timeouts
        self._register = register
        self._deregister = deregister

    def run(self, connection: Connection) -> PluginInfo:
        """Ask for the plugin's information, decide, and tell the plugin.

        Args:
            connection: to the registration socket.

        Raises:
            RegistrationError: at every failure; the plugin has been told unless it could not be asked.
        """
        if not connection.wait_connected(self._timeouts.dial):
            raise RegistrationError(
                f"RegisterPlugin error -- dial failed at socket {self._socket}, err: failed to dial socket "
                f"{self._socket}, err: context deadline exceeded"
            )
        try:
            said = self._call(
                connection,
                services.GET_INFO,
                registration_pb2.InfoRequest(),
                registration_pb2.PluginInfo,
                self._timeouts.get_info,
            )
        except RpcFailedError as problem:
            raise RegistrationError(
                "RegisterPlugin error -- failed to get plugin info using RPC GetInfo at socket "
                f"{self._socket}, err: {problem}"
            ) from problem
        if said.type != services.PLUGIN_TYPE:
            raise self._refuse(
                connection, f"no handler registered for plugin type: {said.type} at socket {self._socket}"
            )
        endpoint = said.endpoint or self._socket
        versions = tuple(said.supported_versions)
        try:
            service = choose_service(said.name, endpoint, versions)
        except ValueError as problem:
            raise self._refuse(connection, f"plugin validation failed with err: {problem}") from problem
        info = PluginInfo(said.name, endpoint, versions, service, choose_health_service(versions))
        try:
            self._register(info)
        except ValueError as problem:
            raise self._refuse(connection, f"plugin registration failed with err: {problem}") from problem
        # The plugin can be called from here on, before it is told.
        try:
            self._notify(connection, "")
        except RpcFailedError as problem:
            self._deregister(info)
            raise RegistrationError(
                f"RegisterPlugin error -- failed to send registration status at socket {self._socket}, "
                f"err: : {problem}"
            ) from problem
        return info

    def _refuse(self, connection: Connection, reason: str) -> RegistrationError:
        text = f"RegisterPlugin error -- {reason}"
        try:
            self._notify(connection, text)
        except RpcFailedError as problem:
            return RegistrationError(
                f"RegisterPlugin error -- failed to send error at socket {self._socket}, err: {text}: {problem}"
            )
        return RegistrationError(text)

    def _notify(self, connection: Connection, error: str) -> None:
        self._call(
            connection,
            services.NOTIFY_REGISTRATION_STATUS,
            registration_pb2.RegistrationStatus(plugin_registered=not error, error=error),
            registration_pb2.RegistrationStatusResponse,
            self._timeouts.notify,
        )

    def _call(
        self, connection: Connection, method: str, request: Any, response: type[Any], timeout: float
    ) -> Any:
        full = services.full_method(services.REGISTRATION, method)
        return connection.call(full, request, response, timeout)
