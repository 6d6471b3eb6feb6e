"""Typed errors across gRPC: what one side raises, the other side catches, as the same class.

The class name travels in the trailing metadata `shuffledp-error`, the message as the status text. What is not one
of ours is logged here and reaches the caller as an internal error without details.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, Final, NoReturn, TypeAlias

import grpc
import structlog

from shuffledp_core import errors
from shuffledp_core.documents.models import Roster
from shuffledp_core.transport.draining import draining
from shuffledp_core.transport.tls import peer_name, role_of

_KEY: Final = "shuffledp-error"

_STATUS: Final[tuple[tuple[type[errors.ShuffleDPError], grpc.StatusCode], ...]] = (
    (errors.AccessDenied, grpc.StatusCode.PERMISSION_DENIED),
    (errors.UnknownRoundError, grpc.StatusCode.NOT_FOUND),
    (errors.PolicyRefusal, grpc.StatusCode.FAILED_PRECONDITION),
    (errors.RoundStateError, grpc.StatusCode.FAILED_PRECONDITION),
    (errors.UnreachableError, grpc.StatusCode.UNAVAILABLE),
    (errors.ShuffleDPError, grpc.StatusCode.INVALID_ARGUMENT),
)

Context = grpc.aio.ServicerContext[Any, Any]
Rules = Mapping[str, frozenset[str]]
"""Full method name -> roles that may call it. A method without a rule is refused, but for health and reflection."""

_Heard: TypeAlias = Callable[[Any], AbstractAsyncContextManager[None]]
"""What surrounds a refusal, given the request, so that the caller hears it: `draining` where requests are streams."""

_OPEN: Final = ("/grpc.health.v1.Health/", "/grpc.reflection.")


async def _abort(context: Context, error: errors.ShuffleDPError) -> NoReturn:
    status = next(code for kind, code in _STATUS if isinstance(error, kind))
    await context.abort(status, str(error), ((_KEY, type(error).__name__),))


class TypedErrors(grpc.aio.ServerInterceptor):
    """Checks who may call what, and turns our errors into statuses that `translated` turns back.

    `refused` is told the full method name and the error of every call that fails here.
    """

    def __init__(
        self, roster: Roster, rules: Rules, refused: Callable[[str, Exception], None] = lambda _method, _error: None
    ) -> None:
        self._roster = roster
        self._rules = rules
        self._refused = refused
        self._log = structlog.get_logger()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        details: grpc.HandlerCallDetails,
    ) -> Any:
        """See `grpc.aio.ServerInterceptor`."""
        handler = await continuation(details)
        if handler is None or details.method.startswith(_OPEN):
            return handler
        roles = self._rules.get(details.method, frozenset())
        make = _MAKERS[(handler.request_streaming, handler.response_streaming)]
        inner = getattr(handler, make.__name__.removesuffix("_rpc_method_handler"))
        guard = self._guard_stream if handler.response_streaming else self._guard_call
        return make(
            guard(inner, details.method, roles, draining if handler.request_streaming else nullcontext),
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )

    def _check(self, context: Context, method: str, roles: frozenset[str]) -> None:
        name = peer_name(context)
        if role_of(name, self._roster) not in roles:
            allowed = ", ".join(sorted(roles)) or "nobody"
            raise errors.AccessDenied(f"{name or 'an unnamed caller'!r} may not call {method}; allowed: {allowed}")

    def _guard_call(self, inner: Any, method: str, roles: frozenset[str], heard: _Heard) -> Any:
        async def call(request: Any, context: Context) -> Any:
            try:
                async with heard(request):
                    self._check(context, method, roles)
                return await inner(request, context)
            except errors.ShuffleDPError as error:
                self._refused(method, error)
                await _abort(context, error)
            except Exception as error:
                self._unexpected(method, error)
                raise

        return call

    def _guard_stream(self, inner: Any, method: str, roles: frozenset[str], heard: _Heard) -> Any:
        async def stream(request: Any, context: Context) -> AsyncIterator[Any]:
            try:
                async with heard(request):
                    self._check(context, method, roles)
                async for response in inner(request, context):
                    yield response
            except errors.ShuffleDPError as error:
                self._refused(method, error)
                await _abort(context, error)
            except Exception as error:
                self._unexpected(method, error)
                raise

        return stream

    def _unexpected(self, method: str, error: Exception) -> None:
        if not isinstance(error, grpc.aio.AbortError):
            self._refused(method, error)
            self._log.exception("unexpected failure", method=method)


_MAKERS: Final[dict[tuple[bool, bool], Callable[..., Any]]] = {
    (False, False): grpc.unary_unary_rpc_method_handler,
    (False, True): grpc.unary_stream_rpc_method_handler,
    (True, False): grpc.stream_unary_rpc_method_handler,
    (True, True): grpc.stream_stream_rpc_method_handler,
}

_GONE: Final = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,  # also a server that sheds load: docs/operations.md, "Load test"
    grpc.StatusCode.INTERNAL,  # also what a caller sees whose stream was refused while it was still writing
}


_ENDED: Final = "CERTIFICATE_VERIFY_FAILED: certificate has expired"
"""What gRPC's TLS says of the other side's certificate, or of the authority above it."""


def typed(error: grpc.aio.AioRpcError, party: str) -> errors.ShuffleDPError:
    """The error that `party` raised, or `UnreachableError` when it did not answer or its certificate has ended."""
    code = dict(error.trailing_metadata() or ()).get(_KEY)
    if code is not None:
        kind = errors.by_code(code if isinstance(code, str) else code.decode("ascii", "replace"))
        return kind(error.details() or "no details")
    if _ENDED in (error.details() or ""):
        return errors.ExpiredTLSCertificateError(
            f"{party} cannot be trusted any more: its TLS certificate, or the authority above it, has ended; renew it "
            "(`shuffledp keys renew`), put it in place and restart the party"
        )
    if error.code() in _GONE:
        return errors.UnreachableError(f"{party} does not answer ({error.code().name}: {error.details()})")
    return errors.NodeFault(f"{party} failed ({error.code().name}: {error.details()}); see its log")


@asynccontextmanager
async def translated(party: str) -> AsyncIterator[None]:
    """Calls to `party` in this block raise our own errors.

    grpc.aio cancels a call from inside when its deadline passes while the request is still being written, and the
    caller sees a cancellation that nobody asked for: to us that is a party that does not answer.
    """
    task = asyncio.current_task()
    before = 0 if task is None else task.cancelling()
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise typed(error, party) from error
    except asyncio.CancelledError as error:
        if task is None or task.cancelling() > before:
            raise
        raise errors.UnreachableError(f"{party} does not answer (the call ended while it was written)") from error
