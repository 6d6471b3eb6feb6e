"""Tracing of an accusation: nodes answer in turn, and each answer is checked at once.

docs/mixing.md, "Blame".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias, TypeVar

import structlog

from shuffledp_core.errors import MalformedDocumentError, UnansweredError
from shuffledp_core.mixproof.blame import check_passage, check_trace
from shuffledp_core.mixproof.chain import Chain
from shuffledp_core.mixproof.evidence import AccusedRecord, Passage, Trace, Transcript
from shuffledp_core.mixproof.history import Inquiry
from shuffledp_core.runtime.tasks import in_thread

Ask: TypeAlias = Callable[[int, Inquiry], Awaitable[Inquiry]]
"""Asks the node at a position to continue an inquiry; raises `UnansweredError` if it does not."""

T = TypeVar("T")


async def trace_accusation(
    chain: Chain, position: int, accused: Sequence[AccusedRecord], ask: Ask
) -> Transcript:
    """Trace an accusation by the party at `position`; return the transcript.

    1. Check that every accused record fails to decrypt (T1, T2).
    2. The nodes before it, the nearest first, continue every trace to a claim (T3 to T5). If too
       few users remain without those who are named, the trace ends here.
    3. The nodes, from the first on, follow the keys of every named user to the accuser (T6).

    Raises:
        BadBlameError: a statement does not verify; the message names the party.
        TooFewReportsError: too few users remain in step 2.
        UnansweredError: a node did not continue after two calls; no party is proved guilty.
    """
    inquiry = Inquiry(
        position,
        tuple(chain.case.headers),
        chain.transcripts,
        tuple(Trace(record) for record in accused),
    )
    await in_thread(_check, chain, inquiry)  # 1
    for at in range(position - 1, 0, -1):  # 2
        inquiry = await once_more(partial(_further, chain, at, inquiry, ask))
    named = {trace.origin.credential: trace for trace in inquiry.traces if trace.origin is not None}
    chain.left_without(len(named))
    traces = tuple(named[credential] for credential in sorted(named))
    passages = replace(
        inquiry, traces=traces, passages=tuple(Passage(credential) for credential in sorted(named))
    )
    for at in range(1, position):  # 3
        passages = await once_more(partial(_further, chain, at, passages, ask))
    return Transcript(position, inquiry.traces, passages.passages)


async def once_more(call: Callable[[], Awaitable[T]]) -> T:
    """Make a call; repeat it once if the answer was missing or damaged.

    Raises:
        UnansweredError, MalformedDocumentError: the second call failed, too. Other errors are
            raised at once.
    """
    try:
        return await call()
    except (UnansweredError, MalformedDocumentError) as error:
        structlog.get_logger().warning(
            "no valid answer to a trace; asking once more", reason=str(error)
        )
    return await call()


async def _further(chain: Chain, at: int, inquiry: Inquiry, ask: Ask) -> Inquiry:
    """Check that an answer extends the traces of an inquiry by one valid step; return it."""
    answer = await ask(at, inquiry)
    if not all(
        _has_step(part) for part in (answer.passages if inquiry.passages else answer.traces)
    ):
        raise UnansweredError(f"no answer: node {at} left some of the requested traces unanswered")
    if inquiry.passages:
        further = replace(inquiry, passages=answer.passages)
        before = replace(
            further,
            passages=tuple(
                replace(passage, hops=passage.hops[:-1]) for passage in further.passages
            ),
        )
    else:
        further = replace(inquiry, traces=answer.traces)
        before = replace(further, traces=tuple(_without_last(trace) for trace in further.traces))
    if before != inquiry:
        raise UnansweredError(
            f"no answer: node {at} answered a different inquiry from the one that it was sent"
        )
    await in_thread(_check, chain, further)
    return further


def _has_step(part: Trace | Passage) -> bool:
    return bool(part.hops) if isinstance(part, Passage) else bool(part.steps or part.origin)


def _without_last(trace: Trace) -> Trace:
    return (
        replace(trace, origin=None)
        if trace.origin is not None
        else replace(trace, steps=trace.steps[:-1])
    )


def _check(chain: Chain, inquiry: Inquiry) -> None:
    if inquiry.passages:
        for passage in inquiry.passages:
            check_passage(chain.case, passage)
        return
    for trace in inquiry.traces:
        check_trace(chain.case, inquiry.position, trace)
