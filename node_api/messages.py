"""Message classes of the services in `node_api.services`, found by full method name."""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import NamedTuple

from google.protobuf import message_factory
from google.protobuf.message import Message

from node_api.gen import dra_v1_pb2, dra_v1beta1_pb2, health_v1_pb2, health_v1alpha1_pb2, registration_pb2
from node_api.services import DRA_V1, DRA_V1BETA1, HEALTH_V1, HEALTH_V1ALPHA1, REGISTRATION

MODULES: dict[str, ModuleType] = {
    DRA_V1: dra_v1_pb2,
    DRA_V1BETA1: dra_v1beta1_pb2,
    HEALTH_V1: health_v1_pb2,
    HEALTH_V1ALPHA1: health_v1alpha1_pb2,
    REGISTRATION: registration_pb2,
}
"""Service (short name; `REGISTRATION` for the registration) -> module with its messages."""


class MessageTypes(NamedTuple):
    """Request and response class of one method."""

    request: type[Message]
    response: type[Message]


@cache
def _by_method() -> dict[str, MessageTypes]:
    return {
        f"/{service.full_name}/{method.name}": MessageTypes(
            message_factory.GetMessageClass(method.input_type),
            message_factory.GetMessageClass(method.output_type),
        )
        for module in MODULES.values()
        for service in module.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }


def message_types(full_method: str) -> MessageTypes | None:
    """Return the message classes of "/<full service name>/<method>", None for a method unknown here."""
    return _by_method().get(full_method)
