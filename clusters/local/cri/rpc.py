"""A gRPC service from a table of methods, with the errors of a runtime as gRPC errors."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

import grpc
from google.protobuf.message import Message

from clusters.containers.model import RuntimeServiceError
from node_api.gen import cri_v1_pb2 as pb

Call = Callable[[Any], Awaitable[Message]]
Stream = Callable[[Any], AsyncIterator[Message]]
log: Final = logging.getLogger(__name__)


def status_code(name: str) -> grpc.StatusCode:
    """The code of a name as gRPC for Go writes it, for example NotFound."""
    return grpc.StatusCode[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()]


def service(name: str, calls: Mapping[str, Call | Stream]) -> grpc.GenericRpcHandler:
    """The handler of a service of the CRI.

    Args:
        name: of the service, such as RuntimeService.
        calls: by name of the method what answers it: a coroutine function, or for a stream an asynchronous generator.

    Raises:
        ValueError: a method of the service is missing, or there is one too many.
    """
    described = pb.DESCRIPTOR.services_by_name[name]
    known = {method.name for method in described.methods}
    if different := sorted(known ^ set(calls)):
        raise ValueError(f"{name}: these methods are on one side only: {', '.join(different)}")
    handlers = {}
    for method in described.methods:
        request = getattr(pb, method.input_type.name).FromString
        where = f"{name}/{method.name}"
        if method.server_streaming:
            handlers[method.name] = grpc.unary_stream_rpc_method_handler(
                _stream(where, calls[method.name]), request, _serialize
            )
        else:
            handlers[method.name] = grpc.unary_unary_rpc_method_handler(
                _unary(where, calls[method.name]), request, _serialize
            )
    return grpc.method_handlers_generic_handler(described.full_name, handlers)


def _serialize(message: Message) -> bytes:
    return message.SerializeToString()


def _unary(where: str, call: Any) -> Any:
    async def answer(request: Message, context: Any) -> Message:
        try:
            answered: Message = await call(request)
        except asyncio.CancelledError:
            raise
        except Exception as problem:
            await _refuse(where, problem, context)
            raise
        return answered

    return answer


def _stream(where: str, call: Any) -> Any:
    async def answer(request: Message, context: Any) -> AsyncIterator[Message]:
        try:
            async for message in call(request):
                yield message
        except asyncio.CancelledError:
            raise
        except Exception as problem:  # noqa: BLE001
            await _refuse(where, problem, context)

    return answer


async def _refuse(where: str, problem: Exception, context: Any) -> None:
    if isinstance(problem, RuntimeServiceError):
        await context.abort(status_code(problem.code), problem.message)
    log.error("%s failed", where, exc_info=problem)
    await context.abort(grpc.StatusCode.UNKNOWN, f"{type(problem).__name__}: {problem}")
