"""Typed refusal of requests that protobuf cannot parse, instead of a traceback.

gRPC parses a request before it calls a handler, so an error there bypasses `TypedErrors`: anyone
who can connect could fill the log with tracebacks. Here such a request reaches the handler as an
`Unreadable`, and is refused by it. grpcio gives callers None for a *response* that cannot be
parsed; `require_readable` makes that the party's fault.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, TypeVar

import grpc
from google.protobuf.message import DecodeError

from shuffledp_core.errors import MalformedRequestError, NodeFault

_OURS: Final = "/shuffledp_proto."
"""Methods that stand behind `TypedErrors`, which tells the caller and counts. Health and reflection
do not.
"""

T = TypeVar("T")


class Unreadable:
    """Placeholder for a request that protobuf cannot parse: its length, and protobuf's error."""

    def __init__(self, data: bytes, reason: DecodeError) -> None:
        self._size = len(data)
        self.reason = str(reason)

    def ByteSize(self) -> int:  # noqa: N802 - as a protobuf message, for `draining`
        """Length of the request on the wire, in bytes."""
        return self._size


def require_readable(response: T | None, party: str) -> T:
    """A party's response; raises `NodeFault` if protobuf cannot parse it."""
    if response is None:
        raise NodeFault(
            f"{party} answered with bytes that are not a message of this protocol; check its "
            "version and log"
        )
    return response


def _tolerant(deserializer: Callable[[bytes], Any] | None) -> Callable[[bytes], Any] | None:
    if deserializer is None:  # a handler that takes bytes
        return None

    def read(data: bytes) -> Any:
        try:
            return deserializer(data)
        except DecodeError as error:
            return Unreadable(data, error)

    return read


def _readable(request: Any) -> Any:
    if isinstance(request, Unreadable):
        raise MalformedRequestError(
            f"the {request.ByteSize()} bytes of this request are malformed: {request.reason}"
        )
    return request


async def _all_readable(requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for request in requests:
        yield _readable(request)


class ReadableRequests(grpc.aio.ServerInterceptor):
    """Interceptor that raises `MalformedRequestError` in the handler of an unparsable request.

    It runs after `TypedErrors`.
    """

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        details: grpc.HandlerCallDetails,
    ) -> Any:
        """See `grpc.aio.ServerInterceptor`."""
        handler = await continuation(details)
        if handler is None:
            return handler
        kind = f"{_KINDS[handler.request_streaming]}_{_KINDS[handler.response_streaming]}"
        wrap = _stream if inspect.isasyncgenfunction(getattr(handler, kind)) else _call
        read = _all_readable if handler.request_streaming else _readable
        make = getattr(grpc, f"{kind}_rpc_method_handler")
        return make(
            wrap(getattr(handler, kind), read, typed=details.method.startswith(_OURS)),
            request_deserializer=_tolerant(handler.request_deserializer),
            response_serializer=handler.response_serializer,
        )


_KINDS: Final = {False: "unary", True: "stream"}


def _call(inner: Any, read: Callable[[Any], Any], *, typed: bool) -> Any:
    async def call(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        try:
            return await inner(read(request), context)
        except MalformedRequestError as error:
            if typed:
                raise
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))

    return call


def _stream(inner: Any, read: Callable[[Any], Any], *, typed: bool) -> Any:
    async def stream(
        request: Any, context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[Any]:
        try:
            async for response in inner(read(request), context):
                yield response
        except MalformedRequestError as error:
            if typed:
                raise
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))

    return stream
