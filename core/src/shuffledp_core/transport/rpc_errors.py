"""Typed errors across gRPC: an error raised on one side is raised as the same class on the other.

The class name travels in the trailing metadata `shuffledp-error`, the message as the status text.
Any other exception is logged here and reaches the caller as an internal error without details.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, nullcontext
from typing import Any, Final, NoReturn

import grpc
import structlog

from shuffledp_core import errors
from shuffledp_core.documents.models import Roster
from shuffledp_core.runtime.config import Limits
from shuffledp_core.transport.doorway import Context, Doorway
from shuffledp_core.transport.draining import draining
from shuffledp_core.transport.instances import OwnInstance
from shuffledp_core.transport.tls import CLIENT, OPERATOR, peer_name, role_of
from shuffledp_core.vocabulary import Role

_KEY: Final = "shuffledp-error"

# From special to general: the first class that fits decides, and the last fits every error of ours.
_STATUS: Final[tuple[tuple[type[errors.ShuffleDPError], grpc.StatusCode], ...]] = (
    (errors.AccessDenied, grpc.StatusCode.PERMISSION_DENIED),
    (errors.UnknownRoundError, grpc.StatusCode.NOT_FOUND),
    (errors.PolicyRefusal, grpc.StatusCode.FAILED_PRECONDITION),
    (errors.RoundStateError, grpc.StatusCode.FAILED_PRECONDITION),
    (errors.UnreachableError, grpc.StatusCode.UNAVAILABLE),
    (errors.ShuffleDPError, grpc.StatusCode.INVALID_ARGUMENT),
)

Rules = Mapping[str, frozenset[str]]
"""Full method name -> roles that may call it. A method without a rule is refused, but for health
and reflection.
"""

__all__ = ["Context", "Rules", "TypedErrors", "error_of_call", "translate_errors"]

_HEALTH: Final = "/grpc.health.v1.Health/Check"
_OPEN: Final = ("/grpc.health.v1.Health/", "/grpc.reflection.")
_PARTIES: Final = frozenset({Role.NODE, Role.ANALYST, Role.ACCOUNTANT, OPERATOR})


async def _abort(context: Context, error: errors.ShuffleDPError, instance: OwnInstance) -> NoReturn:
    status = next(code for kind, code in _STATUS if isinstance(error, kind))
    await context.abort(status, str(error), ((_KEY, type(error).__name__), instance.metadata()))


class TypedErrors(grpc.aio.ServerInterceptor):
    """Checks callers' roles, and turns our errors into statuses that `translate_errors` turns back.

    Every request is handled as a stream, even if it has only one message: otherwise gRPC would wait
    for that message without limit before the caller's role is checked. Here the role is checked
    first, and then the message is read within `doorway`'s limits.

    `refused` is called with the full method name and the error of every call that fails here.
    """

    def __init__(
        self,
        roster: Roster,
        rules: Rules,
        refused: Callable[[str, Exception], None] = lambda _method, _error: None,
        doorway: Doorway | None = None,
    ) -> None:
        self._roster = roster
        self._rules = rules
        self._refused = refused
        self._doorway = doorway or Doorway(Limits())
        self._instance = OwnInstance()
        self._log = structlog.get_logger()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        details: grpc.HandlerCallDetails,
    ) -> Any:
        """See `grpc.aio.ServerInterceptor`."""
        handler = await continuation(details)
        if handler is None:
            return handler
        maker, guard = (
            (grpc.stream_stream_rpc_method_handler, self._guard_stream)
            if handler.response_streaming
            else (grpc.stream_unary_rpc_method_handler, self._guard_call)
        )
        return maker(
            guard(handler, details.method),
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )

    def _guard_call(self, handler: Any, method: str) -> Any:
        inner = handler.stream_unary if handler.request_streaming else handler.unary_unary

        async def call(requests: AsyncIterator[Any], context: Context) -> Any:
            async with self._admit(handler, requests, context, method) as (device, request):
                answer = await inner(request, context)
                if device:
                    self._doorway.mark_answered(context)
                return answer

        return call

    def _guard_stream(self, handler: Any, method: str) -> Any:
        inner = handler.stream_stream if handler.request_streaming else handler.unary_stream

        async def stream(requests: AsyncIterator[Any], context: Context) -> None:
            async with self._admit(handler, requests, context, method) as (device, request):
                if inspect.iscoroutinefunction(inner):  # grpc's own way to watch health
                    await inner(request, context)
                    return
                # Closed as soon as the caller leaves: an abandoned generator keeps what it holds
                # until it is collected.
                async with aclosing(inner(request, context)) as answers:
                    async for answer in answers:
                        with self._doorway.sending(context) if device else nullcontext():
                            if not await _write(context, answer):
                                return

        return stream

    @asynccontextmanager
    async def _admit(
        self, handler: Any, requests: AsyncIterator[Any], context: Context, method: str
    ) -> AsyncIterator[tuple[bool, Any]]:
        """Admit a call; yield whether a device calls, and its request or stream of requests.

        Aborts the call if the block fails.

        1. The caller has the right role.
        2. Its first message arrives in time.
        """
        name = peer_name(context)
        device = role_of(name, self._roster) not in _PARTIES
        line = self._doorway.line(CLIENT if device else name)
        peer = context.peer()
        try:
            async with draining(requests, line, peer):
                self._doorway.enter(context, peer, None if device else name)
                self._check(name, method)  # 1
                context.set_trailing_metadata((self._instance.metadata(),))
                first = await line.wait(anext(aiter(requests), None), peer)  # 2
                yield (
                    device,
                    _with_first(first, requests)
                    if handler.request_streaming
                    else _require(first, method),
                )
        except errors.ShuffleDPError as error:
            self._refused(method, error)
            await _abort(context, error, self._instance)
        except Exception as error:
            self._report_unexpected(method, error)
            raise

    def _check(self, name: str, method: str) -> None:
        if method == _HEALTH:
            return
        roles = _PARTIES if method.startswith(_OPEN) else self._rules.get(method, frozenset())
        if role_of(name, self._roster) not in roles:
            allowed = ", ".join(sorted(roles)) or "nobody"
            raise errors.AccessDenied(
                f"{name or 'an unnamed caller'!r} may not call {method}; allowed: {allowed}"
            )

    def _report_unexpected(self, method: str, error: Exception) -> None:
        if not isinstance(error, grpc.aio.AbortError):
            self._refused(method, error)
            self._log.exception("unexpected failure", method=method)


async def _write(context: Context, answer: Any) -> bool:
    """Send a message of a stream; return False if the caller has gone, which is no failure here."""
    try:
        await context.write(answer)
    except grpc.aio.InternalError:  # all that gRPC says of a connection that has ended
        return False
    return True


def _require(first: Any, method: str) -> Any:
    if first is None:
        raise errors.ClientFault(f"{method} was called without a request")
    return first


async def _with_first(first: Any, rest: AsyncIterator[Any]) -> AsyncIterator[Any]:
    if first is not None:
        yield first
        async for request in rest:
            yield request


SHED_SECONDS: Final = 2.0
"""Pause after a call that a server shed: it has some seconds of work ahead (`queue_seconds`)."""

_GONE: Final = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    # also what a caller sees whose stream was refused while it was still writing
    grpc.StatusCode.INTERNAL,
}


_ENDED: Final = "CERTIFICATE_VERIFY_FAILED: certificate has expired"
"""Text of gRPC's TLS error for an expired certificate of the other side, or of the authority above
it.
"""


def error_of_call(error: grpc.aio.AioRpcError, party: str) -> errors.ShuffleDPError:
    """The error that `party` raised; `UnreachableError` for no answer or an invalid certificate."""
    code = dict(error.trailing_metadata() or ()).get(_KEY)
    if code is not None:
        # Names of our own errors only, any other gives the root class: what a party answers chooses
        # no other exception.
        kind = errors.by_code(code if isinstance(code, str) else code.decode("ascii", "replace"))
        return kind(error.details() or "no details")
    if _ENDED in (error.details() or ""):
        return errors.ExpiredTLSCertificateError(
            f"{party} can no longer be authenticated: its TLS certificate, or the authority that "
            "issued it, has expired; renew it (`shuffledp keys renew`), install it and restart "
            "the party"
        )
    if error.code() is grpc.StatusCode.CANCELLED:
        # By the other side: our own cancellations raise CancelledError.
        shed = errors.BusyError(
            f"{party} dropped the call unanswered, because it is busy with others or stopping; "
            "retry"
        )
        shed.wait_seconds = SHED_SECONDS
        return shed
    if error.code() in _GONE:
        return errors.UnreachableError(
            f"{party} does not answer ({error.code().name}: {error.details()})"
        )
    return errors.NodeFault(f"{party} failed ({error.code().name}: {error.details()}); see its log")


@asynccontextmanager
async def translate_errors(party: str) -> AsyncIterator[None]:
    """Context in which failed calls to `party` raise this project's errors.

    grpc.aio cancels a call from inside when its deadline passes while the request is still being
    written, and the caller sees a cancellation that it did not request: it is reported as a
    party that does not answer.
    """
    task = asyncio.current_task()
    before = 0 if task is None else task.cancelling()
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise error_of_call(error, party) from error
    except asyncio.CancelledError as error:
        if task is None or task.cancelling() > before:
            raise
        raise errors.UnreachableError(
            f"{party} does not answer: it ended the call while the request was still being sent"
        ) from error
