"""Messages between devices and an HTTPS gateway: paths, bodies, problems.

docs/reference/gateway.md.

Signed documents travel as they are, inside JSON; an envelope is base64 in a submission's body, and
a board is plain bytes. Each error of ours is a problem document (RFC 9457) whose `code` is the
error's class.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Final

import msgspec

from shuffledp_core import errors
from shuffledp_core.documents.models import HexKey
from shuffledp_core.documents.signed import Signed, from_json

CURRENT: Final = "/v1/announcement"
"""The announcement of the newest open round."""
ANNOUNCEMENT: Final = "/v1/rounds/{round_id}/announcement"
SUBMISSIONS: Final = "/v1/rounds/{round_id}/submissions"
RESULT: Final = "/v1/rounds/{round_id}/result"
BOARD: Final = "/v1/rounds/{round_id}/board"
TILE: Final = "/v1/rounds/{round_id}/tiles/{index}"
HEALTH: Final = "/healthz"
OPENAPI: Final = "/v1/openapi.json"
ROSTER: Final = "/v1/roster"
ENROLMENTS: Final = "/v1/enrolments"
WEB_FILES: Final = "/v1/web/{name}"
"""For pages only: a gateway without `[web]` does not have these three."""

JSON: Final = "application/json"
BYTES: Final = "application/octet-stream"
PROBLEM: Final = "application/problem+json"

MAX_PROBLEM_BYTES: Final = 2**14
"""Longest problem document: our messages have at most 2000 characters, of up to 6 bytes in JSON."""

MAX_DISCARDS: Final = 256
"""Most discards beside a result: one of each node of a route."""


class _Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class SubmissionBody(_Body, frozen=True, kw_only=True):
    """A submission: two signed documents and the sealed envelope."""

    credential: Signed
    claim: Signed
    envelope: bytes


class EnrolmentBody(_Body, frozen=True, kw_only=True):
    """A one-time code, and the public key for which it requests a credential."""

    code: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    population: Annotated[str, msgspec.Meta(max_length=64)]
    public_key: HexKey


class ResultBody(_Body, frozen=True, kw_only=True):
    """A round's signed result, and the discards that nodes have signed so far.

    `log` is the proof that the result is in the public log (C2SP tlog-proof), if there is one.
    """

    result: Signed
    discards: tuple[Signed, ...] = ()
    log: str | msgspec.UnsetType = msgspec.UNSET


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """An error as a problem document of RFC 9457; unknown fields are ignored."""

    type: str
    title: str
    status: int
    detail: str
    code: str


_STATUS: Final[tuple[tuple[type[errors.ShuffleDPError], HTTPStatus], ...]] = (
    (errors.AccessDenied, HTTPStatus.FORBIDDEN),
    (errors.UnknownRoundError, HTTPStatus.NOT_FOUND),
    (errors.BusyError, HTTPStatus.SERVICE_UNAVAILABLE),
    (errors.UnreachableError, HTTPStatus.BAD_GATEWAY),
    (errors.NodeFault, HTTPStatus.BAD_GATEWAY),
    (errors.SubmissionClosedError, HTTPStatus.CONFLICT),
    (errors.DifferentSubmissionError, HTTPStatus.CONFLICT),
    (errors.RoundStateError, HTTPStatus.CONFLICT),
    (errors.ClientFault, HTTPStatus.UNPROCESSABLE_ENTITY),
    (errors.MalformedRequestError, HTTPStatus.BAD_REQUEST),
    (errors.MalformedDocumentError, HTTPStatus.BAD_REQUEST),
    (errors.ShuffleDPError, HTTPStatus.BAD_GATEWAY),
)
"""From special to general: the first class that fits decides.

The last fits every error of ours that no request is the cause of: the gateway's roster has ended,
or a party has sent what does not hold. """

_REFUSALS: Final = (
    errors.AccessDenied,
    errors.BadClaimError,
    errors.BusyError,
    errors.DifferentSubmissionError,
    errors.InvalidSubmissionError,
    errors.MalformedDocumentError,
    errors.MalformedRequestError,
    errors.NodeFault,
    errors.RoundStateError,
    errors.SubmissionClosedError,
    errors.UnknownCredentialError,
    errors.UnknownRoundError,
    errors.UnreachableError,
    errors.WithdrawnCredentialError,
)
_RAISED: Final = {kind.__name__: kind for kind in _REFUSALS}


def problem_of(error: errors.ShuffleDPError, status: HTTPStatus | None = None) -> Problem:
    """The problem document of an error; `status` overrides the error's usual HTTP status."""
    kind = type(error)
    return Problem(
        type=f"urn:shuffledp:error:{kind.__name__}",
        title=(kind.__doc__ or kind.__name__).partition(".")[0].partition("\n")[0],
        status=status or next(code for listed, code in _STATUS if isinstance(error, listed)),
        detail=str(error),
        code=kind.__name__,
    )


def raised_by(problem: bytes, status: int, gateway: str) -> errors.ShuffleDPError:
    """The error that a gateway's problem document represents.

    A gateway can only choose among refusals that it could cause anyway. It cannot feign an error of
    the device's own checks, such as missing messages.
    """
    try:
        document = from_json(problem, Problem)
    except errors.MalformedDocumentError:
        if status in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}:
            return errors.BusyError(f"{gateway} is busy (HTTP status {status})")
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return errors.UnreachableError(f"{gateway} did not answer (HTTP status {status})")
        return errors.NodeFault(
            f"{gateway} answered with HTTP status {status} and no problem document: is it a "
            "gateway?"
        )
    return _RAISED.get(document.code, errors.NodeFault)(
        document.detail or f"{gateway} refused (status {status})"
    )
